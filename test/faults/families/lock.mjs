/** Whatever is at serve.lock, and however many servers start at once: one works on a data directory, never two. */
import { times } from '../context.mjs';
import { manyAtOnce } from './lock/many-at-once.mjs';
import { separateNamespaces } from './lock/namespaces.mjs';
import { oddLocks } from './lock/odd-locks.mjs';
import { taken } from './lock/taken.mjs';

export async function run(context) {
  const { random, rounds } = context;
  const odd = random.shuffle(Object.keys(oddLocks)).slice(0, times(rounds, 5));
  for (const what of new Set(['of 0 bytes', ...odd])) {
    await context.attempt(`A serve.lock ${what}`, () => oddLocks[what](context));
  }
  for (let count = times(rounds, 1); count > 0; count -= 1) {
    await context.attempt('Starts at once', () => manyAtOnce(context, random.integer(2, 10)));
  }
  await context.attempt('Servers in namespaces of their own', () => separateNamespaces(context));
  for (const what of random.shuffle(Object.keys(taken)).slice(0, times(rounds, 5))) {
    await context.attempt(`A start after ${what}`, () => taken[what](context));
  }
}
