import { lstat, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { Notes } from '../files/notes.js';
import { newFlags, partialMode } from '../files/open-flags.js';
import { syncDirectory } from '../files/sync.js';
import { EntryPacker } from './pack-entry.js';
import { walkFiles } from './walk-files.js';
import { ZipWriter } from './zip-writer.js';

export interface PackOptions {
  /** Which files are packed, by their path relative to the directory; by default all. */
  readonly include?: (name: string) => boolean;
  /** Which files a link inside the directory may lead to, by the target's relative path; by default all. */
  readonly includeTarget?: (name: string) => boolean;
  readonly signal?: AbortSignal;
  /** Called with the bytes of the files read so far. */
  readonly onProgress?: (bytes: number) => void;
  /** Called with the files and bytes read so far; packing goes on when it resolves. */
  readonly pace?: (files: number, bytes: number) => Promise<void> | void;
  /** Whether to make files of this process's user readable if they are not. */
  readonly openUp?: boolean;
  /**
   * Whether packing fails at a file that cannot be read whole, or whose name is not UTF-8. Otherwise such a file is left
   * out, cut or renamed, and a note says so.
   */
  readonly strict?: boolean;
}

export interface Packed {
  readonly files: number;
  /** Size of the files, not of the archive. */
  readonly bytes: number;
  /** One sentence for each file that was renamed, cut or left out; past 20 the last one says how many more there are. */
  readonly notes: readonly string[];
}

/**
 * Writes the files under `source` into a zip archive on `sink`. Files that would not shrink are stored, the others are
 * deflated; sizes past 4 GiB use zip64; links that leave the directory are left out.
 * @param source a directory, not a link to one
 * @throws the system's error if `source` is not a directory, or `sink` fails
 */
export async function packTo(sink: Writable, source: string, options: PackOptions = {}): Promise<Packed> {
  const {
    include = () => true,
    includeTarget = () => true,
    strict = false,
    openUp = false,
    signal,
  } = options;
  const notes = new Notes();
  const zip = new ZipWriter(sink, signal);
  const onMore = (files: number, bytes: number) => {
    options.onProgress?.(bytes);
    return options.pace?.(files, bytes);
  };
  const entries = new EntryPacker(zip, { notes, strict, onMore });
  try {
    for await (const file of walkFiles(source, { include, includeTarget, openUp, strict, notes, signal })) {
      await entries.add(file);
    }
    await zip.finish();
  } catch (cause) {
    throw await zip.abandon(cause);
  }
  return { files: entries.files, bytes: entries.bytes, notes: notes.list() };
}

/**
 * Packs the files under `source` into the zip archive `archive`. The archive gets its name when it is complete and synced
 * to the disk; before that, and after a failure, no file has that name.
 */
export async function packDirectory(
  source: string,
  archive: string,
  options: PackOptions = {},
): Promise<Packed> {
  const partial = `${archive}.partial`;
  try {
    await clearPartial(partial);
    await clearDirectory(archive);
    const file = await open(partial, newFlags, partialMode);
    const packed = await packTo(file.createWriteStream({ flush: true }), source, options);
    await rename(partial, archive);
    syncDirectory(path.dirname(archive));
    return packed;
  } catch (cause) {
    await clearPartial(partial);
    throw cause;
  }
}

/** Removes a partial archive, and whatever else has its name: nobody else may use that name. Follows no link. */
async function clearPartial(partial: string): Promise<void> {
  await rm(partial, { force: true, recursive: true });
}

/** Removes a directory that a job made under the archive's name: a file cannot be renamed over a directory. */
async function clearDirectory(archive: string): Promise<void> {
  const stats = await lstat(archive).catch(() => null);
  if (stats?.isDirectory()) await rm(archive, { recursive: true });
}
