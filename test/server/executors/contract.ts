import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { unknownUsage } from '../../../src/runner/index.js';
import type { Device, Ended } from '../../../src/server/executors/index.js';
import { processesOfJob } from '../../support/processes.js';
import { until } from '../../support/until.mjs';
import { Bench, Followed, firstOf, type Subject } from './support.js';

const slot = { gpus: [], gpuUuids: [], cpuSlots: 1 };
const accepted = { isAccepted: true };
const placed = { isAccepted: true, grant: slot };

const end = (told: Partial<Ended>): Ended => ({
  kind: 'ended',
  exitCode: null,
  signal: null,
  fault: null,
  error: null,
  lostLines: 0,
  ...unknownUsage,
  ...told,
});

/** Runs until this file is in its working directory. */
const gated = (gate: string) => `echo ready; while [ ! -e ${gate} ]; do sleep 0.02; done; echo over`;
const endless = 'echo ready; sleep 600';
/** A script that writes a line each time that it runs. */
const counted = 'echo ran >> count; echo ready; sleep 0.3';
const timesRun = (workspace: string) =>
  readFileSync(path.join(workspace, 'count'), 'utf8').trim().split('\n').length;

/** The behaviour that every executor must have. */
export function executorContract(name: string, subject: Subject): void {
  describe(`${name}: running a job`, () => {
    test('A job is reported as placed, and then as ended', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const job = bench.job();
      const order = job.order('pwd; echo "$NAME"', { environment: { NAME: 'value' } });
      const run = new Followed(executor.run(order));
      expect(await run.ended).toEqual(end({ exitCode: 0 }));
      expect(run.events[0]).toEqual({ kind: 'placed', where: expect.any(String), grant: slot });
      expect(run.kinds).toEqual(['placed', 'ended']);
      expect(job.log).toBe(`${job.workspace}\nvalue\n`);
      expect(job.processes()).toEqual([]);
    });

    test('A job does not start before the consumer has handled its placement', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const job = bench.job();
      const run = executor.run(job.order('echo ready'))[Symbol.asyncIterator]();
      expect((await run.next()).value).toMatchObject({ kind: 'placed' });
      expect([executor.isRunning(job), job.processes(), job.log]).toEqual([false, [], '']);
      expect((await run.next()).value).toMatchObject({ exitCode: 0, endedAt: expect.any(String) });
    });

    test.for([
      ['exit 3', end({ exitCode: 3 })],
      ['kill -TERM $$', end({ exitCode: 143, signal: 'SIGTERM' })],
      ["sh -c 'kill -KILL $$'; exit $?", end({ exitCode: 137, signal: 'SIGKILL', fault: 'outOfMemory' })],
      ['kill -KILL $$', end({ exitCode: 137, signal: 'SIGKILL', fault: 'outOfMemory' })],
    ] as const)('The end of a job is reported: %s', async ([script, told]) => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      expect(await new Followed(executor.run(bench.job().order(script))).ended).toEqual(told);
    });

    test('The peak memory of all processes of a job together, and their CPU time, are reported', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const busy = 'let used; do used = process.cpuUsage(); while (used.user + used.system < 500_000);';
      const program = `const all = Buffer.alloc(80 << 20, 1); ${busy} setTimeout(() => all, 1500)`;
      const node = `${process.execPath} -e "${program}"`;
      // Node may be in a home directory, which a sandbox hides.
      const directories = [path.dirname(process.execPath)];
      const access = () => ({ network: false, directories, environment: {} });
      const run = new Followed(executor.run(bench.job().order(`${node} & ${node}; wait`, { access })));
      await run.ended;
      const { peakMemory, cpuSeconds } = run.events.at(-1) as Ended;
      expect([peakMemory, cpuSeconds]).toEqual([expect.any(Number), expect.any(Number)]);
      expect(peakMemory).toBeGreaterThan(160 * 2 ** 20);
      expect(peakMemory).toBeLessThan(800 * 2 ** 20);
      expect(cpuSeconds).toBeGreaterThan(0.3);
      expect(cpuSeconds).toBeLessThan(30);
    });

    test('The reason why a program could not be started is reported', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const order = bench.job().order('', { command: () => ['no-such-program-here'] });
      const { exitCode, error } = await new Followed(executor.run(order)).ended;
      expect([exitCode, error]).toEqual([null, expect.stringContaining('no-such-program-here')]);
    });

    test('A job runs no longer than its time limit', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const job = bench.job();
      const run = new Followed(executor.run(job.order(endless, { timeLimit: 200 })));
      expect((await run.ended).fault).toBe('timeLimit');
      expect(job.processes()).toEqual([]);
    });

    test('A job that is submitted twice runs once', async () => {
      await using bench = await Bench.open(subject);
      const [first, second] = [await bench.executor(), await bench.executor()];
      const job = bench.job();
      const runs = [first, second].map((executor) => new Followed(executor.run(job.order(counted))));
      expect(await Promise.all(runs.map(({ ended }) => ended))).toEqual([
        end({ exitCode: 0 }),
        end({ exitCode: 0 }),
      ]);
      const again = new Followed(first.run(job.order(counted)));
      expect(await again.ended).toEqual(end({ exitCode: 0 }));
      expect(timesRun(job.workspace)).toBe(1);
    });

    test('A job runs again if its first run has ended and was forgotten', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const job = bench.job();
      const order = job.order(`${counted}; exit 1`);
      expect((await new Followed(executor.run(order)).ended).exitCode).toBe(1);
      executor.forget(job);
      const again = new Followed(executor.run({ ...order, isAccepted: true, isAlone: true }));
      expect((await again.ended).exitCode).toBe(1);
      expect([again.kinds, timesRun(job.workspace)]).toEqual([['placed', 'ended'], 2]);
    });

    test('A job releases its devices when the consumer of the events fails', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const follow = async () => {
        for await (const event of executor.run(bench.job().order('exit 0'))) throw new Error(event.kind);
      };
      await expect(follow()).rejects.toThrow('placed');
      expect(await new Followed(executor.run(bench.job().order('exit 0'))).ended).toEqual(
        end({ exitCode: 0 }),
      );
    });
  });

  describe(`${name}: a waiting job`, () => {
    test('A waiting job reports its position whenever it changes, until its devices are free', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const jobs = [bench.job(), bench.job(), bench.job()] as const;
      const begin = (job: (typeof jobs)[number]) => new Followed(executor.run(job.order(gated('gate'))));
      const runs = [begin(jobs[0])];
      await jobs[0].prints('ready');
      // One after the other: a cluster that is given two at once takes them in any order.
      for (const job of [jobs[1], jobs[2]]) {
        const run = begin(job);
        runs.push(run);
        await until('it waits', () => run.kinds.length === 1);
      }
      expect(runs.map(({ positions }) => positions)).toEqual([[], [1], [2]]);
      expect(runs[1]?.events[0]).toMatchObject({ for: expect.any(String) });
      await executor.stop(jobs[1]);
      await until('the third moves up', () => runs[2]?.positions.at(-1) === 1);
      for (const job of jobs) writeFileSync(path.join(job.workspace, 'gate'), '');
      expect(await Promise.all(runs.map(({ ended }) => ended))).toMatchObject([
        { exitCode: 0 },
        { exitCode: null },
        { exitCode: 0 },
      ]);
      expect(runs[2]?.kinds).toEqual(['waiting', 'waiting', 'placed', 'ended']);
    });
  });

  describe(`${name}: stopping a job`, () => {
    test('A waiting job that is stopped never starts', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const [first, second] = [bench.job(), bench.job()];
      new Followed(executor.run(first.order(endless)));
      const run = new Followed(executor.run(second.order('echo ready')));
      await until('it waits', () => run.kinds.length === 1);
      await executor.stop(second);
      expect((await run.ended).exitCode).toBeNull();
      expect([run.kinds, second.log]).toEqual([['waiting', 'ended'], '']);
      await executor.stop(first);
    });

    test('A job that is stopped after its placement but before its start never starts', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const job = bench.job();
      const run = executor.run(job.order('echo ready'))[Symbol.asyncIterator]();
      await run.next();
      const stopped = executor.stop(job);
      expect((await run.next()).value).toMatchObject({ kind: 'ended', exitCode: null });
      await stopped;
      expect(job.log).toBe('');
    });

    test('A running job that is stopped leaves nothing behind, and its devices are free', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const [first, second] = [bench.job(), bench.job()];
      const run = new Followed(executor.run(first.order(`setsid sleep 600 & ${endless}`)));
      const next = new Followed(executor.run(second.order('exit 0')));
      await first.prints('ready');
      await executor.stop(first);
      expect(first.processes()).toEqual([]);
      expect(await run.ended).toEqual(end({ exitCode: 143, signal: 'SIGTERM' }));
      expect(await next.ended).toEqual(end({ exitCode: 0 }));
    });

    test('A job that ignores SIGTERM is killed, and not reported as out of memory', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const job = bench.job();
      const script = 'trap "" TERM; echo ready; while :; do sleep 0.1; done';
      const run = new Followed(executor.run(job.order(script)));
      await job.prints('ready');
      await Promise.all([executor.stop(job), executor.stop(job)]);
      expect(await run.ended).toEqual(end({ exitCode: 137, signal: 'SIGKILL' }));
      expect(job.processes()).toEqual([]);
    });

    test('Stopping a job that has ended or never existed has no effect', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const job = bench.job();
      await new Followed(executor.run(job.order('exit 0'))).ended;
      await executor.stop(job);
      await executor.stop(bench.job());
      expect(await new Followed(executor.run(job.order('exit 1', placed))).ended).toEqual(
        end({ exitCode: 0 }),
      );
    });
  });

  describe(`${name}, restarted: jobs of the previous server`, () => {
    test('A job that was waiting is found', async () => {
      await using bench = await Bench.open(subject);
      const first = await bench.executor();
      const [ahead, job] = [bench.job(), bench.job()];
      new Followed(first.run(ahead.order(endless)));
      await ahead.prints('ready');
      expect(await firstOf(first.run(job.order(counted)))).toMatchObject({ kind: 'waiting' });
      const second = await bench.executor();
      new Followed(second.run(ahead.order(endless, placed)));
      const run = new Followed(second.run(job.order(counted, accepted)));
      await until('it waits', () => run.positions.at(-1) === 1);
      await second.stop(ahead);
      expect(await run.ended).toEqual(end({ exitCode: 0 }));
      expect([run.kinds, timesRun(job.workspace)]).toEqual([['waiting', 'placed', 'ended'], 1]);
    });

    test('A job that was placed but not started is found', async () => {
      await using bench = await Bench.open(subject);
      const job = bench.job();
      expect(await firstOf((await bench.executor()).run(job.order(counted)))).toMatchObject({
        kind: 'placed',
      });
      const run = new Followed((await bench.executor()).run(job.order(counted, placed)));
      expect(await run.ended).toEqual(end({ exitCode: 0 }));
      expect([run.kinds, timesRun(job.workspace)]).toEqual([['placed', 'ended'], 1]);
    });

    test('A running job is found and not run again, and keeps what it holds', async () => {
      await using bench = await Bench.open(subject);
      const job = bench.job();
      new Followed((await bench.executor()).run(job.order(endless)));
      await job.prints('ready');
      const second = await bench.executor();
      expect([second.isRunning(job), second.runningUnder(bench.directory)]).toEqual([
        true,
        [{ id: job.id, path: job.path }],
      ]);
      const run = new Followed(second.run(job.order(endless, placed)));
      const behind = new Followed(second.run(bench.job().order('exit 0')));
      await until('the next one waits', () => behind.positions.length === 1);
      await second.stop(job);
      expect(await run.ended).toEqual(end({ exitCode: 143, signal: 'SIGTERM' }));
      expect(run.kinds).toEqual(['ended']);
      expect(await behind.ended).toEqual(end({ exitCode: 0 }));
    });

    // On a cluster one queue is behind all executors, so that no two of them give the same device away.
    const isShared = subject.isCluster === true;
    test.skipIf(isShared)(
      'A running job does not wait, even if more jobs run than there are devices',
      async () => {
        await using bench = await Bench.open(subject);
        const jobs = [bench.job(), bench.job()];
        for (const job of jobs) new Followed((await bench.executor()).run(job.order(endless)));
        for (const job of jobs) await job.prints('ready');
        const second = await bench.executor();
        const runs = jobs.map((job) => new Followed(second.run(job.order(endless, placed))));
        await Promise.all(jobs.map((job) => second.stop(job)));
        await Promise.all(runs.map(({ ended }) => ended));
        expect(runs.map(({ kinds }) => kinds)).toEqual([['ended'], ['ended']]);
      },
    );

    test('A running job is found by its directory alone, and can be stopped', async () => {
      await using bench = await Bench.open(subject);
      const job = bench.job();
      new Followed((await bench.executor()).run(job.order(endless)));
      await job.prints('ready');
      const second = await bench.executor();
      const letGo = second.reserve(job);
      await second.stop(job);
      letGo();
      expect([second.isRunning(job), job.processes()]).toEqual([false, []]);
    });

    test('A job that has ended is found', async () => {
      await using bench = await Bench.open(subject);
      const job = bench.job();
      await new Followed((await bench.executor()).run(job.order('exit 7'))).ended;
      const run = new Followed((await bench.executor()).run(job.order('exit 0', placed)));
      expect(await run.ended).toEqual(end({ exitCode: 7 }));
      expect(run.kinds).toEqual(['ended']);
    });
  });

  describe(`${name}: devices`, () => {
    const devices = (...free: boolean[]) =>
      free.map((isFree, id) => expect.objectContaining({ id, name: expect.stringMatching(/./), isFree }));
    const isOneHeld = (all: readonly Device[]) =>
      all.filter(({ isFree }) => isFree).length === all.length - 1;

    test('The devices are listed together with their memory', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor(2);
      expect(await executor.devices()).toEqual(devices(true, true));
      await expect(executor.memory([0, 7])).rejects.toMatchObject({ code: 'unknownGpu' });
      if (subject.isCluster) {
        await expect(executor.memory([0])).rejects.toMatchObject({ code: 'memoryUnknown' });
        return;
      }
      const [first, second] = [await executor.memory([0]), await executor.memory([1])];
      expect(first.total).toBeGreaterThan(first.used);
      expect(await executor.memory([1, 0])).toEqual({
        used: first.used + second.used,
        total: first.total + second.total,
      });
    });

    test('Devices held by a job are listed, whether of this server or of an earlier one', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor(2);
      const job = bench.job();
      const order = (more = {}) => job.order(endless, { devices: { kind: 'gpus', ids: [1] }, ...more });
      const run = new Followed(executor.run(order()));
      await job.prints('ready');
      await until('one is held', async () => isOneHeld(await executor.devices()));
      if (!subject.isCluster) expect(await executor.devices()).toEqual(devices(true, false));
      const event = run.events.find(({ kind }) => kind === 'placed');
      const again = await bench.executor(2);
      new Followed(again.run(order({ isAccepted: true, grant: event?.kind === 'placed' && event.grant })));
      expect(isOneHeld(await again.devices())).toBe(true);
      await executor.stop(job);
      await until('all are free', async () => (await executor.devices()).every(({ isFree }) => isFree));
      await again.stop(job);
    });

    test('An executor without devices lists none', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      expect(await executor.devices()).toEqual([]);
      await expect(executor.memory([0])).rejects.toMatchObject({ code: 'unknownGpu' });
    });

    test('Unknown devices are not listed, and the reason is given', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor(null);
      await expect(executor.devices()).rejects.toThrow(
        /GPUs of this server are not known: .+; try again later/,
      );
      await expect(executor.memory([0])).rejects.toMatchObject({ code: 'gpusUnknown' });
    });
  });

  describe(`${name}: reports`, () => {
    test('A lost job is reported, its remains are ended, and its devices are freed', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      const job = bench.job();
      const run = new Followed(executor.run(job.order(`setsid sleep 600 & ${endless}`)));
      await job.prints('ready');
      subject.lose(job.path);
      const told = await run.ended;
      expect(told).toEqual(end({ fault: 'lost', error: expect.any(String) }));
      expect([job.processes(), processesOfJob(job.id)]).toEqual([[], []]);
      expect(await new Followed(executor.run(bench.job().order('exit 0'))).ended).toEqual(
        end({ exitCode: 0 }),
      );
    });

    test('A request for devices that may not be requested is refused with a reason', async () => {
      await using bench = await Bench.open(subject);
      const executor = await bench.executor();
      expect(executor.check({ gpus: undefined, isCpu: true, workers: 2 })).toEqual({
        kind: 'cpu',
        workers: 2,
      });
      expect(() => executor.check({ gpus: [99], isCpu: false, workers: 1 })).toThrow(
        'This server has no GPU',
      );
      const order = bench.job().order('exit 0', { devices: { kind: 'gpus', ids: [99] } });
      expect(() => executor.run(order)).toThrow(/GPU.* 99/);
    });
  });
}
