import { crc32 } from 'node:zlib';

/**
 * Stands in for the package `crc-32`, which archiver sums up every file with, a byte at a time and in JavaScript: half
 * of what storing a large file costs. The build puts it in that package's place.
 */
export default {
  /**
   * The sum of these bytes after others, as a signed number.
   * @param {Uint8Array} bytes
   * @param {unknown} [seed] the sum so far; archiver begins with an empty buffer in its place
   * @returns {number}
   */
  buf: (bytes, seed) => crc32(bytes, typeof seed === 'number' ? seed >>> 0 : 0) | 0,
};
