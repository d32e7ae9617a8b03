import path from 'node:path';
import { quotePath } from '../../contract/index.js';
import { privateMode, readSmallFile, writeJsonFile } from '../../files/index.js';
import { UsageError } from '../errors.js';
import { ownDirectory } from './case-place.js';

/** Largest file of numbers, in bytes: some 100,000 cases. */
const maxBytes = 48 << 20;

const isNumber = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;

/** The numbers that earlier commands gave. @throws UsageError for a file that cannot be read: other numbers would be other names */
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
 * The numbers of cases in their neutral names: those that earlier commands gave them, and new ones for others. They are written where only
 * this user can read them, and never leave this machine.
 * @param output the directory of the results
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
