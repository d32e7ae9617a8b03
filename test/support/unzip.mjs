// @ts-check
import { crc32, inflateRawSync } from 'node:zlib';

/**
 * The files of a zip archive, by name, each checked against its checksum. Written independently, so that the product's
 * archives are not checked with the product's own reader.
 * @param {Buffer} bytes
 * @returns {Map<string, Buffer>}
 * @throws Error that says what is torn
 */
export function unzip(bytes) {
  const end = bytes.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  if (end < 0) throw new Error(`the archive of ${bytes.length} bytes has no end record`);
  const count = bytes.readUInt16LE(end + 10);
  let at = bytes.readUInt32LE(end + 16);
  /** @type {Map<string, Buffer>} */
  const files = new Map();
  for (let index = 0; index < count; index += 1) {
    if (bytes.readUInt32LE(at) !== 0x02014b50) throw new Error(`entry ${index} has no directory record`);
    const [method, sum] = [bytes.readUInt16LE(at + 10), bytes.readUInt32LE(at + 16)];
    const [packed, size] = [bytes.readUInt32LE(at + 20), bytes.readUInt32LE(at + 24)];
    const [nameLength, extra] = [bytes.readUInt16LE(at + 28), bytes.readUInt16LE(at + 30)];
    const comment = bytes.readUInt16LE(at + 32);
    const name = bytes.toString('utf8', at + 46, at + 46 + nameLength);
    const local = bytes.readUInt32LE(at + 42);
    const start = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
    const stored = bytes.subarray(start, start + packed);
    const content = method === 8 ? inflateRawSync(stored) : stored;
    if (content.length !== size || crc32(content) !== sum) throw new Error(`entry '${name}' is torn`);
    if (!name.endsWith('/')) files.set(name, content);
    at += 46 + nameLength + extra + comment;
  }
  return files;
}
