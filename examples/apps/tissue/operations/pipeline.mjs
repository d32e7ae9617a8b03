import path from 'node:path';
import { listCases, requireSameCount } from '../lib/cases.mjs';
import { evaluate } from './evaluate.mjs';
import { infer } from './infer.mjs';
import { uncertainty } from './uncertainty.mjs';

/** Inference, then evaluation where ground truth is given, then uncertainty where asked for: a folder for each. */
export async function pipeline(context) {
  const { options, output } = context;
  // A wrong number of files is reported before the work, not after it.
  const inputs = await listCases(options.inputs, '--inputs');
  for (const [flag, groups] of [
    ['--gt', options.gt],
    ['--mask', options.mask],
  ]) {
    if (groups !== undefined) requireSameCount(await listCases(groups, flag), flag, inputs);
  }

  const results = await infer({ ...context, output: path.join(output, 'Predictions') });
  if (options.gt !== undefined) {
    const labels = [results.map((result) => result.file)];
    await evaluate({
      ...context,
      options: { ...options, inputs: labels },
      output: path.join(output, 'Evaluations'),
    });
  }
  if (!options.uncertainty) return;
  const stacks = [results.map((result) => result.stack)];
  // One prediction has a stack of one component: its map is 0, which `uncertainty` on its own would refuse.
  await uncertainty({
    ...context,
    options: { ...options, inputs: stacks },
    output: path.join(output, 'Uncertainties'),
    allowSingle: true,
  });
}
