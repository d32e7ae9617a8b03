import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { Packer } from '../../../src/archive/packer.js';
import { deferred, systemClock } from '../../../src/files/index.js';
import { ServerEvents } from '../../../src/server/events.js';
import type { Ended, Executor, RunEvent, RunOrder } from '../../../src/server/executors/index.js';
import type { JobRecord } from '../../../src/server/jobs/job-record.js';
import { Lifecycle, type LifecycleDeps } from '../../../src/server/jobs/lifecycle.js';
import type { Trash } from '../../../src/server/jobs/trash.js';
import { TestClock } from '../../support/test-clock.js';
import { makeJob } from './held-job.js';
import { appsOfTests, stoppedEnd, succeeded } from './job-service.js';

/** An executor with one run, which succeeds. */
function quickExecutor(): Executor {
  async function* events(): AsyncGenerator<RunEvent> {
    yield { kind: 'placed', where: 'the CPU', grant: { gpus: [], gpuUuids: [], cpuSlots: 1 } };
    yield succeeded;
  }
  const executor: Pick<Executor, 'run' | 'stop'> = { run: events, stop: async () => {} };
  return executor as Executor;
}

const shared = {
  apps: appsOfTests,
  trash: { discardWritten: async () => {} } as unknown as Trash,
  diskPerJob: Number.POSITIVE_INFINITY,
  clock: systemClock,
};

/** A job whose command succeeds. */
async function doneJob(packer: Pick<Packer, 'pack'>) {
  const { job, directory } = await makeJob();
  directory.makeDirectories();
  const told: unknown[] = [];
  const report = (_problem: string, cause: unknown) => void told.push(cause);
  const deps = { ...shared, executor: quickExecutor(), packer: packer as Packer, report };
  return { job, told, end: new Lifecycle(job, deps).run() };
}

/** An executor with one run, which lasts until it is stopped; records the stop. */
function endlessExecutor() {
  const { promise: stopped, resolve: end } = deferred<void>();
  const state = { isStopped: false };
  async function* events(): AsyncGenerator<RunEvent> {
    yield { kind: 'placed', where: 'the CPU', grant: { gpus: [], gpuUuids: [], cpuSlots: 1 } };
    await stopped;
    yield stoppedEnd;
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
  const deps = { ...shared, executor, packer: new Packer(), report };
  const lifecycle = new Lifecycle(job, deps);
  const end = lifecycle.run();
  await expect.poll(() => job.state).toBe('running');
  return { job, directory, lifecycle, state, end };
}

test('A kill is saved to the disk before the command is stopped', async () => {
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
] as const)('A job that is ended by a %s and then by a %s has the first as its error', async (order) => {
  const [first, second, error] = order;
  const { job, directory, lifecycle, end } = await runningJob();
  lifecycle.kill(first);
  lifecycle.kill(second);
  await end;
  expect(job.view()).toMatchObject({ status: 'killed', error });
  // The next server knows it as well, also if this one did not finish.
  expect(directory.load()).toMatchObject({ error, killRequested: true, killCause: first });
});

test.for([
  ['the program is there again that an upgrade has taken away', { code: 'ERR_MODULE_NOT_FOUND' }],
  ['there are descriptors for it', { code: 'EMFILE', errno: -24, syscall: 'open' }],
])('A result is packed as soon as %s', async ([, code]) => {
  const away = Object.assign(new Error('It failed'), code);
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

/** A job whose command ends like this, once `during` is over. */
async function jobThatEnds(
  end: Partial<Ended> | Error,
  {
    during = () => {},
    record = null,
    clock = new TestClock(),
    removedButOpen = async () => 0,
    ...more
  }: Partial<LifecycleDeps> & {
    readonly removedButOpen?: () => Promise<number>;
    readonly during?: (lifecycle: Lifecycle) => unknown;
    readonly record?: Partial<JobRecord> | null;
    readonly clock?: TestClock;
  } = {},
) {
  const { job, directory } = await makeJob(clock, record);
  directory.makeDirectories();
  const orders: RunOrder[] = [];
  const stops: string[] = [];
  const told: string[] = [];
  async function* events(order: RunOrder): AsyncGenerator<RunEvent> {
    orders.push(order);
    if (record === null) {
      yield {
        kind: 'placed',
        where: 'GPU 1',
        grant: { gpus: [1], gpuUuids: [], cpuSlots: 0 },
        start: 'warm',
      };
    }
    await during(lifecycle);
    if (end instanceof Error) throw end;
    yield { ...succeeded, ...end };
  }
  const executor = {
    run: events,
    stop: async ({ id }: { id: string }) => void stops.push(id),
    removedButOpen,
    capacity: () => ({ gpus: null, memory: null, cpus: null }),
  };
  const deps = {
    ...shared,
    clock,
    packer: new Packer(),
    report: (problem: string, cause: unknown) => told.push(`${problem}: ${cause}`),
    executor: executor as unknown as Executor,
    ...more,
  };
  const lifecycle: Lifecycle = new Lifecycle(job, deps);
  const log = () => readFileSync(directory.logFile, 'utf8').replaceAll('[remote-app] ', '').split('\n');
  return { job, directory, lifecycle, orders, stops, told, log };
}

const tooLarge = 'it wrote a larger file than it may (ulimit -f of the server)';
const mayBeMemory = 'The command was killed, and not by this service: the server may have run out of memory';

describe('a command that ends', () => {
  test.for([
    [{ exitCode: 3 }, 'Subprocess failed (exit code 3)', null],
    [{ exitCode: 4 }, 'Out of CUDA memory', 'Out of CUDA memory'],
    [{ exitCode: 153, signal: 'SIGXFSZ' }, `Subprocess failed (exit code 153, SIGXFSZ); ${tooLarge}`, null],
    [{ exitCode: 137, signal: 'SIGKILL', fault: 'outOfMemory' }, mayBeMemory, mayBeMemory],
    [
      { exitCode: null, fault: 'outOfMemory', error: 'It used more than it may' },
      'It used more than it may',
      'It used more than it may',
    ],
    [
      { exitCode: 1, lostLines: 1 },
      'Subprocess failed (exit code 1)',
      '1 line of the log could not be written: the disk had no room',
    ],
    [
      { exitCode: 143, fault: 'timeLimit' },
      'Ended at its time limit: it may run for 10m',
      'Ended at its time limit: it may run for 10m',
    ],
  ] as const)('A command that ends with %o has the error %s', async ([end, error, line]) => {
    const explainOutOfMemory = (_: unknown, code: number) => (code === 4 ? 'Out of CUDA memory' : null);
    const apps = { ...appsOfTests, explainOutOfMemory };
    const { job, lifecycle, log } = await jobThatEnds(end, { apps });
    await lifecycle.run();
    expect(job.view()).toMatchObject({ status: 'error', error, left_files: 0, start: 'warm' });
    expect(log()).toEqual(['Assigned GPUs: 1', 'Starting infer on GPU 1', ...(line ? [line] : []), '']);
  });

  test.for([
    [{ exitCode: 3 }, 'The spacing is 9 mm', true],
    [{ exitCode: 3, signal: 'SIGKILL' }, 'Subprocess failed (exit code 3, SIGKILL)', false],
    [{ exitCode: 3, error: 'Its runner was killed' }, 'Its runner was killed', false],
    [{ exitCode: 3, fault: 'diskFull' }, 'Subprocess failed (exit code 3)', false],
    [{ exitCode: 0 }, null, false],
  ] as const)('A command that ends with %o and a refusal says %s', async ([end, error, isRefused]) => {
    const { job, directory, lifecycle } = await jobThatEnds(end, {
      during: () => writeFileSync(directory.refusal, 'The spacing\n is 9 mm\n'),
    });
    await lifecycle.run();
    expect([job.record.error, job.record.isRefused]).toEqual([error, isRefused]);
  });

  test('A job that loaded its app itself had a cold start, and its result has a size and its notes', async () => {
    const pack = async () => ({ files: 2, bytes: 10, notes: ['a link is left out'] });
    const { job, directory, lifecycle, log } = await jobThatEnds(
      { wasAlone: true },
      {
        packer: { pack } as unknown as Packer,
        during: () => writeFileSync(directory.result, 'x'.repeat(7)),
        apps: { ...appsOfTests, versionOf: () => Promise.reject(new Error('Its files cannot be read')) },
      },
    );
    await lifecycle.run();
    expect([job.view().start, job.record.resultBytes]).toEqual(['cold', 7]);
    expect(log().slice(-3)).toEqual(['Result: a link is left out', 'Result: 2 files, 10 B', '']);
  });
});

test.for([
  [new TypeError('x is not a function of /data/secret'), 'Internal server error'],
  [new ReferenceError('secret is not defined'), 'Internal server error'],
  [new SyntaxError('Unexpected token in /data/secret'), 'Internal server error'],
  [new RangeError('Invalid secret'), 'Internal server error'],
  [Object.assign(new Error('The secret is bad'), { code: 'ERR_INVALID_STATE' }), 'Internal server error'],
  [
    Object.assign(new Error("EACCES: permission denied, open '/data/secret'"), {
      code: 'EACCES',
      errno: -13,
      syscall: 'open',
      path: '/data/secret',
    }),
    'permission denied (EACCES)',
  ],
] as const)('A job that fails with %s has the error %s, which names no file', async ([cause, error]) => {
  const { job, lifecycle, told } = await jobThatEnds(cause);
  await lifecycle.run();
  expect(job.view()).toMatchObject({ status: 'error', error });
  expect(told).toEqual([`Job ${job.id} failed: ${cause}`]);
  const killed = await jobThatEnds(cause, { during: (lifecycle) => lifecycle.kill('user') });
  await killed.lifecycle.run();
  expect(killed.job.view()).toMatchObject({ status: 'killed', error: 'Killed by user' });
});

test.for([
  ['that has not begun', 'waiting', 0, 600],
  ['that began four minutes ago, under another boot', 'running', 240, 360],
  ['whose time was over while there was no server', 'running', 2400, 0],
  ['that began in an hour, by a clock that was set back', 'running', -3600, 600],
] as const)('A job %s may run for the rest of its time', async ([, state, seconds, left]) => {
  const clock = new TestClock();
  const startedAt = state === 'running' ? new Date(clock.now() - seconds * 1000).toISOString() : null;
  const { lifecycle, orders } = await jobThatEnds({}, { clock, record: { state, startedAt } });
  await lifecycle.run();
  expect(orders[0]?.timeLimit).toBe(left * 1000);
});

test('A job that was killed before it began is stopped, and its log says whether the server was stopped', async () => {
  const killed = { state: 'waiting', killRequested: true, killCause: 'stop' } as const;
  const { job, lifecycle, stops, log } = await jobThatEnds({ exitCode: 143 }, { record: killed });
  writeFileSync(job.directory.logFile, '');
  await lifecycle.run();
  expect([job.state, stops, log()]).toEqual(['killed', [job.id], ['The server was stopped', '']]);
});

test('A command is stopped even if the kill cannot be saved, after a limited wait for the disk', async () => {
  const { job, directory, lifecycle, state, end } = await runningJob();
  const letGo = directory.hold();
  lifecycle.kill('user');
  await expect.poll(() => state.isStopped, { timeout: 10_000 }).toBe(true);
  letGo();
  await end;
  expect(job.state).toBe('killed');
});

test('A job waits and runs although the disk cannot note that it waits', async () => {
  const { job, directory } = await makeJob();
  directory.makeDirectories();
  const save = directory.save.bind(directory);
  directory.save = async (record, isKept) => {
    if (record.state === 'waiting') throw Object.assign(new Error('The disk is full'), { code: 'ENOSPC' });
    await save(record, isKept);
  };
  async function* events(): AsyncGenerator<RunEvent> {
    yield { kind: 'waiting', for: 'GPU 1', position: 2 };
    yield* quickExecutor().run({} as RunOrder);
  }
  const told: string[] = [];
  const report = (problem: string) => told.push(problem);
  const executor = { run: events, stop: async () => {} } as unknown as Executor;
  await new Lifecycle(job, { ...shared, executor, packer: new Packer(), report }).run();
  expect([job.state, told]).toEqual(['done', [`Job ${job.id} could not be saved as waiting`]]);
  expect(readFileSync(directory.logFile, 'utf8')).toContain('Waiting for GPU 1: position 2 in the queue');
});

test('Leaving a job while its result is packed waits until the packing has stopped, and does not end the job', async () => {
  let stop = () => {};
  const stopped = new Promise<never>((_, reject) => {
    stop = () => reject(new Error('aborted'));
  });
  let isBegun = false;
  const pack = (_output: string, _result: string, signal: AbortSignal) => {
    isBegun = true;
    return signal.aborted ? Promise.reject(signal.reason) : stopped;
  };
  const { job, lifecycle, told } = await jobThatEnds({}, { packer: { pack } as unknown as Packer });
  void lifecycle.run();
  await expect.poll(() => isBegun).toBe(true);
  let isLeft = false;
  const left = lifecycle.leave().then(() => {
    isLeft = true;
  });
  await delay(10);
  expect(isLeft).toBe(false);
  stop();
  await left;
  await delay(10);
  expect([job.state, told]).toEqual(['running', []]);
});

test('Each step of a job is announced once, with what an admin wants to know about it', async () => {
  const clock = new TestClock();
  const createdAt = new Date(clock.now()).toISOString();
  const events = new ServerEvents(() => {});
  const told: unknown[] = [];
  for (const name of ['waiting', 'started', 'ended'] as const)
    events.on(name, (what) => told.push([name, what]));
  const { job } = await makeJob(clock, { createdAt }, { events });
  clock.pass(120);
  const facts = { id: job.id, app: 'tissue', operation: 'infer', owner: null };
  await job.wait({ kind: 'waiting', for: 'GPU 1', position: 3 });
  await job.wait({ kind: 'waiting', for: 'GPU 1', position: 2 });
  await job.run({ gpus: [1], gpuUuids: ['GPU-a'], cpuSlots: 0 }, null);
  await job.requestKill('user');
  clock.pass(30);
  await job.finish('error', 'It failed', { isRefused: true });
  job.noteFetched();
  await job.leave();
  expect(told).toEqual([
    ['waiting', { ...facts, for: 'GPU 1', position: 3 }],
    ['started', { ...facts, gpus: [1], waited: 120 }],
    [
      'ended',
      {
        ...facts,
        state: 'error',
        error: 'It failed',
        isRefused: true,
        exitCode: null,
        gpus: [1],
        gpuUuids: ['GPU-a'],
        cpuSlots: 0,
        endedAt: new Date(clock.now()).toISOString(),
        seconds: 30,
        ...{ peakMemory: null, peakGpuMemory: null, cpuSeconds: null, overuse: [] },
        version: null,
        acceptedAt: createdAt,
        queued: 120,
        received: 0,
        bytes: null,
      },
    ],
  ]);
});

test('The waiting time of a job that never began lasts until its end', async () => {
  const clock = new TestClock();
  const { job } = await makeJob(clock, { createdAt: new Date(clock.now()).toISOString() });
  clock.pass(90);
  await job.finish('killed', 'Killed by user');
  expect(job.end()).toMatchObject({ queued: 90, seconds: null, gpus: [], cpuSlots: 0 });
});
