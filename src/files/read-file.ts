import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/** The first bytes of a regular file, up to this many; empty for anything else, and for what cannot be read. */
export function firstBytes(file: string | Buffer, most: number): Buffer {
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

/** Bytes of a script that are read: more than Linux reads of its first line. */
const maxBytes = 4096;

/** The beginning of a script. */
interface ScriptStart {
  /** The words of its first line: what runs it, and that program's arguments. Empty for what is no script. */
  readonly shebang: readonly string[];
  /** Its first bytes, the first line among them. */
  readonly text: string;
}

/** @returns the start of a script; of a file that is none, or cannot be read, one without words */
export function readScriptStart(file: string): ScriptStart {
  const text = firstBytes(file, maxBytes).toString('latin1');
  return { shebang: /^#!\s*([^\n]*)/.exec(text)?.[1]?.trim().split(/\s+/) ?? [], text };
}

/** Default size limit of a small file, in bytes: far more than a token or a list of profiles needs. */
const usual = 64 * 1024;

/** The path does not lead to a small file. The message says what it is, without the path. */
class NotSmallFile extends Error {
  override readonly name = 'NotSmallFile';
}

/** A path to something that the shell opened, such as `<(command)` or stdin: a FIFO that has a writer. */
const handedOver = /^\/(dev\/(stdin|fd\/\d+)|proc\/self\/fd\/\d+)$/;

/**
 * Initial size of the read buffer, and by how much it grows when it is full: most files are far shorter than the limit.
 */
const firstPiece = 8 * 1024;
const growth = 4;

/** Reads until the buffer is full or the file ends. */
function readUpTo(descriptor: number, most: number): Buffer {
  let buffer = Buffer.alloc(Math.min(most, firstPiece));
  let filled = 0;
  while (filled < most) {
    if (filled === buffer.length) buffer = Buffer.concat([buffer], Math.min(most, growth * filled));
    const count = readSync(descriptor, buffer, filled, buffer.length - filled, null);
    if (count === 0) break;
    filled += count;
  }
  return buffer.subarray(0, filled);
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
 * @param maxBytes largest size that is read
 * @throws NotSmallFile, or the system's error
 */
export function readSmallFile(file: string, maxBytes = usual): string {
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
