/**
 * `npm run weights`: makes the files of `model/` anew from the Python package deepbet. They should come out as they are: what
 * `git diff` shows afterwards is a difference.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Skipped } from '../../../../tools/python-environment.mjs';
import { environment, makeWeights } from './environment.mjs';

try {
  await environment.prepare(console.error);
  const [program, ...words] = makeWeights(fileURLToPath(new URL('../model', import.meta.url)));
  process.exitCode = spawnSync(program, words, { stdio: 'inherit' }).status ?? 1;
} catch (cause) {
  if (!(cause instanceof Skipped)) throw cause;
  console.error(`The networks cannot be made here: ${cause.message}`);
  process.exitCode = 1;
}
