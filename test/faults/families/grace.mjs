/** Grace periods: a longer download can still be resumed, and a clock that jumps neither ends nor prolongs a period. */
import { times } from '../context.mjs';
import { Preload } from '../support/preload.mjs';
import { clockJump } from './grace/clock-jump.mjs';
import { keepalivesGoOn } from './grace/keepalives.mjs';
import { slowDownload } from './grace/slow-download.mjs';

const jump = 3600;

export async function run(context) {
  const cases = Array.from({ length: times(context.rounds, 2) }, () => () => slowDownload(context));
  if (Preload.build(context) === null) context.note('LEFT OUT: clocks that jump, because gcc is not here');
  else {
    for (let more = times(context.rounds, 2); more > 0; more -= 1) {
      cases.push(...[jump, -jump].map((seconds) => () => clockJump(context, seconds)));
      cases.push(...[jump, -jump].map((seconds) => () => keepalivesGoOn(context, seconds)));
    }
  }
  // Most of a case is waiting.
  const all = context.random.shuffle(cases);
  const lane = async () => {
    for (let next = all.shift(); next !== undefined; next = all.shift()) {
      const runCase = next;
      await context.attempt('A grace', runCase);
    }
  };
  await Promise.all([lane(), lane(), lane()]);
}
