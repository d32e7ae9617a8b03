/** An nvidia-smi that fails, hangs or talks nonsense: what failed is not "no GPU", and what hangs holds nobody up. */
import { times } from '../context.mjs';
import { answersWhileFailing } from './nvidia-smi/answers.mjs';
import { restartsWhileFailing } from './nvidia-smi/restart.mjs';

const failing = ['exit9', 'exit255', 'crash', 'garbage', 'prose', 'half', 'flood'];
const hanging = ['hang', 'stubborn', 'grandchild', 'leftover'];

export async function run(context) {
  const { random, rounds } = context;
  const some = (modes, inTen) => random.shuffle(modes).slice(0, times(rounds, inTen));
  // What the restarts wait for is a deadline of the server's: they wait side by side.
  const restarts = [
    'exit9',
    'grandchild',
    ...some(['exit255', 'crash', 'hang', 'stubborn', 'leftover', 'slow'], 3),
  ];
  await Promise.all(
    restarts.map((mode) =>
      context.attempt(`A restart while nvidia-smi is '${mode}'`, () => restartsWhileFailing(context, mode)),
    ),
  );
  await context.attempt('Questions while nvidia-smi fails', () =>
    answersWhileFailing(
      context,
      [...new Set(['exit9', ...some(failing, failing.length)])],
      ['hang', ...some(hanging, 2)],
    ),
  );
}
