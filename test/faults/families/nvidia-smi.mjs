/** An nvidia-smi that fails, hangs or prints garbage: a failure does not count as "no GPU", and a hang delays no request. */
import { times } from '../context.mjs';
import { answersWhileFailing, answersWhileHanging } from './nvidia-smi/answers.mjs';
import { restartsWhileFailing } from './nvidia-smi/restart.mjs';

const failing = ['exit9', 'exit255', 'crash', 'garbage', 'prose', 'half', 'flood'];
const hanging = ['hang', 'stubborn', 'grandchild', 'leftover'];

export async function run(context) {
  const { random, rounds } = context;
  const some = (first, modes, inTen) =>
    new Set([...first, ...random.shuffle(modes).slice(0, times(rounds, inTen))]);
  const restarts = some(
    ['exit9', 'grandchild'],
    ['exit255', 'crash', 'hang', 'stubborn', 'leftover', 'slow'],
    2,
  );
  // Most of the time is spent waiting for a deadline of the server, so the cases run at the same time.
  await Promise.all([
    ...[...restarts].map((mode) =>
      context.attempt(`A restart while nvidia-smi is '${mode}'`, () => restartsWhileFailing(context, mode)),
    ),
    ...[...some([], hanging, 2)].map((mode) =>
      context.attempt(`Questions while nvidia-smi is '${mode}'`, () => answersWhileHanging(context, mode)),
    ),
    context.attempt('Questions while nvidia-smi fails', () =>
      answersWhileFailing(context, some(['exit9'], failing, failing.length)),
    ),
  ]);
}
