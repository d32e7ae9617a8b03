import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ZipArchive } from 'archiver';
import { isCompressible } from './compressible.js';
import { walkFiles } from './walk.js';

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

/**
 * Writes the files under `source` into a zip archive on `sink`. What does not shrink is stored, the rest
 * deflated; sizes past 4 GiB use zip64; links that leave the directory are left out.
 */
export async function packTo(sink: Writable, source: string, options: PackOptions = {}): Promise<Packed> {
  const zip = new ZipArchive({ zlib: { level: 1 }, highWaterMark: 1 << 20 });
  zip.on('warning', (warning) => zip.destroy(warning));
  zip.on('progress', ({ fs }) => options.onProgress?.(fs.processedBytes));
  const written = pipeline(zip, sink, options.signal ? { signal: options.signal } : {});
  // A failure of the sink must end the walk as well; it is awaited, and thrown, below.
  written.catch(() => zip.abort());

  let files = 0;
  let bytes = 0;
  const add = async () => {
    for await (const { name, path, stats } of walkFiles(source)) {
      if (options.include && !options.include(name)) continue;
      if (stats.isDirectory()) {
        zip.append('', { name });
      } else {
        zip.file(path, { name, stats, store: !(await isCompressible(path, stats.size)) } as never);
        files += 1;
        bytes += stats.size;
      }
    }
    await zip.finalize();
  };
  await Promise.all([written, add()]);
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
