/** Descriptors, memory, CPU and clocks that run short or wrong: the jobs do not notice. */
import { times } from '../context.mjs';
import { clocks } from './descriptors/clocks.mjs';
import { manyParts } from './descriptors/many-parts.mjs';
import { results } from './descriptors/results.mjs';
import { silentSockets } from './descriptors/silent-sockets.mjs';
import { stuckRemoval } from './descriptors/stuck-removal.mjs';

export async function run(context) {
  const { random, rounds } = context;
  const limits = random.shuffle([64, 200, 128, 256]).slice(0, times(rounds, 2) - 1);
  for (const limit of [100, ...limits]) {
    await context.attempt(`Silent sockets at ${limit} descriptors`, () => silentSockets(context, limit));
  }
  for (const [what, runCase] of Object.entries({ ...manyParts, ...results, ...clocks })) {
    context.count(what);
    await context.attempt(what, () => runCase(context));
  }
  await context.attempt('A refused upload that cannot be removed', () => stuckRemoval(context));
}
