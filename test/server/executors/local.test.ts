import { existsSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';
import { settleRunEnd } from '../../../src/server/executors/run-files.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { executorContract } from './contract.js';
import { fullDiskContract } from './full-disk-contract.js';
import { localSubject } from './local-subject.js';
import { Bench, Followed } from './support.js';

const local = localSubject();

executorContract('the local executor', local);
fullDiskContract('the local executor', local);

test('the local executor reads the end that an older runner wrote', async () => {
  await using bench = await Bench.open(local);
  const job = bench.job();
  const older = { exitCode: null, signal: 'SIGKILL', error: null, endedAt: '2026-01-01T00:00:00.000Z' };
  writeFileSync(path.join(job.path, 'exit.json'), JSON.stringify(older));
  const grant = { gpus: [], gpuUuids: [], cpuSlots: 1 };
  const run = new Followed((await bench.executor()).run(job.order('exit 0', { isAccepted: true, grant })));
  expect(await run.ended).toEqual({
    kind: 'ended',
    exitCode: 137,
    signal: 'SIGKILL',
    fault: 'outOfMemory',
    error: null,
    lostLines: 0,
  });
});

test('the end of a run is read again after a failure of the system', async () => {
  await using directory = await temporary();
  await plant(directory.path, { job: 'not a directory yet' });
  const job = path.join(directory.path, 'job');
  const end = settleRunEnd(job, false);
  rmSync(job);
  const record = { exitCode: 3, signal: null, error: null, endedAt: '2026-01-01T00:00:00.000Z' };
  await plant(job, { 'exit.json': JSON.stringify(record) });
  expect(await end).toMatchObject({ exitCode: 3, fault: null });
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

test('the local executor kills a runner that does not exit after the end of its job', async () => {
  await using bench = await Bench.open(localSubject({ program: runner('main.js') }));
  const executor = await bench.executor();
  const job = bench.job();
  hurryClock();
  expect(await new Followed(executor.run(job.order('echo ran'))).ended).toMatchObject({ exitCode: 7 });
  expect(job.processes()).toEqual([]);
}, 30_000);

test('the local executor kills a runner that does not end a job that is stopped', async () => {
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
