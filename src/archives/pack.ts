import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ZipArchive } from 'archiver';
import { isCompressible } from './compressible.js';
import { type WalkedFile, walkFiles } from './walk.js';

export interface PackOptions {
  /** Which files go in, by their path relative to the directory; all where it is not given. */
  readonly include?: (name: string) => boolean;
  readonly signal?: AbortSignal;
  /** Called with the bytes of the files read so far. */
  readonly onProgress?: (bytes: number) => void;
}

export interface Packed {
  readonly files: number;
  /** Size of the files, not of the archive. */
  readonly bytes: number;
}

/** Most bytes read from a file at once. */
const readSize = 1024 * 1024;

/** Adds one entry and waits until it is written: one file is open at a time, and closed whatever happens. */
async function addEntry(
  zip: ZipArchive,
  { name, path, stats }: WalkedFile,
  stop: AbortSignal,
): Promise<void> {
  const added = () => once(zip, 'entry', { signal: stop });
  if (stats.isDirectory()) {
    zip.append('', { name });
    await added();
    return;
  }
  const store = !(await isCompressible(path, stats.size));
  // No larger than the file: a stream sets its buffer aside before it knows how much there is.
  const content = createReadStream(path, { highWaterMark: Math.max(1, Math.min(readSize, stats.size)) });
  // archiver forwards its failure, which ends the archive.
  content.on('error', (cause) => zip.destroy(cause));
  try {
    zip.append(content, { name, stats, store });
    await added();
  } finally {
    content.destroy();
    if (!content.closed) await once(content, 'close');
  }
}

/**
 * Writes the files under `source` into a zip archive on `sink`. What does not shrink is stored, the rest
 * deflated; sizes past 4 GiB use zip64; links that leave the directory are left out.
 */
export async function packTo(sink: Writable, source: string, options: PackOptions = {}): Promise<Packed> {
  const zip = new ZipArchive({ zlib: { level: 1 }, highWaterMark: 1 << 20 });
  zip.on('warning', (warning) => zip.destroy(warning));
  zip.on('progress', ({ fs }) => options.onProgress?.(fs.processedBytes));
  const failed = new AbortController();
  const written = pipeline(zip, sink, options.signal ? { signal: options.signal } : {});
  written.catch((cause) => failed.abort(cause));

  let files = 0;
  let bytes = 0;
  try {
    for await (const entry of walkFiles(source)) {
      if (options.include && !options.include(entry.name)) continue;
      await addEntry(zip, entry, failed.signal);
      files += entry.stats.isDirectory() ? 0 : 1;
      bytes += entry.stats.isDirectory() ? 0 : entry.stats.size;
    }
    await zip.finalize();
  } catch (cause) {
    // The first fault counts: the sink's, where it was what stopped us.
    const first = failed.signal.aborted ? failed.signal.reason : cause;
    zip.destroy();
    await written.catch(() => {});
    throw first;
  }
  await written;
  return { files, bytes };
}

/**
 * Packs the files under `source` into the zip archive `archive`. The archive appears under its name when it is
 * whole; before that, and after a failure, there is none.
 */
export async function packDirectory(
  source: string,
  archive: string,
  options: PackOptions = {},
): Promise<Packed> {
  const partial = `${archive}.partial`;
  try {
    const packed = await packTo(createWriteStream(partial), source, options);
    await rename(partial, archive);
    return packed;
  } catch (cause) {
    await rm(partial, { force: true });
    throw cause;
  }
}
