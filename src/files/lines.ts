import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs';
import { privateMode } from './modes.js';

const { O_APPEND, O_CREAT, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;
const lineFeed = 0x0a;

/**
 * Appends bytes to a file, all of them or none: a full disk may accept only part of a line, which would confuse readers.
 * @param descriptor opened for appending
 * @throws the system's error of the write; if the written part could not be removed, it remains
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

/** Removes this many bytes, which were just written, from the end of a file. Never throws. */
function removeLast(descriptor: number, bytes: number): void {
  try {
    ftruncateSync(descriptor, fstatSync(descriptor).size - bytes);
  } catch {
    // Truncating may be forbidden by an attribute of the file. The error of the failed write is more helpful.
  }
}

/** The last bytes of an open file, at most `max`. */
export function tailOf(descriptor: number, max: number): Buffer {
  const { size } = fstatSync(descriptor);
  const tail = Buffer.alloc(Math.min(size, max));
  return tail.subarray(0, readSync(descriptor, tail, 0, tail.length, size - tail.length));
}

/**
 * Appends lines, all of them or none. If a crash cut off the last line of the file, it is ended first, and remains as a separate
 * line that readers skip.
 * @param descriptor opened for reading and appending
 */
export function appendLines(descriptor: number, lines: readonly string[]): void {
  const last = tailOf(descriptor, 1)[0] ?? lineFeed;
  const text = lines.map((line) => `${line}\n`).join('');
  appendWhole(descriptor, Buffer.from(last === lineFeed ? text : `\n${text}`));
}

function openRegular(file: string, flags: number, mode = privateMode): number {
  const descriptor = openSync(file, flags | O_NONBLOCK, mode);
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  throw new Error('it is not a regular file');
}

/**
 * Opens a file for `appendLines`.
 * @param isMade whether to create the file if it is missing
 * @throws the system's error, or an error if it is not a regular file
 */
export const openLines = (file: string, isMade = true, mode = privateMode): number =>
  openRegular(file, O_RDWR | O_APPEND | (isMade ? O_CREAT : 0), mode);

/**
 * Appends a line to a file, which is created if it is missing.
 * @param how.isKept whether the line is synced to survive a power cut
 * @param how.mode of a new file, before the umask
 */
export function appendLine(
  file: string,
  line: string,
  { isKept = false, mode }: { readonly isKept?: boolean; readonly mode?: number } = {},
): void {
  const descriptor = openLines(file, true, mode);
  try {
    appendLines(descriptor, [line]);
    if (isKept) fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * The lines in the last bytes of a file. The first may be the end of a longer line, and any may be cut off, so readers skip lines
 * that they can't parse.
 */
export function lastLines(file: string, maxBytes: number): string[] {
  const descriptor = openRegular(file, O_RDONLY);
  try {
    const text = tailOf(descriptor, maxBytes).toString();
    return text.split('\n').filter((line) => line !== '');
  } finally {
    closeSync(descriptor);
  }
}
