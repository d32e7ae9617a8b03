import { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';

/** The environment variable that names the directory of the compiled code that all tests share. */
export const codeVariable = 'REMOTE_APP_TEST_CODE';

/**
 * Makes the compiled code of the program in a new home directory the one that all tests share: each command would compile,
 * and save, the whole of its code again, which takes longer than most tests.
 */
export function shareCode(home: string): void {
  const shared = process.env[codeVariable];
  if (shared === undefined) return;
  const cache = path.join(home, '.cache/remote-app');
  mkdirSync(cache, { recursive: true });
  for (const name of ['code', 'compile-cache']) symlinkSync(shared, path.join(cache, name));
}
