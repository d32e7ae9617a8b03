import { randomBytes } from 'node:crypto';
import { chmodSync } from 'node:fs';
import path from 'node:path';
import { UsageError, WriteError } from '../../client/errors.js';
import { quoteName } from '../../contract/index.js';
import { editJsonFile, faultWithoutPath, makeDirectory, readJsonFile } from '../../files/index.js';

const keyBytes = 32;

const fileOf = (directory: string): string => path.join(directory, 'pseudonym-keys.json');

function readKeys(file: string): Readonly<Record<string, unknown>> {
  try {
    const content = readJsonFile(file);
    if (content === undefined) return {};
    const { keys } = Object(content) as { keys?: unknown };
    if (typeof keys === 'object' && keys !== null) return { ...keys };
  } catch (cause) {
    // JSON.parse's message quotes the file.
    const problem = cause instanceof SyntaxError ? 'it is not JSON' : faultWithoutPath(cause);
    throw damaged(file, problem);
  }
  throw damaged(file, 'it holds no keys');
}

const damaged = (file: string, problem: string): UsageError =>
  new UsageError(
    `The keys of pseudonyms in ${file} cannot be read: ${problem}; put back a copy of it, or move it away: ` +
      'then scans get other identifiers than before',
  );

function keyIn(file: string, keys: Readonly<Record<string, unknown>>, profile: string): Buffer | null {
  if (!Object.hasOwn(keys, profile)) return null;
  const text = keys[profile];
  const key = Buffer.from(typeof text === 'string' ? text : '', 'base64');
  if (key.length !== keyBytes) throw damaged(file, `that of ${quoteName(profile)} is damaged`);
  return key;
}

/**
 * The key that identifiers of a profile are made with. It is made once, and its owner alone can read it. Whoever has it can
 * try known identifiers, so it is never sent.
 * @param directory where profiles are kept
 * @throws UsageError for a damaged file, which is left as it is; WriteError
 */
export function profileKey(directory: string, profile: string): Buffer {
  const file = fileOf(directory);
  const known = keyIn(file, readKeys(file), profile);
  if (known) return known;
  let key: Buffer = randomBytes(keyBytes);
  const again = 'run the command again';
  try {
    makeDirectory(directory, 0o700);
    chmodSync(directory, 0o700);
    const edit = () => {
      const keys = readKeys(file);
      // Another command may have made it in the meantime.
      key = keyIn(file, keys, profile) ?? key;
      return { keys: { ...keys, [profile]: key.toString('base64') } };
    };
    if (editJsonFile(file, edit, { keepsAccess: false }) === 'done') return key;
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    throw new WriteError(file, cause, again);
  }
  throw new UsageError(`Another command is changing ${file}; ${again}`);
}
