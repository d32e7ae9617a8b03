/** Too few descriptors, much memory or CPU, wrong clocks: the jobs are unaffected. */
import { times } from '../context.mjs';
import { clocks } from './descriptors/clocks.mjs';
import { manyParts } from './descriptors/many-parts.mjs';
import { results } from './descriptors/results.mjs';
import { silentSockets } from './descriptors/silent-sockets.mjs';
import { stuckRemoval } from './descriptors/stuck-removal.mjs';

async function inTurn(context, cases) {
  for (const [what, runCase] of Object.entries(cases)) {
    context.count(what);
    await context.attempt(what, () => runCase(context));
  }
}

export async function run(context) {
  const { random, rounds } = context;
  const limits = random.shuffle([256, 384, 512]).slice(0, times(rounds, 2) - 1);
  for (const limit of [200, ...limits]) {
    await context.attempt(`Silent sockets at ${limit} descriptors`, () => silentSockets(context, limit));
  }
  // Cases that measure CPU or memory run one after the other, cases that mostly wait run beside them.
  await Promise.all([
    inTurn(context, { ...manyParts, ...results }),
    inTurn(context, { ...clocks, 'refused uploads that cannot be removed': stuckRemoval }),
  ]);
}
