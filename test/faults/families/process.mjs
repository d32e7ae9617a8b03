/** The server's process: it keeps running without its stderr and its terminal, and ends when it must. */
import { times } from '../context.mjs';
import { hangUps } from './process/hang-up.mjs';
import { holders } from './process/holders.mjs';
import { lostOutputs } from './process/stderr.mjs';
import { stops } from './process/stop.mjs';

/** Cases of a stop that run at the same time: most of their time is waiting for a deadline. */
const atOnce = 5;

export async function run(context) {
  const { random, rounds } = context;
  const some = (cases, inTen) => random.shuffle(Object.entries(cases)).slice(0, times(rounds, inTen));
  const { 'a full disk': full, ...others } = lostOutputs;
  for (const [what, runCase] of [['a full disk', full], ...some(others, 4)]) {
    context.count('servers whose stderr cannot be written');
    await context.attempt(`A server whose stderr is ${what}`, () => runCase(context, what));
  }
  for (const [what, runCase] of Object.entries(hangUps)) {
    context.count('hang-ups');
    await context.attempt(`SIGHUP ${what}`, () => runCase(context, what));
  }
  const chosen = some(holders, 10);
  while (chosen.length > 0) {
    const batch = chosen.splice(0, atOnce);
    await Promise.all(
      batch.map(([what, hold]) =>
        context.attempt(`A stop held up by ${what}`, () => stops(context, what, hold)),
      ),
    );
  }
}
