import { fstatSync, ftruncateSync, readSync } from 'node:fs';

/** Bytes at the end of the log that are searched for the beginning of its last line, which is shorter. */
const tailBytes = 64 * 1024;
/** What each line of an audit log begins with. */
const lineStart = '{"time":"';

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** What stands behind the last line feed of a file; null if that is longer than a line of the log. */
function unendedLine(descriptor: number, size: number): string | null {
  const tail = Buffer.alloc(Math.min(size, tailBytes));
  readSync(descriptor, tail, 0, tail.length, size - tail.length);
  const begin = tail.lastIndexOf('\n') + 1;
  return begin === 0 && size > tail.length ? null : tail.toString('latin1', begin);
}

/**
 * Removes the last line of an audit log if a crash or a full disk has cut it off, so that readers of JSON lines do not stop
 * there. Only what begins as a line of this log, has no line end and is not whole is removed; anything else stays.
 * @param descriptor open for reading and writing
 * @returns whether the file ends with a line end now, or is empty
 * @throws the system's error
 */
export function removeTornLine(descriptor: number): boolean {
  const { size } = fstatSync(descriptor);
  const line = unendedLine(descriptor, size);
  if (line === '') return true;
  if (line === null || isJson(line)) return false;
  if (!line.startsWith(lineStart) && !lineStart.startsWith(line)) return false;
  ftruncateSync(descriptor, size - line.length);
  return true;
}
