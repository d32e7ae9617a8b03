/**
 * `npm run test:frameworks`: the apps that `init --from` writes against the frameworks that the networks come from. Prints one
 * line per check; exit code 0 says that all hold. `-- --only Regions` runs the networks whose names have that word, `-- --only 'TotalSegmentator body'` a task. Without Python or a package index it says `skipped:` and why, and ends with 0.
 */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { PythonEnvironment } from '../../tools/python-environment.mjs';
import { judgedByPython } from '../support/judged-by-python.mjs';
import { testMonai } from './monai.mjs';
import { testNnunet } from './nnunet.mjs';
import { testTotalsegmentator } from './totalsegmentator.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const say = (text) => process.stderr.write(`${text}\n`);
const execute = promisify(execFile);

const environment = new PythonEnvironment(here('../../.cache/frameworks'), {
  requirements: here('requirements.txt'),
  probe: 'nnunetv2',
  variable: 'REMOTE_APP_FRAMEWORKS_VENV',
  what: 'nnU-Net, MONAI, TotalSegmentator and PyTorch',
  size: 'up to 7 GB',
});

const { only = '' } = parseArgs({ options: { only: { type: 'string' } } }).values;

let faults = 0;
function check(name, isGood, figures) {
  if (!isGood) faults += 1;
  console.log(`${isGood ? 'ok    ' : 'FAILED'}  ${name}: ${figures}`);
}

await judgedByPython(environment, 'frameworks', say, async (workshop) => {
  const python = environment.programOf('python');
  workshop.environment = {
    PATH: `${path.dirname(python)}:${process.env.PATH}`,
    OMP_NUM_THREADS: '1',
    PYTHONDONTWRITEBYTECODE: '1',
  };
  /** Runs one of our Python scripts, or the command. */
  const run = (program, words, options = {}) =>
    execute(program, words, {
      maxBuffer: 1 << 28,
      ...options,
      env: { HOME: workshop.root, TMPDIR: workshop.root, ...workshop.environment, ...options.env },
    });
  const context = { workshop, python, run, check, say, only };
  await testNnunet(context);
  await testMonai(context);
  await testTotalsegmentator(context);
  return faults;
});
