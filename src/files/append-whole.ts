import { fstatSync, ftruncateSync, writeSync } from 'node:fs';

/**
 * Appends bytes to a file, all of them or none: a full disk may accept only part of a line, which would confuse readers.
 * @param descriptor opened for appending
 * @throws the system's error of the write; a part that could not be removed either stays
 */
export function appendWhole(descriptor: number, bytes: Uint8Array): void {
  let written = 0;
  try {
    while (written < bytes.length) written += writeSync(descriptor, bytes, written);
  } catch (cause) {
    if (written > 0) removeLast(descriptor, written);
    throw cause;
  }
}

/** Removes that many bytes, which were just written, from the end of a file. Never throws. */
function removeLast(descriptor: number, bytes: number): void {
  try {
    ftruncateSync(descriptor, fstatSync(descriptor).size - bytes);
  } catch {
    // An attribute of the file may forbid it. The error of the failed write is more helpful.
  }
}
