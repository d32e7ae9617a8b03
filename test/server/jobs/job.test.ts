import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { TestClock } from '../../support/test-clock.js';
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
  const clock = new TestClock();
  const { job, directory } = await makeJob(clock);
  const letGo = directory.hold();
  const kill = job.requestKill('user');
  const end = job.finish('killed', 'Killed by user');
  clock.pass(10);
  await end;
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'queued']);
  letGo();
  await kill;
  await expect.poll(() => directory.stateOnDisk()).toBe('killed');
  expect(job.state).toBe('killed');
});

test('a power cut leaves the record that notes a fetched result: it replaced the one of the end', async () => {
  const { job, directory } = await makeJob();
  await job.run({ gpus: [], gpuUuids: [], cpuSlots: 1 }, null);
  await job.finish('done', null);
  job.noteFetched();
  const noted = { state: 'done', fetchedAt: expect.any(String) };
  await expect.poll(() => directory.latest).toMatchObject({ record: noted, isKept: true });
});

test('the time that it ran is not that of a clock which somebody sets meanwhile', async () => {
  const clock = new TestClock();
  const { job } = await makeJob(clock);
  await job.run({ gpus: [], gpuUuids: [], cpuSlots: 1 }, null);
  clock.pass(7);
  clock.set(48 * 3600);
  await job.finish('done', null);
  expect(job.ranFor).toBe(7);
});

test('the time that is shown as run ends with its command, and not with the packing of its result', async () => {
  const clock = new TestClock();
  const { job } = await makeJob(clock);
  await job.run({ gpus: [], gpuUuids: [], cpuSlots: 1 }, null);
  clock.pass(3);
  job.release(null, 0);
  const endedAt = new Date(clock.now()).toISOString();
  clock.pass(5);
  await job.finish('done', null);
  expect([job.view().run_seconds, job.commandEndedAt]).toEqual([3, endedAt]);
  expect(job.view().finished_at).not.toBe(endedAt);
});
