import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Packer } from '../../../src/archive/packer.js';
import { systemClock } from '../../../src/files/index.js';
import type { Executor, RunEvent } from '../../../src/server/executors/index.js';
import { Lifecycle } from '../../../src/server/jobs/lifecycle.js';
import { makeJob } from './held-job.js';

/** An executor with one run, which succeeds. */
function quickExecutor(): Executor {
  async function* events(): AsyncGenerator<RunEvent> {
    yield { kind: 'placed', where: 'the CPU', grant: { gpus: [], gpuUuids: [], cpuSlots: 1 } };
    yield { kind: 'ended', exitCode: 0, signal: null, fault: null, error: null, lostLines: 0 };
  }
  const executor: Pick<Executor, 'run' | 'stop'> = { run: events, stop: async () => {} };
  return executor as Executor;
}

const unused = {
  commandFor: () => ['true'],
  versionOf: async () => null,
  accessOf: () => ({ network: false, directories: [], environment: {} }),
  residentOf: () => null,
  explainExit: () => null,
  diskPerJob: Number.POSITIVE_INFINITY,
  discard: () => {},
  clock: systemClock,
};

/** A job whose command succeeds. */
async function doneJob(packer: Pick<Packer, 'pack'>) {
  const { job, directory } = await makeJob();
  directory.create();
  const told: unknown[] = [];
  const report = (_problem: string, cause: unknown) => void told.push(cause);
  const deps = { ...unused, executor: quickExecutor(), packer: packer as Packer, report };
  return { job, told, end: new Lifecycle(job, deps).run() };
}

/** An executor with one run, which lasts until it is stopped; records the stop. */
function endlessExecutor() {
  let end = () => {};
  const stopped = new Promise<void>((resolve) => {
    end = resolve;
  });
  const state = { isStopped: false };
  async function* events(): AsyncGenerator<RunEvent> {
    yield { kind: 'placed', where: 'the CPU', grant: { gpus: [], gpuUuids: [], cpuSlots: 1 } };
    await stopped;
    yield { kind: 'ended', exitCode: 143, signal: 'SIGTERM', fault: null, error: null, lostLines: 0 };
  }
  const executor: Pick<Executor, 'run' | 'stop'> = {
    run: events,
    stop: async () => {
      state.isStopped = true;
      end();
    },
  };
  return { executor: executor as Executor, state };
}

/** A job that runs on such an executor. */
async function runningJob() {
  const { job, directory } = await makeJob();
  const { executor, state } = endlessExecutor();
  const report = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);
  const deps = { ...unused, executor, packer: new Packer(), report };
  const lifecycle = new Lifecycle(job, deps);
  const end = lifecycle.run();
  await expect.poll(() => job.state).toBe('running');
  return { job, directory, lifecycle, state, end };
}

test('a kill is saved to the disk before the command is stopped', async () => {
  const { job, directory, lifecycle, state, end } = await runningJob();

  const letGo = directory.hold();
  lifecycle.kill('user');
  await delay(100);
  expect([state.isStopped, directory.load()?.killRequested]).toEqual([false, false]);
  letGo();
  await end;
  expect([state.isStopped, job.state, directory.stateOnDisk()]).toEqual([true, 'killed', 'killed']);
});

test.for([
  ['user', 'stop', 'Killed by user'],
  ['stop', 'user', 'The server was stopped'],
] as const)('a job that is ended by a %s and then by a %s has the first as its error', async (order) => {
  const [first, second, error] = order;
  const { job, directory, lifecycle, end } = await runningJob();
  lifecycle.kill(first);
  lifecycle.kill(second);
  await end;
  expect(job.view()).toMatchObject({ status: 'killed', error });
  // The next server knows it as well, also if this one did not finish.
  expect(directory.load()).toMatchObject({ error, killRequested: true, killCause: first });
});

test('a result is packed as soon as the program is there again that an upgrade has taken away', async () => {
  const away = Object.assign(new Error('Cannot find module'), { code: 'ERR_MODULE_NOT_FOUND' });
  let tries = 0;
  const pack: Packer['pack'] = async (...args) => {
    tries += 1;
    if (tries === 1) throw away;
    return await new Packer().pack(...args);
  };
  const { job, end, told } = await doneJob({ pack });
  await end;
  expect([tries, job.state, job.record.error]).toEqual([2, 'done', null]);
  expect(told).toEqual([away]);
});

test('a job whose archive the disk cannot hold is done, and its log says that the result is packed when it is fetched', async () => {
  const broken = Object.assign(new Error('EIO: i/o error, write'), { code: 'EIO', errno: -5 });
  const { job, end, told } = await doneJob({ pack: () => Promise.reject(broken) });
  await end;
  expect([job.state, job.record.error, told]).toEqual(['done', null, [broken]]);
  expect(readFileSync(job.directory.logFile, 'utf8')).toContain(
    'Result: packed while it is downloaded, as the disk of the server failed: i/o error (EIO)',
  );
});
