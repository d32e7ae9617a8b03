import path from 'node:path';
import { quotePath } from '../../contract/index.js';
import { privateMode, readSmallFile, writeJsonFile } from '../../files/index.js';
import { UsageError } from '../errors.js';
import { ownDirectory } from './case-place.js';

/** Maximum size of the file with the numbers, in bytes: about 100,000 cases. */
const maxBytes = 48 << 20;

const isNumber = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;

/**
 * The numbers assigned by earlier commands. @throws UsageError for a file that cannot be read: new numbers would change the
 * neutral names
 */
function readNumbers(file: string): Map<string, number> {
  try {
    const entries = Object.entries(JSON.parse(readSmallFile(file, maxBytes)) as Record<string, unknown>);
    return new Map(entries.flatMap(([name, number]) => (isNumber(number) ? [[name, number] as const] : [])));
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return new Map();
    throw new UsageError(
      `The neutral names of cases in ${quotePath(file)} cannot be read; remove it to give them anew`,
      { cause },
    );
  }
}

/**
 * The numbers of cases for their neutral names: those assigned by earlier commands, and new ones for the other cases. They are
 * stored where only this user can read them, and never leave this machine.
 * @param output the directory for results
 * @throws UsageError for a file that cannot be read; the system's error
 */
export function numberedCases(
  output: string,
  names: readonly string[],
  { isWritten }: { readonly isWritten: boolean },
): ReadonlyMap<string, number> {
  const file = path.join(output, ownDirectory, 'neutral-names.json');
  const numbers = readNumbers(file);
  const before = numbers.size;
  let last = Math.max(0, ...numbers.values());
  for (const name of names) if (!numbers.has(name)) numbers.set(name, ++last);
  if (isWritten && numbers.size > before)
    writeJsonFile(file, Object.fromEntries(numbers), { mode: privateMode });
  return numbers;
}
