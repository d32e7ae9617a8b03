/** The records of a zip archive (APPNOTE 6.3, 4.3.7 to 4.3.16). */

/** The largest values of 16-bit and 32-bit fields. They mean that the real number is in a field of zip64. */
const max16 = 0xffff;
const max32 = 0xffffffff;

/** Bytes of the end record, without the comment of the archive. */
export const endSize = 22;
export const locatorSize = 20;
export const end64Size = 56;
/** Bytes of an entry of the directory before its name. */
export const entrySize = 46;

/** The version of zip that a reader needs: for deflated data and directories, and for zip64. */
const version = 20;
const version64 = 45;
/** The sizes follow the content, because they were not known before; and the name is UTF-8. */
const sizesFollow = 0x8;
const isUtf8 = 0x800;
/** The part of a file's mode that an archive contains: who may read, write and execute it. */
const permissions = 0o777;

/** A file, or an empty directory whose name ends with a slash. */
export interface WrittenEntry {
  readonly name: Buffer;
  readonly mtime: Date;
  readonly mode: number;
  readonly isDeflated: boolean;
  /** Where its local header begins. */
  readonly start: number;
  crc: number;
  /** Bytes of its content, in the archive and in the file. */
  packed: number;
  size: number;
}

const isDirectory = ({ name }: WrittenEntry): boolean => name.at(-1) === '/'.charCodeAt(0);

const needs64 = ({ start, packed, size }: WrittenEntry): boolean => Math.max(start, packed, size) >= max32;

/** The time of MS-DOS, in UTC: two seconds are its unit, and 1980 its first year. */
function dosTime(date: Date): number {
  const years = Math.min(Math.max(date.getUTCFullYear() - 1980, 0), 127);
  const day = (years << 9) | ((date.getUTCMonth() + 1) << 5) | date.getUTCDate();
  const time = (date.getUTCHours() << 11) | (date.getUTCMinutes() << 5) | (date.getUTCSeconds() >> 1);
  return ((day << 16) | time) >>> 0;
}

/** Writes the fields that the local header and the directory share, from the version on to the length of the name. */
function writeShared(record: Buffer, at: number, entry: WrittenEntry): void {
  record.writeUInt16LE(needs64(entry) ? version64 : version, at);
  record.writeUInt16LE(isUtf8 | (isDirectory(entry) ? 0 : sizesFollow), at + 2);
  record.writeUInt16LE(entry.isDeflated ? 8 : 0, at + 4);
  record.writeUInt32LE(dosTime(entry.mtime), at + 6);
  record.writeUInt16LE(entry.name.length, at + 22);
}

/** The header before the content of an entry. */
export function localHeader(entry: WrittenEntry): Buffer {
  const header = Buffer.alloc(30);
  header.write('PK\x03\x04', 'latin1');
  writeShared(header, 4, entry);
  return Buffer.concat([header, entry.name]);
}

/** What follows the content of a file. */
export function descriptorOf({ crc, packed, size }: WrittenEntry): Buffer {
  const is64 = Math.max(packed, size) >= max32;
  const record = Buffer.alloc(is64 ? 24 : 16);
  record.write('PK\x07\x08', 'latin1');
  record.writeUInt32LE(crc, 4);
  for (const [index, bytes] of [packed, size].entries()) {
    if (is64) record.writeBigUInt64LE(BigInt(bytes), 8 + 8 * index);
    else record.writeUInt32LE(bytes, 8 + 4 * index);
  }
  return record;
}

/** What the directory says about an entry. */
export function directoryEntry(entry: WrittenEntry): Buffer {
  const { name, mode, start, crc, packed, size } = entry;
  const is64 = needs64(entry);
  const record = Buffer.alloc(entrySize);
  const extra = Buffer.alloc(is64 ? 28 : 0);
  record.write('PK\x01\x02', 'latin1');
  // Made on Unix: the mode is one of its.
  record.writeUInt16LE((3 << 8) | version64, 4);
  writeShared(record, 6, entry);
  record.writeUInt32LE(crc, 16);
  for (const [at, number] of [
    [20, packed],
    [24, size],
    [42, start],
  ] as const)
    record.writeUInt32LE(is64 ? max32 : number, at);
  record.writeUInt16LE(extra.length, 30);
  const type = isDirectory(entry) ? 0o040000 : 0o100000;
  record.writeUInt32LE((((type | (mode & permissions)) << 16) | (isDirectory(entry) ? 0x10 : 0)) >>> 0, 38);
  if (is64) {
    extra.writeUInt16LE(1, 0);
    extra.writeUInt16LE(24, 2);
    for (const [index, number] of [size, packed, start].entries())
      extra.writeBigUInt64LE(BigInt(number), 4 + 8 * index);
  }
  return Buffer.concat([record, name, extra]);
}

/**
 * The records at the end of an archive. Those of zip64 are among them only if a number needs them, because some programs,
 * such as BusyBox, cannot read archives with zip64.
 */
export function endOf({
  entries,
  start,
  length,
}: {
  /** Where the directory lies in its archive, in bytes, and the number of its entries. */
  readonly entries: number;
  readonly start: number;
  readonly length: number;
}): Buffer {
  const is64 = entries >= max16 || start >= max32 || length >= max32;
  const end = Buffer.alloc(endSize);
  end.write('PK\x05\x06', 'latin1');
  for (const field of [8, 10]) end.writeUInt16LE(is64 ? max16 : entries, field);
  end.writeUInt32LE(is64 ? max32 : length, 12);
  end.writeUInt32LE(is64 ? max32 : start, 16);
  if (!is64) return end;
  const end64 = Buffer.alloc(end64Size);
  end64.write('PK\x06\x06', 'latin1');
  end64.writeBigUInt64LE(BigInt(end64Size - 12), 4);
  for (const field of [12, 14]) end64.writeUInt16LE(version64, field);
  for (const field of [24, 32]) end64.writeBigUInt64LE(BigInt(entries), field);
  end64.writeBigUInt64LE(BigInt(length), 40);
  end64.writeBigUInt64LE(BigInt(start), 48);
  const locator = Buffer.alloc(locatorSize);
  locator.write('PK\x06\x07', 'latin1');
  locator.writeBigUInt64LE(BigInt(start + length), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([end64, locator, end]);
}
