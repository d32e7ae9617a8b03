import { linkSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { readJsonFile } from '../files/atomic-json.js';
import { errorCode } from '../files/error-code.js';
import { identify, isAlive, type ProcessIdentity } from '../runner/process-table.js';
import { SetupError } from './setup-error.js';

/**
 * Makes this process the only server of a data directory; the lock of a server that was killed is taken over.
 * @returns what gives the lock back
 * @throws SetupError where another server works on it
 */
export function lockDataDirectory(directory: string): () => void {
  const lock = path.join(directory, 'serve.lock');
  const own = `${lock}.${process.pid}`;
  writeFileSync(own, JSON.stringify(identify(process.pid)), { mode: 0o600 });
  try {
    for (;;) {
      try {
        linkSync(own, lock);
        return () => rmSync(lock, { force: true });
      } catch (cause) {
        if (errorCode(cause) !== 'EEXIST') throw cause;
      }
      const holder = readJsonFile(lock) as ProcessIdentity | undefined;
      if (holder && isAlive(holder)) {
        throw new SetupError(`Another server (process ${holder.pid}) uses the data directory ${directory}`);
      }
      rmSync(lock, { force: true });
    }
  } finally {
    rmSync(own, { force: true });
  }
}
