import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { residentApp } from '../support/apps.mjs';
import { remoteApp } from '../support/command.mjs';
import { interleave } from '../support/interleave.mjs';
import { atMost, times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';

const warmCases = 20;
/** Seconds that the app needs to load its model, and that one case takes. */
const [loading, working] = [5, 1];
/** Largest share of the time between the first case and the last one in which the app has nothing to do. */
const mostIdle = 0.05;

/** A BIDS tree of small scans. The content of each is that of its number. */
async function writeScans(workshop, count, contentOf) {
  const directory = await workshop.directory('bids');
  for (let index = 1; index <= count; index += 1) {
    const anat = path.join(directory, `sub-${String(index).padStart(5, '0')}`, 'anat');
    await mkdir(anat, { recursive: true });
    await writeFile(path.join(anat, 'T1w.nii'), contentOf(index));
  }
  return directory;
}

/** Computes all cases, or finds them done, with one command. @throws if any is not done */
async function inferEach(workshop, server, { scans, output }, options) {
  const words = ['infer', '--each', scans, '-o', output, '--server', server.url, '--cpu', '1'];
  const ended = await remoteApp(workshop, words, options);
  const [, ...rows] = (await readFile(path.join(output, 'cases.csv'), 'utf8')).trimEnd().split('\r\n');
  const left = rows.filter((row) => row.split(',')[1] !== 'done');
  if (rows.length === 0 || left.length > 0) throw new Error(`${left.length} of ${rows.length} are not done`);
  // A line for each case that this command computed.
  const computed = ended.stdout.split('\n').filter((line) => line.startsWith('done ')).length;
  return { ...ended, computed };
}

/** The share of the time between the first case and the last one in which the app waited. */
async function idleShare(notes) {
  const cases = (await readFile(notes, 'utf8')).trimEnd().split('\n').map(JSON.parse);
  const [first, last] = [cases[0], cases.at(-1)];
  const busy = cases.reduce((sum, [startedAt, endedAt]) => sum + endedAt - startedAt, 0);
  return 1 - busy / (last[1] - first[0]);
}

async function measureWarm({ workshop }) {
  const notes = path.join(await workshop.directory('notes'), 'cases');
  const note = `fs.appendFileSync(${JSON.stringify(notes)}, JSON.stringify([startedAt, Date.now()]) + '\\n');`;
  const app = await residentApp(workshop, 'one-second', { loading, working, after: note });
  const scans = await writeScans(workshop, warmCases, (index) => `scan ${index}`);
  const output = path.join(await workshop.directory('results'), 'Out');
  const server = await Server.start(workshop, { apps: [app], flags: ['--cpu-slots', '1'] });
  try {
    const { seconds, cpu, computed } = await inferEach(workshop, server, { scans, output }, {});
    const idle = await idleShare(notes);
    const isWhole = computed === warmCases;
    return {
      figure: seconds,
      yardstick: loading + warmCases * working,
      cpu: [cpu],
      note: `between its cases the app waited for ${(100 * idle).toFixed(1)} % of the time`,
      fault: !isWhole
        ? `${computed} cases were computed`
        : idle <= mostIdle
          ? null
          : 'it waited for too long',
    };
  } finally {
    await server.stop();
  }
}

/** Writes a result of two small files. */
const writeResult = `
  const output = call.arguments[call.arguments.indexOf('--output') + 1];
  fs.mkdirSync(output, { recursive: true });
  fs.writeFileSync(output + '/mask.nii', 'mask');
  fs.writeFileSync(output + '/measurements.json', JSON.stringify({ cases: [{ volume: 1234.5, surface: 67.8 }] }));`;

/**
 * A cohort that the real command has computed. All scans are alike: the server computes one of them and answers the other submissions
 * with the same job, while the client sends, follows and fetches every case.
 * @param use gets how the command went, and a function that gives it again
 */
async function withCohort(workshop, count, options, use) {
  const app = await residentApp(workshop, 'quick', { loading: 0, working: 0, after: writeResult });
  const scans = await writeScans(workshop, count, () => 'scan'.repeat(100));
  const output = path.join(await workshop.directory('results'), 'Out');
  const server = await Server.start(workshop, { apps: [app] });
  const infer = () => inferEach(workshop, server, { scans, output }, options);
  try {
    const first = await infer();
    if (first.computed !== count) throw new Error(`${first.computed} of ${count} cases were computed`);
    const again = async () => {
      const ended = await infer();
      if (ended.computed > 0) throw new Error(`${ended.computed} cases were computed again`);
      return ended;
    };
    return await use(first, again);
  } finally {
    await server.stop();
    await Promise.all([scans, output].map((each) => rm(each, { recursive: true })));
  }
}

const measureDone = ({ workshop, rounds }) =>
  withCohort(workshop, 1000, {}, async (_, again) => {
    const { figure } = await interleave(rounds, { figure: again });
    return { figure: 1000 * figure.seconds, cpu: [figure.cpu] };
  });

const measureMemory = ({ workshop }) =>
  withCohort(workshop, 5000, { memory: true }, async (first, again) => {
    const { memory, cpu } = await again();
    return {
      figure: Math.max(first.memory, memory),
      cpu: [first.cpu],
      note: `${first.memory.toFixed(0)} MiB when they are sent, ${memory.toFixed(0)} MiB (${cpu.toFixed(1)} s of processor time) when they are found done`,
    };
  });

export const rows = [
  {
    name: 'cohort-warm',
    what: `infer --each of ${warmCases} cases, a resident app that computes for ${working} s`,
    yardstick: `${warmCases} times ${working} s, and ${loading} s in which the app loads`,
    unit: 's',
    reach: times(1.15),
    measure: measureWarm,
  },
  {
    name: 'cohort-done',
    what: 'infer --each of 1,000 cases that are done',
    yardstick: '-',
    unit: 'ms',
    reach: atMost(5000, 'ms'),
    measure: measureDone,
  },
  {
    name: 'memory-cohort',
    what: 'client memory, infer --each of 5,000 cases, sent or found done',
    yardstick: '-',
    unit: 'MiB',
    reach: atMost(150, 'MiB'),
    measure: measureMemory,
  },
];
