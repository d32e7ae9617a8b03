import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/** The first bytes of a regular file, at most so many; none of anything else, and of what cannot be read. */
export function firstBytes(file: string, most: number): Buffer {
  try {
    const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const buffer = Buffer.alloc(fstatSync(descriptor).isFile() ? most : 0);
      return buffer.subarray(0, readSync(descriptor, buffer, 0, buffer.length, 0));
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return Buffer.alloc(0);
  }
}
