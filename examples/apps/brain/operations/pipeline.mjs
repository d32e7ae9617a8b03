import path from 'node:path';
import { listCases, requireSameCount } from '../lib/cases.mjs';
import { evaluate } from './evaluate.mjs';
import { infer } from './infer.mjs';
import { uncertainty } from './uncertainty.mjs';

/** Inference, then evaluation where ground truth is given, then uncertainty where asked for: a folder for each. */
export async function pipeline(context) {
  const { options, output } = context;
  // A wrong number of files is reported before the work, not after it.
  const inputs = listCases(options.inputs, '--inputs');
  for (const flag of ['gt', 'mask'])
    if (options[flag] !== undefined)
      requireSameCount(listCases(options[flag], `--${flag}`), `--${flag}`, inputs);

  const results = await infer({ ...context, output: path.join(output, 'Predictions') });
  if (options.gt !== undefined)
    await evaluate({
      ...context,
      options: { ...options, inputs: [results.map(({ file }) => file)] },
      output: path.join(output, 'Evaluations'),
    });
  if (options.uncertainty)
    await uncertainty({
      ...context,
      options: { ...options, inputs: [results.map(({ stack }) => stack)] },
      output: path.join(output, 'Uncertainties'),
      allowSingle: true,
    });
}
