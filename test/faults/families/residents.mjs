/** Apps that stay loaded: the server, worker hosts, runners and workers die; workers hang, print garbage, answer twice, leave children. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { file } from '../../support/form.mjs';
import { times } from '../context.mjs';
import { checkGpus, checkProcesses } from '../invariants.mjs';
import { ended, json, kill, logOf, steps, submit } from '../support/api.mjs';
import { processesUnder } from '../support/processes.mjs';
import { Server } from '../support/server.mjs';
import { until } from '../support/until.mjs';

const app = fileURLToPath(new URL('../../fixtures/apps/resident', import.meta.url));
const gpus = 2;
const maxJobs = 5;

/** What jobs do, and how each must end if nothing else happens to it. */
const deeds = {
  nothing: 'done',
  loud: 'done',
  wait: 'done',
  child: 'done',
  twice: 'done',
  fail: 'error',
  die: 'error',
  leave: 'error',
  garbage: 'error',
  other: 'error',
  long: 'error',
  hang: 'killed',
  ignore: 'killed',
};

const workersDirectory = (server) => path.join(server.dataDirectory, 'workers');

function hosts(server) {
  const directory = workersDirectory(server);
  return existsSync(directory) ? readdirSync(directory).map((name) => path.join(directory, name)) : [];
}

/** The process that a record names; null if it is gone. */
function processIn(record, name) {
  try {
    return JSON.parse(readFileSync(record, 'utf8'))[name]?.pid ?? null;
  } catch {
    return null;
  }
}

function killOne(context, pids) {
  const known = pids.filter((pid) => pid !== null);
  if (known.length === 0) return false;
  try {
    process.kill(context.random.pick(known), 'SIGKILL');
    return true;
  } catch {
    // It has already ended.
    return false;
  }
}

async function die(server) {
  await server.kill();
  await server.start();
}

/** What happens while jobs run. A disaster that kills a process of a job may end the job in any way. */
const disasters = {
  'no death': { isHarmless: true, make: async () => {} },
  'death of the server': { isHarmless: true, make: (_, server) => die(server) },
  'death of a worker host': {
    make: async (context, server) =>
      killOne(
        context,
        hosts(server).map((each) => processIn(path.join(each, 'host.json'), 'host')),
      ),
  },
  'death of a worker': {
    make: async (context, server) =>
      killOne(
        context,
        hosts(server).map((each) => processIn(path.join(each, 'host.json'), 'worker')),
      ),
  },
  'death of a runner': {
    make: async (context, server, jobs) =>
      killOne(
        context,
        jobs.map(({ id }) => processIn(path.join(server.jobDirectory(id), 'runner.json'), 'runner')),
      ),
  },
  'death of the server and a worker host': {
    make: async (context, server, jobs) => {
      await server.kill();
      await disasters['death of a worker host'].make(context, server, jobs);
      await server.start();
    },
  },
};

async function begin(context, server, gate) {
  const { random } = context;
  const deed = random.pick(Object.keys(deeds));
  const device = random.pick([{ cpu: '1' }, { gpu: '0' }, { gpu: '1' }, {}]);
  const form = {
    inputs: file('in.nii.gz', 'volume'),
    options: steps({ do: deed === 'wait' ? `wait:${gate}` : deed }),
    ...device,
  };
  context.count(`a job that does this: ${deed}`);
  return { deed, id: await submit(server, 'resident', 'infer', form) };
}

/** Waits for the end of a job; one that never ends by itself is killed once it runs. */
async function end(server, { id, deed }) {
  if (deeds[deed] !== 'killed') return await ended(server, id, 60_000);
  const log = path.join(server.jobDirectory(id), 'log');
  const hasBegun = () => readFileSync(log, 'utf8').includes('\njob ');
  await until(
    `job ${id} begins, or has ended`,
    async () => hasBegun() || (await json(server, `/jobs/${id}`)).finished_at !== null,
    60_000,
  );
  await kill(server, id);
  return await ended(server, id);
}

/** Checks that a job ended as it must and ran once. */
async function check(context, server, { id, deed }, view, isHarmless) {
  const log = await logOf(server, id);
  const runs = log.filter((line) => /^job \d+ of \d+ in /.test(line));
  context.check(runs.length <= 1, `Job ${id} (${deed}) was run ${runs.length} times`);
  const strange = runs.filter((line) => !line.endsWith(` in ${id}`));
  context.check(strange.length === 0, `The log of job ${id} has a line of another one: ${strange[0]}`);
  context.check(
    view.status !== 'done' || runs.length === 1,
    `Job ${id} (${deed}) is done, and its app was not run`,
  );
  if (!isHarmless) return;
  const has = `${view.status}: ${view.error}`;
  context.check(view.status === deeds[deed], `Job ${id} (${deed}) ended as ${has}`);
  context.check(
    view.status !== 'error' || view.error !== null,
    `Job ${id} (${deed}) failed without a sentence`,
  );
}

/** Checks that a stopped server leaves no worker and no files of one. */
async function checkRest(context, server) {
  await server.stop();
  const look = () => [
    ...hosts(server),
    ...processesUnder(server.dataDirectory).map(({ pid, command }) => `${pid} ${command}`),
  ];
  await until('nothing of a worker is left', () => look().length === 0, 15_000).catch(() => {
    context.violation(`A server that was stopped left ${look().slice(0, 3).join('; ')}`);
    for (const { pid } of processesUnder(server.dataDirectory)) process.kill(pid, 'SIGKILL');
  });
}

async function round(context, server) {
  const { random } = context;
  const gate = path.join(context.scratch, `gate-${context.serial()}`);
  const jobs = [];
  for (let more = random.integer(2, maxJobs); more > 0; more -= 1) {
    jobs.push(await begin(context, server, gate));
  }
  const kind = random.pick(Object.keys(disasters));
  const { isHarmless = false, make } = disasters[kind];
  context.count(kind);
  // Some time after the first job has begun.
  await until('a job has begun', () => hosts(server).length > 0).catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, random.integer(0, 600)));
  await make(context, server, jobs);
  writeFileSync(gate, '');
  await checkGpus(context, server);
  const views = await Promise.all(jobs.map((each) => end(server, each)));
  for (const [index, each] of jobs.entries()) {
    await check(context, server, each, views[index], isHarmless);
  }
  // All GPUs are available again.
  const form = { inputs: file('in.nii.gz', 'volume'), options: steps({ do: 'nothing' }), gpu: '0,1' };
  const last = await ended(server, await submit(server, 'resident', 'infer', form), 60_000);
  context.check(last.status === 'done', `A job on all GPUs ended as ${last.status}: ${last.error}`);
}

export async function run(context) {
  const server = new Server(context, { apps: [app], gpus, flags: ['--cpu-slots', '2'] });
  await server.start();
  try {
    for (let left = times(context.rounds, 20); left > 0; left -= 1) {
      await context.attempt('a round of workers', () => round(context, server));
      await context.attempt('a stop with workers', () => checkRest(context, server));
      if (left > 1) await server.start();
    }
    await server.start();
    await checkProcesses(context, server);
  } finally {
    await server.close();
  }
}
