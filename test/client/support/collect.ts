import { type Collected, type CollectOptions, collectUnits } from '../../../src/imaging/inputs/collect.js';
import { Obstacles } from '../../../src/imaging/inputs/entries.js';

/** The volumes of paths as one group. Throws the error for files that cannot be sent. */
export async function collect(
  paths: readonly string[],
  options: Omit<CollectOptions, 'obstacles'> = {},
): Promise<Collected> {
  const obstacles = new Obstacles();
  const collected = await collectUnits(paths, { ...options, obstacles });
  obstacles.check();
  return collected;
}
