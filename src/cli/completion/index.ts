/** Completion in shells: a short script for each, which asks the program what can follow when Tab is pressed. */
import type { Interfaces } from '@oclif/core';
import { placeOf } from './place.js';
import { type Connect, findValues, type Offer } from './sources.js';

export { type Shell, scripts } from './scripts.js';

/** What can stand at the cursor: values, or paths, which the shell completes itself. */
export type Offers = readonly Offer[] | 'files' | 'directories';

/**
 * What can stand at the cursor.
 * @param words after the name of the program, up to the cursor; the last one is being typed
 * @param connect called if a server has to be asked, with the words of the flags in front of the cursor, by the flags' names
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
