import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ServerEvents } from '../../../src/server/events.js';
import { Job } from '../../../src/server/jobs/job.js';
import { TestClock } from '../../support/test-clock.js';
import { makeJob } from './held-job.js';

test('A log that cannot be written to is reported once', async () => {
  const told: string[] = [];
  const report = (problem: string) => told.push(problem);
  const { job, directory } = await makeJob(new TestClock(), null, { report });
  mkdirSync(directory.logFile);
  job.log('one');
  job.log('two');
  expect(told).toEqual([`The log of job ${job.id} could not be written to`]);
});

test('A second kill while the end is saved changes nothing', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  const end = job.finish('killed', 'Killed by user');
  await delay(0);
  const secondKill = job.requestKill('user');
  letGo();
  await Promise.all([end, secondKill]);
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'killed']);
});

test('An end that arrives while a kill is being saved persists, in memory and on disk', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  const kill = job.requestKill('user');
  await delay(0);
  const end = job.finish('killed', 'Killed by user');
  letGo();
  await Promise.all([kill, end]);
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'killed']);
});

test('An end is shown even if the disk does not respond, and is saved once the disk responds again', async () => {
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

test('The run time of a job does not change when somebody sets the clock', async () => {
  const clock = new TestClock();
  const { job } = await makeJob(clock);
  await job.run({ gpus: [], gpuUuids: [], cpuSlots: 1 }, null);
  clock.pass(7);
  clock.set(48 * 3600);
  await job.finish('done', null);
  expect(job.view().run_seconds).toBe(7);
});

test('The run time of a job ends with its command, and not with the packing of its result', async () => {
  const clock = new TestClock();
  const { job } = await makeJob(clock);
  await job.run({ gpus: [], gpuUuids: [], cpuSlots: 1 }, null);
  clock.pass(3);
  job.noteCommandEnd({ exitCode: 0 });
  const endedAt = new Date(clock.now()).toISOString();
  clock.pass(5);
  await job.finish('done', null);
  expect([job.view().run_seconds, job.commandEndedAt]).toEqual([3, endedAt]);
  expect(job.view().finished_at).not.toBe(endedAt);
});

const onCpu = { gpus: [], gpuUuids: [], cpuSlots: 1 };
const startedAt = '2026-01-01T00:00:00.000Z';

test('A result counts as fetched once all its bytes were sent, in whatever pieces, and from then on', async () => {
  const clock = new TestClock();
  const { job } = await makeJob(clock, { state: 'done', startedAt, finishedAt: startedAt });
  const fetched = (...sent: Parameters<typeof job.noteSent>) => {
    job.noteSent(...sent);
    return job.record.fetchedAt !== null;
  };
  // The end alone, all of it over a connection that broke, and a part of it.
  expect([fetched(10, 10, 20, true), fetched(0, 20, 21, false), fetched(0, 5, 21, true)]).toEqual([
    false,
    false,
    false,
  ]);
  expect(fetched(20, 1, 21, true)).toBe(true);
  const { fetchedAt } = job.record;
  clock.pass(10);
  job.noteFetched();
  expect(job.record.fetchedAt).toBe(fetchedAt);
});

test('A power cut may lose a step of a job, but no kill', async () => {
  const { job, directory } = await makeJob();
  await job.run(onCpu, null);
  expect(directory.latest).toMatchObject({ record: { state: 'running' }, isKept: false });
  await job.requestKill('user');
  expect(directory.latest).toMatchObject({ record: { state: 'running', killRequested: true }, isKept: true });
});

test.for(['a step', 'its end'])(
  'A version that becomes known while %s is saved stays known',
  async (what) => {
    const { job, directory } = await makeJob();
    const letGo = directory.hold();
    const saved = what === 'a step' ? job.run(onCpu, 'warm') : job.finish('error', 'It failed');
    await delay(0);
    job.noteVersion(Promise.resolve('1.0'));
    await job.versionKnown(1000);
    letGo();
    await saved;
    expect(job.record.appVersion).toBe('1.0');
    await expect.poll(() => directory.latest?.record.appVersion).toBe('1.0');
  },
);

test("The on-end program runs once for a job, even if the job's directory is gone", async () => {
  const { job: without } = await makeJob();
  await without.finish('error', 'It failed');
  expect(await without.beginEndNotice()).toBe(false);
  const { job, directory } = await makeJob(new TestClock(), null, { areEndsNoticed: true });
  await job.finish('error', 'It failed');
  rmSync(directory.path, { recursive: true });
  expect([await job.beginEndNotice(), await job.beginEndNotice()]).toEqual([true, false]);
  expect(existsSync(directory.path)).toBe(false);
});

test('The log keeps the first and the last queue position, each once, even after a restart', async () => {
  const { job, directory } = await makeJob();
  for (const place of [3, 2, 1]) job.logPlace(`position ${place}`);
  expect(String(job.unloggedPlace)).toBe('[remote-app] position 1\r\n');
  job.log('Starting');
  expect(job.unloggedPlace).toBeNull();
  const lines = '[remote-app] position 3\r\n[remote-app] position 1\r\n[remote-app] Starting\n';
  expect(readFileSync(directory.logFile, 'utf8')).toBe(lines);
  const report = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);
  const context = { areEndsNoticed: false, events: new ServerEvents(report), clock: new TestClock(), report };
  const again = new Job(directory, job.record, true, context);
  again.logPlace('position 1');
  again.log('Starting');
  again.log('Result');
  expect(readFileSync(directory.logFile, 'utf8')).toBe(`${lines}[remote-app] Result\n`);
});
