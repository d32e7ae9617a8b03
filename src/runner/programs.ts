import { statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The runner's program. */
export const runnerProgram = fileURLToPath(new URL('./main.js', import.meta.url));

/** The program that ends what a runner has left. */
export const cleanupProgram = fileURLToPath(new URL('./cleanup.js', import.meta.url));

/** The keeper's program. */
export const keeperProgram = fileURLToPath(new URL('./keeper-main.js', import.meta.url));

/** What tells these programs from others: an upgrade puts new files and a new directory in their place. */
function identity(): string {
  return [runnerProgram, keeperProgram, path.dirname(runnerProgram)]
    .map((each) => {
      const { ino, mtimeMs } = statSync(each, { throwIfNoEntry: false }) ?? {};
      return `${ino} ${mtimeMs}`;
    })
    .join();
}

const atStart = identity();

/** Whether other programs are in the place of those that this process began with: they may expect another `run.json`. */
export const areReplaced = (): boolean => identity() !== atStart;
