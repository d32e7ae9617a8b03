/** Completion in shells: the scripts, and the values that they ask for when Tab is pressed. */
import type { Interfaces } from '@oclif/core';
import type { Shell } from './kinds.js';

export { type Shell, shells, type ValueSource, valueSources } from './kinds.js';
export { findOffers, type Offer, wordsOfFlags } from './offers.js';

/**
 * The completion script of a shell. The generators are imported only for this: the scripts themselves only ask for
 * values.
 * @throws UsageError if no shell is named
 */
export const completionScript = async (
  shell: Shell | undefined,
  config: Interfaces.Config,
): Promise<string> => (await import('./script.js')).completionScript(shell, config);
