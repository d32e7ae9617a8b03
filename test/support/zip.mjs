// @ts-check
import { crc32, deflateRawSync } from 'node:zlib';

/**
 * One entry of an archive, and what it says of itself, true or not.
 * @typedef {object} Entry
 * @property {string} name
 * @property {string | Uint8Array} [content]
 * @property {boolean} [deflated]
 * @property {number} [mode] Unix file type and mode: 0o120777 is a symbolic link
 * @property {number} [statedSize]
 * @property {number} [statedPacked]
 * @property {number} [crc]
 * @property {number} [flags]
 * @property {number} [method]
 * @property {number} [offset] of its local record, so that entries may share their bytes
 */

/**
 * @param {Entry} entry
 * @param {number} offset
 */
function records(entry, offset) {
  const { name, content = '', deflated = false, mode = 0, flags = 0 } = entry;
  const plain = typeof content === 'string' ? Buffer.from(content) : content;
  const stored = deflated ? deflateRawSync(plain, { level: 9 }) : plain;
  const nameBytes = Buffer.from(name);
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(flags | 0x800, 2);
  common.writeUInt16LE(entry.method ?? (deflated ? 8 : 0), 4);
  common.writeUInt32LE(entry.crc ?? crc32(plain), 10);
  common.writeUInt32LE(entry.statedPacked ?? stored.length, 14);
  common.writeUInt32LE(entry.statedSize ?? plain.length, 18);
  common.writeUInt16LE(nameBytes.length, 22);
  const tail = Buffer.alloc(14);
  tail.writeUInt32LE((mode << 16) >>> 0, 6);
  tail.writeUInt32LE(entry.offset ?? offset, 10);
  return {
    local: Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, nameBytes, stored]),
    central: Buffer.concat([Buffer.from('PK\x01\x02\x14\x03', 'latin1'), common, tail, nameBytes]),
  };
}

/**
 * Writes a zip archive by hand, so that it can be as wrong as a test needs.
 * @param {readonly Entry[]} entries
 * @param {{ statedCount?: number, directoryOffset?: number, tail?: string }} [options] what its end says of it, in
 *   which a count wraps at 65,536, and what follows that
 * @returns {Buffer<ArrayBuffer>}
 */
export function zip(entries, { statedCount = entries.length, directoryOffset, tail = '' } = {}) {
  const locals = [];
  const centrals = [];
  let offset = 0;
  for (const entry of entries) {
    const { local, central } = records(entry, offset);
    centrals.push(central);
    if (entry.offset !== undefined) continue;
    locals.push(local);
    offset += local.length;
  }
  const directory = Buffer.concat(centrals);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(statedCount & 0xffff, 8);
  end.writeUInt16LE(statedCount & 0xffff, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(directoryOffset ?? offset, 16);
  return Buffer.concat([...locals, directory, end, Buffer.from(tail)]);
}

/**
 * An archive of these files.
 * @param {Readonly<Record<string, string | Uint8Array>>} files
 */
export const zipOf = (files) => zip(Object.entries(files).map(([name, content]) => ({ name, content })));
