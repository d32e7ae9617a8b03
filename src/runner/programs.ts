import { statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The runner's program. */
export const runnerProgram = fileURLToPath(new URL('./main.js', import.meta.url));

/** The program that ends what a killed runner has left. */
export const cleanupProgram = fileURLToPath(new URL('./cleanup.js', import.meta.url));

/** The worker host's program. */
export const workerHostProgram = fileURLToPath(new URL('./worker-host-main.js', import.meta.url));

/** Identifies these program files: an upgrade puts new files and a new directory in their place. */
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
 * Whether the program files have been replaced since this process started: the new ones may expect another `run.json`.
 */
export const areReplaced = (): boolean => identity() !== atStart;
