import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import type { ArchiveSource } from './archive-source.js';
import { placeOfContent } from './entry-content.js';
import { damagedEntry } from './errors.js';
import type { ZipEntry } from './zip-entry.js';

/** Bytes copied at once. */
const pieceSize = 1024 * 1024;

/**
 * Copies a stored entry through one buffer. A stream would allocate a new buffer for each piece, and Node collects them
 * only after some 32 MiB.
 * @param onBytes called with the bytes of each piece
 * @throws ArchiveError if the entry does not match what the archive states
 */
export async function copyStored(
  source: ArchiveSource,
  entry: ZipEntry,
  target: FileHandle,
  onBytes: (bytes: number) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { uncompressedSize: size } = entry;
  const start = await placeOfContent(source, entry);
  if (entry.compressedSize !== size) throw damagedEntry(entry.path);
  const buffer = Buffer.allocUnsafe(Math.min(pieceSize, size));
  let sum = 0;
  for (let done = 0; done < size; ) {
    const piece = await source.read(buffer.subarray(0, size - done), start + done);
    if (piece.length === 0) throw damagedEntry(entry.path);
    sum = crc32(piece, sum);
    await target.writeFile(piece, signal ? { signal } : {});
    done += piece.length;
    onBytes(piece.length);
  }
  if (sum !== entry.crc32) throw damagedEntry(entry.path);
}
