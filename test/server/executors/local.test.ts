import { existsSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';
import { unknownUsage } from '../../../src/runner/index.js';
import { identify } from '../../../src/runner/process-table.js';
import type { RunOrder } from '../../../src/server/executors/index.js';
import type { LocalExecutor } from '../../../src/server/executors/local/index.js';
import { endOfRun } from '../../../src/server/executors/run-files.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { executorContract } from './contract.js';
import { fullDiskContract } from './full-disk-contract.js';
import { localSubject } from './local-subject.js';
import { Bench, Followed } from './support.js';

const local = localSubject();

executorContract('the local executor', local);
fullDiskContract('the local executor', local);

test('The local executor reads the end of a job that ended while there was no server', async () => {
  await using bench = await Bench.open(local);
  const job = bench.job();
  const end = {
    exitCode: null,
    signal: 'SIGKILL',
    error: null,
    fault: null,
    lostLines: 0,
    ...unknownUsage,
    wasAlone: false,
  };
  const record = { ...end, endedAt: '2026-01-01T00:00:00.000Z' };
  writeFileSync(path.join(job.path, 'exit.json'), JSON.stringify(record));
  const grant = { gpus: [], gpuUuids: [], cpuSlots: 1 };
  const run = new Followed((await bench.executor()).run(job.order('exit 0', { isAccepted: true, grant })));
  expect(await run.ended).toEqual({
    kind: 'ended',
    exitCode: 137,
    signal: 'SIGKILL',
    fault: 'outOfMemory',
    error: null,
    lostLines: 0,
    ...unknownUsage,
  });
});

test('The end of a run is read again after a failure of the system', async () => {
  await using directory = await temporary();
  await plant(directory.path, { job: 'not a directory yet' });
  const job = path.join(directory.path, 'job');
  const ended = endOfRun(job, false);
  rmSync(job);
  const end = {
    exitCode: 3,
    signal: null,
    error: null,
    fault: null,
    lostLines: 0,
    ...unknownUsage,
    wasAlone: false,
  };
  await plant(job, { 'exit.json': JSON.stringify({ ...end, endedAt: '2026-01-01T00:00:00.000Z' }) });
  expect(await ended).toMatchObject({ exitCode: 3, fault: null });
});

const runner = (name: string) =>
  fileURLToPath(new URL(`../../fixtures/programs/runner/${name}`, import.meta.url));

/** Lets the time that is measured pass ten times as fast. */
function hurryClock(): void {
  const now = performance.now.bind(performance);
  const start = now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => start + 10 * (now() - start));
  onTestFinished(() => clock.mockRestore());
}

test('The local executor kills a runner that does not exit after the end of its job', async () => {
  await using bench = await Bench.open(localSubject({ program: runner('main.js') }));
  const executor = await bench.executor();
  const job = bench.job();
  hurryClock();
  expect(await new Followed(executor.run(job.order('echo ran'))).ended).toMatchObject({ exitCode: 7 });
  expect(job.processes()).toEqual([]);
}, 30_000);

test('The local executor kills a runner that does not end a job that is stopped', async () => {
  await using bench = await Bench.open(localSubject({ program: runner('deaf.js') }));
  const executor = await bench.executor();
  const job = bench.job();
  const run = new Followed(executor.run(job.order('echo ran')));
  await until('it is claimed', () => existsSync(path.join(job.path, 'claimed')));
  hurryClock();
  await executor.stop(job);
  expect(await run.ended).toMatchObject({ exitCode: null, fault: 'lost' });
  expect(job.processes()).toEqual([]);
}, 30_000);

test("The GPUs used by an earlier server's run are held, or all GPUs if these are unknown", async () => {
  await using bench = await Bench.open(local);
  const executor = await bench.executor(3);
  const job = bench.job();
  const free = async () => (await executor.devices()).filter(({ isFree }) => isFree).map(({ id }) => id);
  const held = async () => {
    const release = executor.reserve(job);
    const left = await free();
    release();
    return left;
  };
  // Nothing runs there.
  expect(await held()).toEqual([0, 1, 2]);
  await plant(job.path, { 'runner.json': JSON.stringify({ runner: identify(process.pid), command: null }) });
  expect([executor.isRunning(job), await held()]).toEqual([true, []]);
  await plant(job.path, { 'run.json': '{' });
  expect(await held()).toEqual([]);
  const request = { environment: { CUDA_VISIBLE_DEVICES: '0,2' }, gpuUuids: [] };
  await plant(job.path, { 'run.json': JSON.stringify(request) });
  expect([await held(), await free()]).toEqual([[1], [0, 1, 2]]);
  await plant(job.path, { 'run.json': JSON.stringify({ environment: {} }) });
  expect(await held()).toEqual([]);
});

test('A job that an earlier server has placed counts for its owner until it ends', async () => {
  let most: number | null = 1;
  const maxJobs = (owner: string | null) => (owner === 'ana' ? most : null);
  await using bench = await Bench.open(localSubject({ maxJobs }));
  const executor = (await bench.executor()) as LocalExecutor;
  const access = () => {
    throw new Error('Its app is gone');
  };
  const run = (more: Partial<RunOrder> = {}) =>
    executor.run(bench.job().order('', { owner: 'ana', access, ...more }));
  const first = run({ isAccepted: true, grant: { gpus: [], gpuUuids: [], cpuSlots: 1 } });
  const second = new Followed(run());
  await until('the second one waits', () => second.events.length > 0);
  const limit = "a CPU slot: token 'ana' may have 1 job at once and has 1";
  expect(second.events).toEqual([{ kind: 'waiting', for: limit, position: 1 }]);
  most = null;
  executor.reconsider();
  await until('it waits for something else', () => second.events.length > 1);
  expect(second.events[1]).toEqual({ kind: 'waiting', for: 'a CPU slot', position: 1 });
  most = 1;
  await expect(new Followed(first).ended).rejects.toThrow('Its app is gone');
  await expect(second.ended).rejects.toThrow('Its app is gone');
});

test('A placed job has a line for its log, and learns only its GPUs about the machine', async () => {
  await using bench = await Bench.open(localSubject({ passEnvironment: ['GIVEN'] }));
  vi.stubEnv('GIVEN', 'given');
  vi.stubEnv('SECRET', 'secret');
  const executor = await bench.executor(3);
  const job = bench.job();
  const script = 'echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES $GIVEN$SECRET $OWN $(pwd)"';
  const devices = { kind: 'gpus', ids: [2, 0] } as const;
  const run = new Followed(executor.run(job.order(script, { devices, environment: { OWN: 'own' } })));
  expect(await run.ended).toMatchObject({ exitCode: 0 });
  expect(run.events[0]).toMatchObject({
    kind: 'placed',
    where: 'GPU 2, 0',
    grant: { gpus: [2, 0], cpuSlots: 0 },
  });
  expect(job.log).toBe(`PCI_BUS_ID 2,0 given own ${job.workspace}\n`);
  const onCpu = bench.job();
  const other = new Followed(executor.run(onCpu.order('echo "[$CUDA_VISIBLE_DEVICES]"')));
  await other.ended;
  expect([other.events[0], onCpu.log]).toEqual([expect.objectContaining({ where: 'the CPU' }), '[]\n']);
});
