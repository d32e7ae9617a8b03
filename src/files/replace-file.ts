import { renameSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from './error-code.js';

/** How long to wait before each further try, in milliseconds: 1.5 seconds in all. */
const waits = [10, 40, 150, 300, 1000];

/** Windows refuses to move a file, or to replace one, that a virus scanner or an indexer has open for a moment. */
const isHeld = (cause: unknown): boolean =>
  process.platform === 'win32' && ['EPERM', 'EACCES', 'EBUSY'].includes(errorCode(cause));

/**
 * Gives a file a new name, and replaces the file that has it.
 * @param move for tests
 * @throws the system's error
 */
export async function replaceFile(from: string, to: string, move = rename): Promise<void> {
  for (const wait of waits) {
    try {
      await move(from, to);
      return;
    } catch (cause) {
      if (!isHeld(cause)) throw cause;
    }
    await sleep(wait);
  }
  await move(from, to);
}

/** The same, blocking. */
export function replaceFileSync(from: string, to: string, move = renameSync): void {
  const clock = new Int32Array(new SharedArrayBuffer(4));
  for (const wait of waits) {
    try {
      move(from, to);
      return;
    } catch (cause) {
      if (!isHeld(cause)) throw cause;
    }
    Atomics.wait(clock, 0, 0, wait);
  }
  move(from, to);
}
