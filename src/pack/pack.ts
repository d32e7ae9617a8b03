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
  /** Which files go in, by their path relative to the directory; all where it is not given. */
  readonly include?: (name: string) => boolean;
  /** Which files a link of the directory may lead to, by their own path; all where it is not given. */
  readonly includeTarget?: (name: string) => boolean;
  readonly signal?: AbortSignal;
  /** Called with the bytes of the files read so far. */
  readonly onProgress?: (bytes: number) => void;
  /** Called with what was read so far; packing goes on when it resolves. */
  readonly pace?: (files: number, bytes: number) => Promise<void> | void;
  /** Whether what belongs to this process's user, and may not be read, is made readable. */
  readonly openUp?: boolean;
  /**
   * Whether a file that cannot be read whole, or whose name is not UTF-8, ends the packing; else it is left out, cut or
   * renamed, with a note.
   */
  readonly strict?: boolean;
}

export interface Packed {
  readonly files: number;
  /** Size of the files, not of the archive. */
  readonly bytes: number;
  /** What was renamed, cut or left out, one sentence each; the last one counts those that are not told. */
  readonly notes: readonly string[];
}

/**
 * Writes the files under `source` into a zip archive on `sink`. What does not shrink is stored, the rest
 * deflated; sizes past 4 GiB use zip64; links that leave the directory are left out.
 * @param source a directory, and no link to one
 * @throws the system's error where `source` is none, or `sink` fails
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
 * Packs the files under `source` into the zip archive `archive`. The archive appears under its name when it is
 * whole, and on the disk for good; before that, and after a failure, there is none.
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

/** Removes a partial archive, and whatever else has its name: the name is ours alone. A link is not followed. */
async function clearPartial(partial: string): Promise<void> {
  await rm(partial, { force: true, recursive: true });
}

/** Removes a directory that was planted under the archive's name, which nothing else can take the place of. */
async function clearDirectory(archive: string): Promise<void> {
  const stats = await lstat(archive).catch(() => null);
  if (stats?.isDirectory()) await rm(archive, { recursive: true });
}
