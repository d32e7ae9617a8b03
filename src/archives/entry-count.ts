import type { FileHandle } from 'node:fs/promises';
import { ArchiveError } from './errors.js';

/** Bytes at the end of the archive in which unzipper looks for the end record; the two must agree. */
const tailSize = 80;
const endRecord = Buffer.from([0x50, 0x4b, 0x05, 0x06]);
const zip64Locator = 0x07064b50;
const zip64EndRecord = 0x06064b50;

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, Math.max(0, position));
  return buffer.subarray(0, bytesRead);
}

/**
 * How many entries the archive says that it has. unzipper sets aside memory for that many before it reads
 * the first, so a count that lies must be known beforehand.
 * @throws ArchiveError where there is no end record
 */
export async function entryCount(file: FileHandle): Promise<number> {
  const { size } = await file.stat();
  const tailStart = Math.max(0, size - tailSize);
  const tail = await readAt(file, tailStart, tailSize);
  const at = tail.indexOf(endRecord);
  if (at < 0 || at + 22 > tail.length) throw new ArchiveError('corrupt', 'it is not a zip archive');
  const count = tail.readUInt16LE(at + 10);
  const zip64 = count === 0xffff || tail.readUInt32LE(at + 16) === 0xffffffff;
  if (!zip64 && tail.readUInt16LE(at + 4) !== 0xffff) return count;

  const locator = await readAt(file, tailStart + at - 20, 20);
  if (locator.length < 20 || locator.readUInt32LE(0) !== zip64Locator) {
    throw new ArchiveError('corrupt', 'its zip64 locator is missing');
  }
  const recordAt = locator.readBigUInt64LE(8);
  const record = recordAt < BigInt(size) ? await readAt(file, Number(recordAt), 56) : Buffer.alloc(0);
  if (record.length < 56 || record.readUInt32LE(0) !== zip64EndRecord) {
    throw new ArchiveError('corrupt', 'its zip64 end record is missing');
  }
  return Number(record.readBigUInt64LE(32));
}
