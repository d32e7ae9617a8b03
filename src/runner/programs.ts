import { statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Path of the runner's program. */
export const runnerProgram = fileURLToPath(new URL('./main.js', import.meta.url));

/** Path of the program that ends what a killed runner left. */
export const cleanupProgram = fileURLToPath(new URL('./cleanup.js', import.meta.url));

/** Path of the worker host's program. */
export const workerHostProgram = fileURLToPath(new URL('./worker-host-main.js', import.meta.url));

/** Identifies the installed program files: an upgrade replaces the files and their directory. */
function identity(): string {
  return [runnerProgram, workerHostProgram, path.dirname(runnerProgram)]
    .map((each) => {
      const { ino, mtimeMs } = statSync(each, { throwIfNoEntry: false }) ?? {};
      return `${ino} ${mtimeMs}`;
    })
    .join();
}

const atStart = identity();

/**
 * Whether an upgrade has replaced the program files since this process started: the new ones may expect a different `run.json`.
 */
export const areReplaced = (): boolean => identity() !== atStart;
