/** Kills of jobs whose runner, command or directory is damaged. Each kill is answered in time and frees the job's devices. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../support/form.mjs';
import { isRunning } from '../../support/processes.mjs';
import { times } from '../context.mjs';
import { checkProcesses } from '../invariants.mjs';
import { ended, isFinal, job, request, steps, submit } from '../support/api.mjs';
import { apps, Server } from '../support/server.mjs';
import { until } from '../support/until.mjs';

const signal = (pids, name) => {
  for (const pid of pids) if (isRunning(pid)) process.kill(pid, name);
};

/** Removes as `rm -r` does, and again if a file was created meanwhile. */
function remove({ directory }) {
  for (let tries = 0; existsSync(directory) && tries < 100; tries += 1) {
    spawnSync('rm', ['-rf', directory], { stdio: 'ignore' });
  }
}

const removeOne =
  (name) =>
  ({ directory }) =>
    rmSync(path.join(directory, name), { recursive: true, force: true });

/** Attacks on a running job; each gets its directory, its runner's pid and those of its command. */
const attacks = {
  'its directory is removed': remove,
  'its runner is stopped': ({ runner }) => signal([runner], 'SIGSTOP'),
  'its runner and its command are stopped': ({ runner, command }) => signal([runner, ...command], 'SIGSTOP'),
  'its command is stopped': ({ command }) => signal(command, 'SIGSTOP'),
  'its runner was killed': ({ runner }) => signal([runner], 'SIGKILL'),
  'its runner is stopped and its directory removed': (job) => {
    signal([job.runner], 'SIGSTOP');
    remove(job);
  },
  'its runner was killed and its directory removed': (job) => {
    signal([job.runner], 'SIGKILL');
    remove(job);
  },
  'its directory is renamed': ({ directory }) => renameSync(directory, `${directory}-renamed`),
  'its runner.json is removed': removeOne('runner.json'),
  'its job.json is removed': removeOne('job.json'),
  'its log is removed': removeOne('log'),
  'its Workspace is removed': removeOne('Workspace'),
};

/** The processes of a job: its runner, as `runner.json` says, and the others. */
function processesOf(server, id) {
  const directory = server.jobDirectory(id);
  const runner = JSON.parse(readFileSync(path.join(directory, 'runner.json'), 'utf8')).runner.pid;
  const all = server.processes().filter((each) => each.id === id);
  const command = all.map(({ pid }) => pid).filter((pid) => pid !== runner);
  return { id, directory, runner, command };
}

/** Milliseconds in which a kill must be answered, whatever state the job is in: a grace of 3 s and some reserve. */
const killBound = 20_000;

const inputs = file('scan.nii');

/** A job whose command runs, and the processes that it has. */
async function running(context, server, device) {
  const deed = context.random.pick(['sleep', 'stubborn', 'fork']) === 'stubborn' ? 'stubborn' : 'sleep';
  const id = await submit(server, 'rogue', 'infer', { inputs, options: steps({ do: deed }), ...device });
  return until('its command runs', () => {
    try {
      const found = processesOf(server, id);
      const isCommand = (pid) => found.command.includes(pid);
      return server.processes().some(({ pid, command }) => isCommand(pid) && / do=/.test(command)) && found;
    } catch {
      return null;
    }
  });
}

/** Kills a job; null if no answer comes in time. */
async function askKill(server, id) {
  const began = performance.now();
  const answer = await request(server, `/jobs/${id}/kill`, { method: 'POST', limit: killBound }).catch(
    () => null,
  );
  return answer && { ...answer, took: performance.now() - began };
}

/** Ends all processes of a job, so that none of a failed case is left. */
function clear(processes) {
  for (const pid of processes) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
}

/** Attacks a running job, then kills it. Returns whether the GPU is free again. */
async function killCase(context, server, what, gpu) {
  const { random } = context;
  const job = await running(context, server, { gpu });
  const all = [job.runner, ...job.command];
  attacks[what](job);
  if (random.chance(0.5)) await delay(random.integer(0, 1500));
  const isTwice = random.chance(0.5);
  const answers = await Promise.all(Array.from({ length: isTwice ? 2 : 1 }, () => askKill(server, job.id)));
  for (const answer of answers) {
    if (answer === null)
      context.violation(`A kill was not answered within ${killBound / 1000} s, where ${what}`);
    else context.highest('longest kill', answer.took, 'ms');
  }
  const left = () => all.filter(isRunning);
  await until('it is gone', () => left().length === 0, 5000).catch(() =>
    context.violation(`After a kill where ${what}, ${left().length} of ${all.length} processes still run`),
  );
  clear(all);
  const after = await submit(server, 'witness', 'infer', { inputs, gpu });
  const view = await ended(server, after, 15_000).catch(() => null);
  const isFree = view?.status === 'done';
  context.check(
    isFree,
    `After a kill where ${what}, the next job does not get GPU ${gpu}: ${view?.status ?? 'it waits'}`,
  );
  return isFree;
}

/** A short job with a large result, killed at a random moment: before, while or after it runs or is packed. */
async function killSomewhere(context, server) {
  const { random } = context;
  const options = steps({ lines: 3, pause: '0.05', noise: 20_000 });
  const id = await submit(server, 'witness', 'infer', { inputs: file('scan.nii'), options, cpu: '1' });
  await delay(random.integer(0, 1500));
  const before = await job(server, id);
  context.count(`a kill of a job that is ${before.status}`);
  const answers = await Promise.all([askKill(server, id), random.chance(0.3) ? askKill(server, id) : {}]);
  context.check(
    !answers.includes(null),
    `The kill of a job ${before.status} got no answer in ${killBound / 1000} s`,
  );
  const after = await job(server, id);
  context.check(isFinal(after), `A job ${before.status} is ${after.status} after its kill was answered`);
  if (isFinal(before))
    context.check(before.status === after.status, `A kill made ${before.status} ${after.status}`);
}

async function killInPhases(context) {
  const server = await new Server(context, { flags: ['--cpu-slots', '2', '--grace', '600'] }).start();
  try {
    const kills = Array.from({ length: times(context.rounds, 12) }, () => killSomewhere(context, server));
    await Promise.all(kills);
    await checkProcesses(context, server);
    const form = { inputs: file('scan.nii'), cpu: '2' };
    const { status } = await ended(server, await submit(server, 'witness', 'infer', form), 20_000);
    context.check(status === 'done', `A job on both CPU slots, after the kills, is ${status}`);
  } finally {
    await server.close();
  }
}

/** Attacks a running job, then stops its server. No process of the job may be left. */
async function stopCase(context, what) {
  const server = await new Server(context, { apps: [apps.rogue] }).start();
  context.count(`a stop where ${what}`);
  let all = [];
  await context.attempt(`A stop where ${what}`, async () => {
    const job = await running(context, server, { cpu: '1' });
    all = [job.runner, ...job.command];
    attacks[what](job);
    await server.stop();
    await until('it is gone', () => !all.some(isRunning), 5000).catch(() =>
      context.violation(
        `After a stop of the server where ${what}, ${all.filter(isRunning).length} processes of the job still run`,
      ),
    );
  });
  clear(all);
  await server.close();
}

/** Cases that run at the same time, each on its own GPU. */
const lanes = 4;

export async function run(context) {
  const { random } = context;
  const server = await new Server(context, {
    apps: [apps.rogue, apps.witness],
    gpus: lanes,
    flags: ['--grace', '600'],
  }).start();
  const all = Array.from({ length: times(context.rounds, 1) }, () =>
    random.shuffle([...Object.keys(attacks), ...Object.keys(attacks).slice(0, 2)]),
  ).flat();
  const lane = async (gpu) => {
    for (let next = all.shift(); next !== undefined; next = all.shift()) {
      const what = next;
      context.count(`a kill where ${what}`);
      // A GPU that was not released is not used again: the next case on it would fail for the same reason.
      if (!(await context.attempt(`A kill where ${what}`, () => killCase(context, server, what, gpu))))
        return;
    }
  };
  try {
    await Promise.all(Array.from({ length: lanes }, (_, gpu) => lane(String(gpu))));
    await killInPhases(context);
  } finally {
    await server.close();
  }
  const stops = random.shuffle(Object.keys(attacks)).slice(0, times(context.rounds, 3));
  await Promise.all(stops.map((what) => stopCase(context, what)));
}
