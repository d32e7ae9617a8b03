import { crc32, gunzipSync } from 'node:zlib';
import type { File as ZipEntry } from 'unzipper';
import { startOfContent } from '../local-header.js';
import type { Batch } from './batches.js';

/** Begins a gzip member that is deflated and has neither name nor time (RFC 1952, 2.3). */
const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/** An entry with its bytes as they lie in the archive. */
interface Packed {
  readonly entry: ZipEntry;
  readonly bytes: Buffer;
}

/** Null where the local header does not lead to the entry's bytes. */
function findPacked(entry: ZipEntry, region: Buffer, at: number): Packed | null {
  const from = startOfContent(region, at);
  if (from === null) return null;
  const to = from + entry.compressedSize;
  return to <= region.length ? { entry, bytes: region.subarray(from, to) } : null;
}

const isDeflated = (entry: ZipEntry): boolean => entry.compressionMethod !== 0;

/**
 * Inflates entries in one call, which for small ones costs a fifth of a call for each: each becomes a gzip member with
 * the sum and the size that the archive states, and members may follow one another (RFC 1952, 2.2).
 */
function inflateTogether(deflated: readonly Packed[]): Buffer | null {
  if (deflated.length === 0) return Buffer.alloc(0);
  const members = deflated.flatMap(({ entry, bytes }) => {
    const trailer = Buffer.allocUnsafe(8);
    trailer.writeUInt32LE(entry.crc32, 0);
    trailer.writeUInt32LE(entry.uncompressedSize, 4);
    return [gzipHeader, bytes, trailer];
  });
  const total = deflated.reduce((sum, { entry }) => sum + entry.uncompressedSize, 0);
  // One byte more than is to come: a buffer that is full to the brim makes zlib set aside another.
  const room = Math.max(total + 1, 64);
  try {
    const inflated = gunzipSync(Buffer.concat(members), { maxOutputLength: room, chunkSize: room });
    return inflated.length === total ? inflated : null;
  } catch {
    return null;
  }
}

/**
 * The files of a batch, checked against what the archive states of them, or null where one of them is not what it
 * should be: whoever extracts them one by one finds out which it is, and what is wrong with it.
 * @param region the batch's bytes in the archive
 */
export function batchContents({ targets, start }: Batch, region: Buffer): Buffer[] | null {
  const packed: Packed[] = [];
  for (const { entry } of targets) {
    const found = findPacked(entry, region, entry.offsetToLocalFileHeader - start);
    if (!found) return null;
    packed.push(found);
  }
  const inflated = inflateTogether(packed.filter(({ entry }) => isDeflated(entry)));
  if (!inflated) return null;
  let at = 0;
  const contents: Buffer[] = [];
  for (const { entry, bytes } of packed) {
    const size = entry.uncompressedSize;
    const content = isDeflated(entry) ? inflated.subarray(at, at + size) : bytes;
    if (isDeflated(entry)) at += size;
    // A crafted entry can end its member and begin another: only these two tell that it is what was stated.
    if (content.length !== size || crc32(content) !== entry.crc32) return null;
    contents.push(content);
  }
  return contents;
}
