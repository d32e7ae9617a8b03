import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { makeJob } from './held-job.js';

test('a second kill while the end is saved changes nothing', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  const end = job.finish('killed', 'Killed by user');
  await delay(0);
  const secondKill = job.requestKill('user');
  letGo();
  await Promise.all([end, secondKill]);
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'killed']);
});

test('an end while a kill is being saved stays, in memory and on the disk', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  const kill = job.requestKill('user');
  await delay(0);
  const end = job.finish('killed', 'Killed by user');
  letGo();
  await Promise.all([kill, end]);
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'killed']);
});

test('an end is shown although the disk does not answer, and is saved when the disk answers again', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  const kill = job.requestKill('user');
  await job.finish('killed', 'Killed by user');
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'queued']);
  letGo();
  await kill;
  await expect.poll(() => directory.stateOnDisk()).toBe('killed');
  expect(job.state).toBe('killed');
}, 120_000);

test('a power cut leaves the record that notes a fetched result: it replaced the one of the end', async () => {
  const { job, directory } = await makeJob();
  await job.run({ gpus: [], gpuUuids: [], cpuSlots: 1 }, null);
  await job.finish('done', null);
  job.noteFetched();
  const noted = { state: 'done', fetchedAt: expect.any(String) };
  await expect.poll(() => directory.latest).toMatchObject({ record: noted, isKept: true });
});

test('the time that it ran is not that of a clock which somebody sets meanwhile', async () => {
  const { job } = await makeJob();
  await job.run({ gpus: [], gpuUuids: [], cpuSlots: 1 }, null);
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 48 * 3600 * 1000 });
  try {
    await job.finish('done', null);
  } finally {
    vi.useRealTimers();
  }
  expect(job.ranFor).toBeGreaterThan(0);
  expect(job.ranFor).toBeLessThan(60);
});

test('the time that is shown as run ends with its command, and not with the packing of its result', async () => {
  const { job } = await makeJob();
  await job.run({ gpus: [], gpuUuids: [], cpuSlots: 1 }, null);
  job.release(null, 0);
  const { run_seconds: ran } = job.view();
  const endedAt = job.commandEndedAt;
  await delay(5);
  await job.finish('done', null);
  expect(ran).toBeGreaterThan(0);
  expect([job.view().run_seconds, job.commandEndedAt]).toEqual([ran, endedAt]);
  expect(job.view().finished_at).not.toBe(endedAt);
});
