import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Packer } from '../../../src/archive/packer.js';
import { systemClock } from '../../../src/files/index.js';
import type { Executor, RunEvent } from '../../../src/server/executors/index.js';
import { Lifecycle } from '../../../src/server/jobs/lifecycle.js';
import { makeJob } from './held-job.js';

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
  const deps = {
    executor,
    packer: new Packer(),
    commandFor: () => ['true'],
    versionOf: async () => null,
    accessOf: () => ({ network: false, directories: [], environment: {} }),
    residentOf: () => null,
    explainExit: () => null,
    diskPerJob: Number.POSITIVE_INFINITY,
    discard: () => {},
    clock: systemClock,
    report,
  };
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
