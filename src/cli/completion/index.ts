/** Shell completion: a short script for each shell, which asks the program for candidates when Tab is pressed. */
import type { Interfaces } from '@oclif/core';
import { placeOf } from './place.js';
import { type Connect, findValues, type Offer } from './sources.js';

export { type Shell, scripts } from './scripts.js';

/** The candidates at the cursor: values, or paths, which the shell completes itself. */
export type Offers = readonly Offer[] | 'files' | 'directories';

/**
 * Finds the candidates at the cursor.
 * @param words after the name of the program, up to the cursor; the last one is being typed
 * @param connect called if a server must be asked, with the flags in front of the cursor
 */
export async function findOffers(
  words: readonly string[],
  config: Interfaces.Config,
  connect: (flags: ReturnType<typeof placeOf>['flags']) => ReturnType<Connect>,
): Promise<Offers> {
  const { values, word, flags } = placeOf(words, config);
  if (typeof values !== 'string' || values === 'files' || values === 'directories') return values;
  const given = new Set(words.slice(0, -1));
  const found = await findValues(values, word, () => connect(flags), config.configDir);
  return found.filter(({ value }) => !given.has(value));
}
