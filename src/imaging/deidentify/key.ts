import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { editPrivate, readPrivate } from '../../client/private-json.js';
import { quoteName } from '../../contract/index.js';

const keyBytes = 32;

const fileOf = (directory: string): string => path.join(directory, 'pseudonym-keys.json');

const damaged = (file: string, problem: string): string =>
  `The keys of pseudonyms in ${file} cannot be read: ${problem}; put back a copy of it, or move it away: ` +
  'then scans get other identifiers than before';

const readKeys = (file: string) => readPrivate(file, 'keys', (problem) => damaged(file, problem));

function keyIn(file: string, keys: Readonly<Record<string, unknown>>, profile: string): Buffer | null {
  if (!Object.hasOwn(keys, profile)) return null;
  const text = keys[profile];
  const key = Buffer.from(typeof text === 'string' ? text : '', 'base64');
  if (key.length !== keyBytes)
    throw new UsageError(damaged(file, `that of ${quoteName(profile)} is damaged`));
  return key;
}

/**
 * Returns the key from which the identifiers of a profile are derived, creating it on first use. Only its owner can read it. The
 * key is never sent, because anyone who has it can test known identifiers against the pseudonyms.
 * @param directory where profiles are stored
 * @throws UsageError for a damaged file, which is left unchanged; WriteError
 */
export function profileKey(directory: string, profile: string): Buffer {
  const file = fileOf(directory);
  const known = keyIn(file, readKeys(file), profile);
  if (known) return known;
  let key: Buffer = randomBytes(keyBytes);
  const edit = () => {
    const keys = readKeys(file);
    // Another command may have made it in the meantime.
    key = keyIn(file, keys, profile) ?? key;
    return { keys: { ...keys, [profile]: key.toString('base64') } };
  };
  editPrivate(file, edit, 'run the command again');
  return key;
}
