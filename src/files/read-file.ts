import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/** The first bytes of a regular file; empty for anything else, and for a file that cannot be read. */
export function firstBytes(file: string | Buffer, max: number): Buffer {
  try {
    const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const buffer = Buffer.alloc(fstatSync(descriptor).isFile() ? max : 0);
      return buffer.subarray(0, readSync(descriptor, buffer, 0, buffer.length, 0));
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return Buffer.alloc(0);
  }
}

/** Up to `max` bytes of a file, from a position on. @throws the system's error */
export function bytesAt(file: string, start: number, max: number): Buffer {
  const descriptor = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(max);
    return bytes.subarray(0, readSync(descriptor, bytes, 0, max, start));
  } finally {
    closeSync(descriptor);
  }
}

/** Number of bytes that are read of a script; Linux reads fewer for the first line. */
const maxBytes = 4096;

/**
 * Reads the start of a script: its first bytes, and the program that the first line names, with its arguments. `shebang` is
 * empty if the file is not a script or cannot be read.
 */
export function readScriptStart(file: string) {
  const text = firstBytes(file, maxBytes).toString('latin1');
  return { shebang: /^#!\s*([^\n]*)/.exec(text)?.[1]?.trim().split(/\s+/) ?? [], text };
}

/** Default maximum size in bytes, far more than a token or a list of profiles needs. */
const defaultMaxBytes = 64 * 1024;

/** The path does not lead to a small file. The message says what it is, without the path. */
class NotSmallFile extends Error {
  override readonly name = 'NotSmallFile';
}

/**
 * A path to something that the shell has opened, such as `<(command)` or stdin: a FIFO with a writer, which may be waited for.
 */
const handedOver = /^\/(dev\/(stdin|fd\/\d+)|proc\/self\/fd\/\d+)$/;

/** Number of bytes read at once. A buffer of the maximum size would cost more than the reading. */
const pieceBytes = 64 * 1024;

/** Reads up to `max` bytes, fewer if the file ends first. */
function readUpTo(descriptor: number, max: number): Buffer {
  const pieces: Buffer[] = [];
  for (let left = max; left > 0; ) {
    const piece = Buffer.allocUnsafe(Math.min(pieceBytes, left));
    const count = readSync(descriptor, piece, 0, piece.length, null);
    if (count === 0) break;
    pieces.push(piece.subarray(0, count));
    left -= count;
  }
  return Buffer.concat(pieces);
}

/**
 * The text of a file that a person may have written, without its byte order mark. PowerShell 5 writes UTF-16 with `>`.
 */
export function decodedText(bytes: Buffer): string {
  const isWide = bytes[0] === 0xff && bytes[1] === 0xfe;
  return bytes.toString(isWide ? 'utf16le' : 'utf8').replace(/^\ufeff/, '');
}

/**
 * Reads a text file that a person named or wrote. Refuses FIFOs and devices, which could block or never end.
 * @param maxBytes maximum size
 * @throws NotSmallFile, or the system's error
 */
export function readSmallFile(file: string, maxBytes = defaultMaxBytes): string {
  const isHandedOver = handedOver.test(file);
  const descriptor = openSync(file, constants.O_RDONLY | (isHandedOver ? 0 : constants.O_NONBLOCK));
  try {
    if (!isHandedOver && !fstatSync(descriptor).isFile()) throw new NotSmallFile('it is not a regular file');
    const bytes = readUpTo(descriptor, maxBytes + 1);
    if (bytes.length > maxBytes) throw new NotSmallFile(`it is longer than ${maxBytes / 1024} KiB`);
    return decodedText(bytes);
  } finally {
    closeSync(descriptor);
  }
}
