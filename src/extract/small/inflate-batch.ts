import { crc32, gunzipSync } from 'node:zlib';
import { isDeflated, startOfContent } from '../entry-content.js';
import type { ZipEntry } from '../zip-entry.js';
import type { Batch } from './batches.js';

/** The header of a gzip member without name and time (RFC 1952, 2.3). */
const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/** An entry with its bytes as they lie in the archive. */
interface Packed {
  readonly entry: ZipEntry;
  readonly bytes: Buffer;
}

/** Null if there is no local header in front of the entry's bytes. */
function findPacked(entry: ZipEntry, region: Buffer, at: number): Packed | null {
  const from = startOfContent(region, at);
  if (from === null) return null;
  const to = from + entry.compressedSize;
  return to <= region.length ? { entry, bytes: region.subarray(from, to) } : null;
}

/**
 * Inflates several entries in one call, which takes a fifth of the time of a call for each. Each entry becomes a gzip member
 * with the checksum and size that the archive states; a gzip file may have several members (RFC 1952, 2.2).
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
  // One byte more than expected: zlib allocates another buffer when one is exactly full.
  const room = Math.max(total + 1, 64);
  try {
    const inflated = gunzipSync(Buffer.concat(members), { maxOutputLength: room, chunkSize: room });
    return inflated.length === total ? inflated : null;
  } catch {
    return null;
  }
}

/**
 * The contents of a batch's files, checked against the sizes and checksums that the archive states. Null if one of them does
 * not match: extracting them one by one then finds out which one, and why.
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
    // Needed although gzip checks as well: a crafted entry can end its member and begin another.
    if (content.length !== size || crc32(content) !== entry.crc32) return null;
    contents.push(content);
  }
  return contents;
}
