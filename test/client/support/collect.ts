import {
  type Collected,
  type CollectOptions,
  collectUnits,
} from '../../../src/client/submit/inputs/inputs.js';
import { Obstacles } from '../../../src/client/submit/inputs/obstacles.js';

/** What paths come to as one group; what cannot be sent is thrown. */
export async function collect(
  paths: readonly string[],
  options: Omit<CollectOptions, 'obstacles'> = {},
): Promise<Collected> {
  const obstacles = new Obstacles();
  const collected = await collectUnits(paths, { ...options, obstacles });
  obstacles.check();
  return collected;
}
