import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/** Far more than a token or a list of profiles needs. */
const longest = 64 * 1024;

/** What was named is no small file; the message says what it is, without its path. */
export class NotSmallFile extends Error {
  override readonly name = 'NotSmallFile';
}

/** What the shell handed over opened: `<(command)`, or stdin. Whoever writes to it is there. */
const handedOver = /^\/(dev\/(stdin|fd\/\d+)|proc\/self\/fd\/\d+)$/;

/** As much as a buffer holds, or less where there is no more. */
function readUpTo(descriptor: number, buffer: Buffer): Buffer {
  let filled = 0;
  while (filled < buffer.length) {
    const count = readSync(descriptor, buffer, filled, buffer.length - filled, null);
    if (count === 0) break;
    filled += count;
  }
  return buffer.subarray(0, filled);
}

/**
 * Reads a text file that a person named or wrote. A FIFO or a device holds nobody up, and does not fill the memory.
 * @throws NotSmallFile, or the system's error
 */
export function readSmallFile(file: string): string {
  const isHandedOver = handedOver.test(file);
  const descriptor = openSync(file, constants.O_RDONLY | (isHandedOver ? 0 : constants.O_NONBLOCK));
  try {
    if (!isHandedOver && !fstatSync(descriptor).isFile()) throw new NotSmallFile('it is not a regular file');
    const bytes = readUpTo(descriptor, Buffer.alloc(longest + 1));
    if (bytes.length > longest) throw new NotSmallFile(`it is longer than ${longest / 1024} KiB`);
    return bytes.toString();
  } finally {
    closeSync(descriptor);
  }
}
