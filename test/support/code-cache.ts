import { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';

/** The environment variable that names the directory of the compiled code that all tests share. */
export const codeVariable = 'REMOTE_APP_TEST_CODE';

/**
 * Makes all tests share the compiled code of the program, which Node 22 and newer keep in the home directory: with a new home,
 * each command would compile and save all of it again, which takes longer than most tests.
 */
export function shareCode(home: string): void {
  const shared = process.env[codeVariable];
  if (shared === undefined) return;
  const cache = path.join(home, '.cache');
  mkdirSync(cache, { recursive: true });
  symlinkSync(shared, path.join(cache, 'remote-app'));
}
