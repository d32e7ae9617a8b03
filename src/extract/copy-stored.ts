import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import type { File as ZipEntry } from 'unzipper';
import type { ArchiveSource } from './archive-source.js';
import { damagedEntry } from './errors.js';
import { localHeaderSize, startOfContent } from './local-header.js';

/** Bytes copied at once. */
const pieceSize = 1024 * 1024;

/**
 * Copies an entry that is stored, through one buffer: a stream would set aside a new one for each piece, and Node lets
 * 32 MiB of them gather before it looks which are done with.
 * @param onBytes called with the bytes of each piece
 * @throws ArchiveError where the entry is not what the archive states of it
 */
export async function copyStored(
  source: ArchiveSource,
  entry: ZipEntry,
  target: FileHandle,
  onBytes: (bytes: number) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { uncompressedSize: size, offsetToLocalFileHeader: offset } = entry;
  const start = startOfContent(await source.read(Buffer.alloc(localHeaderSize), offset), 0);
  if (start === null || entry.compressedSize !== size) throw damagedEntry(entry.path);
  const buffer = Buffer.allocUnsafe(Math.min(pieceSize, size));
  let sum = 0;
  for (let done = 0; done < size; ) {
    const piece = await source.read(buffer.subarray(0, size - done), offset + start + done);
    if (piece.length === 0) throw damagedEntry(entry.path);
    sum = crc32(piece, sum);
    await target.writeFile(piece, signal ? { signal } : {});
    done += piece.length;
    onBytes(piece.length);
  }
  if (sum !== entry.crc32) throw damagedEntry(entry.path);
}
