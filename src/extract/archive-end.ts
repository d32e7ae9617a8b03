import type { FileHandle } from 'node:fs/promises';
import { ArchiveError } from './errors.js';

/** Bytes of the end record at the end of an archive, without its comment. */
const endRecordSize = 22;
const longestComment = 0xffff;
const endRecord = Buffer.from([0x50, 0x4b, 0x05, 0x06]);
const zip64Locator = 0x07064b50;
const zip64EndRecord = 0x06064b50;

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, Math.max(0, position));
  return buffer.subarray(0, bytesRead);
}

/**
 * The position of the end record in the last bytes of an archive: the last one whose comment reaches exactly to the end,
 * else the last one whose comment fits. -1 if there is none.
 */
function findEndRecord(tail: Buffer): number {
  let fitting = -1;
  for (let from = tail.length - endRecordSize; from >= 0; ) {
    const at = tail.lastIndexOf(endRecord, from);
    if (at < 0) break;
    const behind = tail.length - at - endRecordSize - tail.readUInt16LE(at + 20);
    if (behind === 0) return at;
    if (behind > 0 && fitting < 0) fitting = at;
    from = at - 1;
  }
  return fitting;
}

export interface ArchiveEnd {
  /** Bytes of the archive. */
  readonly size: number;
  readonly entries: number;
  /** Where the directory of the entries lies; null in an archive that needs zip64. */
  readonly directory: { readonly start: number; readonly length: number } | null;
  /** Bytes from the start of the end record to the end of the archive: where unzipper must look for it. */
  readonly tailSize: number;
}

/**
 * The number of entries that the archive states, and where its directory and its end record lie. unzipper allocates memory for that many
 * entries before it reads the first, so the number is checked beforehand; and it is told to use the same record.
 * @throws ArchiveError if there is no end record
 */
export async function archiveEnd(file: FileHandle): Promise<ArchiveEnd> {
  const { size } = await file.stat();
  const tailStart = Math.max(0, size - endRecordSize - longestComment);
  const tail = await readAt(file, tailStart, size - tailStart);
  const at = findEndRecord(tail);
  if (at < 0) throw new ArchiveError('corrupt', 'it is not a zip archive');
  const tailSize = tail.length - at;
  const count = tail.readUInt16LE(at + 10);
  const start = tail.readUInt32LE(at + 16);
  const zip64 = count === 0xffff || start === 0xffffffff;
  if (!zip64 && tail.readUInt16LE(at + 4) !== 0xffff) {
    return { size, entries: count, directory: { start, length: tail.readUInt32LE(at + 12) }, tailSize };
  }

  const locator = await readAt(file, tailStart + at - 20, 20);
  if (locator.length < 20 || locator.readUInt32LE(0) !== zip64Locator) {
    throw new ArchiveError('corrupt', 'its zip64 locator is missing');
  }
  const recordAt = locator.readBigUInt64LE(8);
  const record = recordAt < BigInt(size) ? await readAt(file, Number(recordAt), 56) : Buffer.alloc(0);
  if (record.length < 56 || record.readUInt32LE(0) !== zip64EndRecord) {
    throw new ArchiveError('corrupt', 'its zip64 end record is missing');
  }
  return { size, entries: Number(record.readBigUInt64LE(32)), directory: null, tailSize };
}
