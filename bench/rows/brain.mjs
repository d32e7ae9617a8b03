import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { environment } from '../../examples/apps/brain/weights/environment.mjs';
import { scansOf } from '../../test/support/needs.mjs';
import { ResidentWorker } from '../../test/support/resident-worker.mjs';
import { run } from '../support/command.mjs';
import { median, samplesOf } from '../support/interleave.mjs';
import { times } from '../support/reach.mjs';
import { cpuSeconds, peakMemory } from '../support/usage.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const app = here('../../examples/apps/brain');
const threads = 2;

/** MiB that a case may take at most. */
const mostMemory = 1536;

/** The package as a library: two cases in one process, of which the second counts. */
async function throughLibrary(workshop, scan) {
  const words = [here('../../test/brain/reference.py'), await workshop.directory('library'), scan, scan];
  const { stdout } = await run(workshop, environment.programOf('python'), words);
  const { seconds, peak } = JSON.parse(stdout.trim().split('\n').at(-1));
  return { milliseconds: 1000 * seconds, memory: peak / 2 ** 20 };
}

/** The package's program, which loads its networks for each case. */
async function throughProgram(workshop, scan) {
  const out = await workshop.directory('program');
  const words = ['-i', scan, '-o', path.join(out, 'brain.nii.gz'), '-m', path.join(out, 'mask.nii.gz'), '-g'];
  const { seconds, cpu } = await run(workshop, environment.programOf('deepbet-cli'), words);
  return { milliseconds: 1000 * seconds, cpu };
}

async function measureCase({ workshop, rounds }) {
  const scans = scansOf('mricron');
  if (scans === null) throw new Error("needs Colin27: Debian's mricron-data");
  const scan = path.join(scans, 'ch2.nii.gz');
  await environment.prepare((line) => process.stderr.write(`${line}\n`));
  const words = [path.join(app, 'main.mjs'), 'resident', app, '--cpu', String(threads)];
  const loaded = new ResidentWorker([process.execPath, ...words]);
  try {
    await loaded.answer();
    return await compare(workshop, rounds, scan, loaded);
  } finally {
    await loaded[Symbol.asyncDispose]();
  }
}

async function compare(workshop, rounds, scan, loaded) {
  const pid = loaded.child.pid;
  const { ours, program, library } = await samplesOf(rounds, {
    ours: async () => {
      const out = await workshop.directory('ours');
      const [startedAt, before] = [performance.now(), cpuSeconds(pid)];
      const job = ['infer', app, '--cpu', String(threads), '--output', out, '--inputs', scan];
      const { answer, log } = await loaded.run(job);
      if (answer.exit_code !== 0) throw new Error(log);
      return { milliseconds: performance.now() - startedAt, cpu: cpuSeconds(pid) - before };
    },
    program: () => throughProgram(workshop, scan),
    library: () => throughLibrary(workshop, scan),
  });
  const of = (samples, name) => median(samples.map((each) => each[name]));
  const memory = peakMemory(pid);
  return {
    figure: of(ours, 'milliseconds'),
    yardstick: of(program, 'milliseconds'),
    memory: [memory, of(library, 'memory')],
    cpu: [of(ours, 'cpu'), of(program, 'cpu')],
    note: `the package as a library that is loaded takes ${of(library, 'milliseconds').toFixed(0)} ms`,
    fault: memory <= mostMemory ? null : `it took ${memory.toFixed(0)} MiB, more than ${mostMemory}`,
  };
}

export const rows = [
  {
    name: 'brain-case',
    what: 'one case (Colin27) of the app examples/apps/brain, loaded, two threads',
    yardstick: 'deepbet-cli on the same case',
    unit: 'ms',
    reach: times(1),
    measure: measureCase,
  },
];
