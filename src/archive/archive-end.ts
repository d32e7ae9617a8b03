import type { FileHandle } from 'node:fs/promises';
import { ArchiveError } from './errors.js';

/** Bytes of the end record at the end of an archive, without its comment. */
const endRecordSize = 22;
const maxComment = 0xffff;
const endRecord = Buffer.from([0x50, 0x4b, 0x05, 0x06]);
const zip64Locator = 0x07064b50;
const zip64EndRecord = 0x06064b50;
const digitalSignature = 0x05054b50;
/** Bytes of an entry in the directory, without its name. */
export const entrySize = 46;
/** What may lie between the directory and the end record. */
const endParts = [zip64EndRecord, digitalSignature];

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

/**
 * Checks that nothing but records of the archive's end lies between its directory and the end record. Of two archives in one
 * file, the second one's end would otherwise be taken for that of the first, whose entries lie where it says.
 * @throws ArchiveError
 */
async function checkPlace(
  file: FileHandle,
  { start, length }: ArchiveEnd['directory'],
  endAt: number,
): Promise<void> {
  if (start + length === endAt) return;
  const next = await readAt(file, start + length, 4);
  const isEnd = start + length < endAt && next.length === 4 && endParts.includes(next.readUInt32LE());
  if (!isEnd) throw new ArchiveError('corrupt', 'its directory is not where its end says it is');
}

export interface ArchiveEnd {
  /** Bytes of the archive. */
  readonly size: number;
  /** As it states them. */
  readonly entries: number;
  /** Where the directory of the entries lies. */
  readonly directory: { readonly start: number; readonly length: number };
  /** Bytes from the start of the end record to the end of the archive: where unzipper must look for it. */
  readonly tailSize: number;
}

/**
 * What the archive states: its number of entries, and where its directory and its end record lie. unzipper allocates memory for that many
 * entries before it reads the first, so the number is checked beforehand; and it is told to use the same record.
 * @throws ArchiveError if there is no end record, or if it is not that of the directory
 */
export async function archiveEnd(file: FileHandle): Promise<ArchiveEnd> {
  const { size } = await file.stat();
  const tailStart = Math.max(0, size - endRecordSize - maxComment);
  const tail = await readAt(file, tailStart, size - tailStart);
  const at = findEndRecord(tail);
  if (at < 0) throw new ArchiveError('corrupt', 'it is not a zip archive');
  const tailSize = tail.length - at;
  const count = tail.readUInt16LE(at + 10);
  const start = tail.readUInt32LE(at + 16);
  const zip64 = count === 0xffff || start === 0xffffffff;
  if (!zip64 && tail.readUInt16LE(at + 4) !== 0xffff) {
    const directory = { start, length: tail.readUInt32LE(at + 12) };
    await checkPlace(file, directory, tailStart + at);
    return { size, entries: count, directory, tailSize };
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
  const [entries, length, directoryStart] = [32, 40, 48].map((place) =>
    Number(record.readBigUInt64LE(place)),
  ) as [number, number, number];
  const directory = { start: directoryStart, length };
  return { size, entries, directory, tailSize };
}
