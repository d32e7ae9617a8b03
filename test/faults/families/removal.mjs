/** Jobs that are hard or impossible to remove: what is possible is removed, the rest is reported, and the server keeps running. */
import { times } from '../context.mjs';
import { unprivileged } from '../support/unprivileged.mjs';
import { failedStarts } from './removal/failed-starts.mjs';
import { hindrances } from './removal/hindrances.mjs';
import { removalCase } from './removal/removal-case.mjs';

export async function run(context) {
  const { random, rounds } = context;
  const user = unprivileged(context);
  if (user === null) {
    context.note('LEFT OUT: another user than root cannot be had here, and root removes everything');
    return;
  }
  const all = hindrances(rounds).flatMap((each) => [
    { ...each, isAtStart: false },
    { ...each, isAtStart: true },
  ]);
  // A full run takes all of them, a smaller one these two and some.
  const isNamed = ({ what, isAtStart }) => !isAtStart && /0555|PATH_MAX/.test(what);
  const others = random.shuffle(all.filter((each) => !isNamed(each)));
  const chosen = [...all.filter(isNamed), ...others.slice(0, Math.max(3, times(rounds, others.length)))];
  const lane = async () => {
    for (let next = chosen.shift(); next !== undefined; next = chosen.shift()) {
      const each = next;
      await context.attempt(`The removal of a job with ${each.what}`, () => removalCase(context, user, each));
    }
  };
  await Promise.all([lane(), lane(), lane(), lane()]);
  await failedStarts(context, user);
}
