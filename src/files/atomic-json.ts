import {
  closeSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { errorCode } from './error-code.js';

/**
 * Replaces a JSON file so that a reader, or a crash, sees the old text or the new one and never half of it.
 * Synchronous: a state change is on disk before anything acts upon it.
 */
export function writeJsonFile(path: string, value: unknown): void {
  const partial = `${path}.${process.pid}.partial`;
  try {
    writeFileSync(partial, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
    renameSync(partial, path);
  } catch (cause) {
    rmSync(partial, { force: true });
    throw cause;
  }
}

/** Bytes set aside for a JSON file that must be writable on a full disk. */
const reservedBytes = 4096;

/**
 * Sets room aside for a small JSON file, so that it can be written when the disk is full by then.
 * @returns what writes it, once; the text must not be longer than 4096 bytes
 */
export function reserveJsonFile(path: string): (value: unknown) => void {
  const partial = `${path}.reserved`;
  writeFileSync(partial, ' '.repeat(reservedBytes), { mode: 0o600 });
  return (value) => {
    const text = Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
    // Opened without truncating: the blocks it has are the blocks it needs.
    const file = openSync(partial, 'r+');
    try {
      writeSync(file, text);
      ftruncateSync(file, text.length);
    } finally {
      closeSync(file);
    }
    renameSync(partial, path);
  };
}

/** Reads a JSON file; undefined where there is none. */
export function readJsonFile(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}
