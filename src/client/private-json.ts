import { chmodSync } from 'node:fs';
import path from 'node:path';
import { editJsonFile, faultWithoutPath, makeDirectory, readJsonFile } from '../files/index.js';
import { UsageError, WriteError } from './errors.js';

/**
 * Reads the entries of a JSON file that contains secrets. Empty if the file does not exist.
 * @param key under which the file stores the entries
 * @param damaged the sentence about a file that cannot be read
 * @throws UsageError
 */
export function readPrivate(
  file: string,
  key: string,
  damaged: (problem: string) => string,
): Readonly<Record<string, unknown>> {
  try {
    const content = readJsonFile(file);
    if (content === undefined) return {};
    const entries = (Object(content) as Record<string, unknown>)[key];
    if (typeof entries === 'object' && entries !== null) return { ...entries };
  } catch (cause) {
    // JSON.parse's message quotes the file.
    throw new UsageError(damaged(cause instanceof SyntaxError ? 'it is not JSON' : faultWithoutPath(cause)));
  }
  throw new UsageError(damaged(`it holds no ${key}`));
}

/**
 * Changes a file that contains secrets, and makes sure that only its owner can read it.
 * @param again advice if it cannot be written
 * @throws UsageError for a damaged file; WriteError
 */
export function editPrivate(file: string, change: () => unknown, again: string): void {
  const directory = path.dirname(file);
  try {
    makeDirectory(directory, 0o700);
    chmodSync(directory, 0o700);
    if (editJsonFile(file, change, { keepsAccess: false }) === 'done') return;
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    throw new WriteError(file, cause, again);
  }
  throw new UsageError(`Another command is changing ${file}; ${again}`);
}
