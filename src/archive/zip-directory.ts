/** The directory at the end of a zip archive, and the records that follow it (APPNOTE 6.3, 4.3.12 to 4.3.16). */

/** Largest values of 16-bit and 32-bit fields. They mean that the zip64 record holds the real number. */
const max16 = 0xffff;
const max32 = 0xffffffff;

/** Length in bytes of the end record, without the archive's comment. */
export const endSize = 22;
export const locatorSize = 20;
export const end64Size = 56;
/** Length in bytes of a directory entry, up to its name. */
export const entrySize = 46;
/** Length in bytes of the zip64 extra field as archiver writes it: a header, both sizes, and the offset. */
const extra64Size = 4 + 3 * 8;
/** The format version that a reader must support for zip64. */
const version64 = 45;

/** The position and length in bytes of an archive's directory, and its number of entries. */
interface Directory {
  readonly entries: number;
  readonly start: number;
  readonly length: number;
}

/**
 * Reads the position and length of an archive's directory.
 * @param tail the last bytes of an archive without a comment
 */
export function directoryIn(tail: Buffer): Pick<Directory, 'start' | 'length'> {
  const end = tail.length - endSize;
  const [length, start] = [tail.readUInt32LE(end + 12), tail.readUInt32LE(end + 16)];
  if (start !== max32) return { start, length };
  const end64 = end - locatorSize - end64Size;
  return {
    start: Number(tail.readBigUInt64LE(end64 + 48)),
    length: Number(tail.readBigUInt64LE(end64 + 40)),
  };
}

/**
 * Shifts the offsets of a part's directory to where the part lies in the whole archive.
 * @param directory as archiver writes it: an entry has no comment, and no extra field but that of zip64 with all its numbers
 * @param by number of bytes before the part
 */
export function movedDirectory(directory: Buffer, by: number): Buffer {
  const moved: Buffer[] = [];
  for (let at = 0; at < directory.length; ) {
    const nameEnd = at + entrySize + directory.readUInt16LE(at + 28);
    const next = nameEnd + directory.readUInt16LE(at + 30);
    const entry = Buffer.from(directory.subarray(at, nameEnd));
    let extra: Buffer = Buffer.from(directory.subarray(nameEnd, next));
    const offset = by + entry.readUInt32LE(42);
    if (extra.length > 0) extra.writeBigUInt64LE(extra.readBigUInt64LE(20) + BigInt(by), 20);
    else if (offset < max32) entry.writeUInt32LE(offset, 42);
    else {
      extra = extra64(entry, offset);
      entry.writeUInt16LE(version64, 6);
      entry.writeUInt16LE(extra.length, 30);
      for (const field of [20, 24, 42]) entry.writeUInt32LE(max32, field);
    }
    moved.push(entry, extra);
    at = next;
  }
  return Buffer.concat(moved);
}

/** The zip64 extra field for an entry without one; its sizes are read from the 32-bit fields. */
function extra64(entry: Buffer, offset: number): Buffer {
  const extra = Buffer.alloc(extra64Size);
  extra.writeUInt16LE(1, 0);
  extra.writeUInt16LE(extra64Size - 4, 2);
  const numbers = [entry.readUInt32LE(24), entry.readUInt32LE(20), offset];
  for (const [index, number] of numbers.entries()) extra.writeBigUInt64LE(BigInt(number), 4 + 8 * index);
  return extra;
}

/**
 * The records at the end of an archive. Zip64 records are included only if a number needs them, because some programs, such as
 * BusyBox, cannot read zip64 archives.
 */
export function endOf({ entries, start, length }: Directory): Buffer {
  const needs64 = entries >= max16 || start >= max32 || length >= max32;
  const end = Buffer.alloc(endSize);
  end.write('PK\x05\x06', 'latin1');
  for (const field of [8, 10]) end.writeUInt16LE(needs64 ? max16 : entries, field);
  end.writeUInt32LE(needs64 ? max32 : length, 12);
  end.writeUInt32LE(needs64 ? max32 : start, 16);
  if (!needs64) return end;
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
