import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { theAdmin } from '../../../src/access/index.js';
import { ServerEvents } from '../../../src/server/events.js';
import { ExpiredJobs } from '../../../src/server/jobs/expired-jobs.js';
import { Job } from '../../../src/server/jobs/job.js';
import { JobDirectory } from '../../../src/server/jobs/job-directory.js';
import { type JobRecord, newRecord } from '../../../src/server/jobs/job-record.js';
import { JobTable } from '../../../src/server/jobs/job-table.js';
import { Retention } from '../../../src/server/jobs/retention.js';
import { Trash } from '../../../src/server/jobs/trash.js';
import type { Report } from '../../../src/server/report.js';
import { temporary } from '../../support/temporary.js';
import { TestClock } from '../../support/test-clock.js';
import { ana, idOf, request } from './job-service.js';

const fail = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);
const ben = { ...ana, name: 'ben' };

/** A directory for a server's data. */
async function place(): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  return root.path;
}

/** Keeps jobs for a minute at least. */
async function keeper(grace = 60_000, report: Report = fail) {
  const root = await place();
  const clock = new TestClock();
  const expired = new ExpiredJobs(root, clock, fail);
  const forgotten: string[] = [];
  const events = new ServerEvents(fail);
  events.on('removed', ({ id, cause }) => forgotten.push(`${id} ${cause}`));
  const jobs = new JobTable();
  const trash = new Trash(root, fail);
  const shared = { grace, maxKeptJobs: 100, events, clock, report };
  const retention = new Retention({ ...shared, jobs, expired, trash });
  onTestFinished(() => retention.close());
  let made = 0;
  /** A job that has ended. */
  const ended = (change: Partial<JobRecord> = {}, keep: number | null = 120) => {
    made += 1;
    const directory = new JobDirectory(idOf(made), path.join(root, idOf(made)));
    directory.makeDirectories();
    const now = new Date(clock.now()).toISOString();
    const record = newRecord(directory.id, { ...request, owner: 'ana', keep }, now, 0);
    const context = { areEndsNoticed: false, events, clock, report: fail };
    return new Job(directory, { ...record, state: 'done', finishedAt: now, ...change }, false, context);
  };
  /** Adds jobs to the table: the first one keeps one byte, the next one two. */
  const jobsOf = (...all: Job[]) => {
    for (const [index, job] of all.entries()) {
      jobs.add(job);
      job.keptBytes = index + 1;
    }
  };
  return { root, clock, expired, retention, forgotten, ended, jobsOf };
}

test('A job is removed even if that cannot be recorded', async () => {
  const told: string[] = [];
  const { root, clock, retention, forgotten, ended } = await keeper(60_000, (problem) => told.push(problem));
  const job = ended();
  retention.schedule(job);
  rmSync(path.join(root, 'expired'), { force: true });
  mkdirSync(path.join(root, 'expired'));
  clock.pass(120);
  expect([forgotten, told]).toEqual([[`${job.id} expired`], [`Job ${job.id} could not be noted as gone`]]);
  await expect.poll(() => existsSync(job.directory.path)).toBe(false);
});

test('A date follows the clock as it is set now, unless the difference is at most two seconds', async () => {
  const { clock, retention, ended } = await keeper();
  const job = ended();
  retention.schedule(job);
  const promised = clock.now() + 120_000;
  clock.pass(20);
  const told = (moved: number) => {
    clock.set(moved);
    return (job.expiry?.date.getTime() ?? 0) - promised;
  };
  expect([told(2), told(0.001), told(-4.001), told(-0.001)]).toEqual([0, 2001, 0, -2001]);
});

test('A delay that is too long for a timer is split into parts', async () => {
  const { clock, retention, forgotten, ended } = await keeper();
  const days = 60 * 24 * 3600;
  retention.schedule(ended({}, days));
  clock.pass(days - 1);
  expect(forgotten).toEqual([]);
  clock.pass(1);
  expect(forgotten.length).toBe(1);
});

test('Only its owner and an admin learn what became of a removed job', async () => {
  const root = await place();
  const clock = new TestClock();
  const expired = new ExpiredJobs(root, clock, fail);
  const time = new Date(clock.now()).toISOString();
  const [one, two, three] = [idOf(1), idOf(2), idOf(3)];
  expired.add(one, 'expired', 'ana');
  expired.add(two, 'removed', null);
  expired.add(three, 'fetched', 'ana');
  const told = (list: ExpiredJobs, principal: typeof theAdmin) =>
    [one, two, three, idOf(4)].map((id) => {
      try {
        list.check(id, principal);
        return null;
      } catch (cause) {
        return (cause as Error).message;
      }
    });
  const sentences = [
    `Job ${one} expired at ${time}: it and its result are removed; submit it again`,
    `Job ${two} was removed at ${time}; submit it again`,
    `Job ${three} was removed at ${time}, since its result had been fetched and the disk was short; submit it again`,
  ];
  expect(readFileSync(path.join(root, 'expired'), 'utf8')).toBe(
    `${one} ${time} of ana\n${two} ${time} removed\n${three} ${time} fetched of ana\n`,
  );
  // The next server knows the same, but for lines that nobody has written like this.
  const file = path.join(root, 'expired');
  writeFileSync(file, `${readFileSync(file, 'utf8')}no id\n${idOf(4)} yesterday\n`);
  for (const list of [expired, new ExpiredJobs(root, clock, fail)]) {
    expect(told(list, theAdmin)).toEqual([...sentences, null]);
    expect(told(list, ana)).toEqual([sentences[0], null, sentences[2], null]);
    expect(told(list, ben)).toEqual([null, null, null, null]);
    expect([one, idOf(4)].map((id) => list.has(id))).toEqual([true, false]);
  }
});

test('Ten thousand removed jobs are remembered, and a file of many more is shortened', async () => {
  const root = await place();
  const file = path.join(root, 'expired');
  const time = '2026-01-01T00:00:00.000Z';
  const line = (number: number) => `${idOf(number)} ${time} of ${'a'.repeat(60)}\n`;
  const lines = Array.from({ length: 26_000 }, (_, number) => line(number));
  writeFileSync(file, lines.join(''));
  const list = new ExpiredJobs(root, new TestClock(), fail);
  expect([list.has(idOf(0)), list.has(idOf(25_999)), list.has(idOf(16_000))]).toEqual([false, true, true]);
  const shortened = readFileSync(file, 'utf8');
  expect(shortened.endsWith(line(25_999))).toBe(true);
  expect(statSync(file).size).toBeLessThan(lines.join('').length);
});

test('The oldest removed job is forgotten when their number exceeds ten thousand', async () => {
  const root = await place();
  const file = path.join(root, 'expired');
  const lines = Array.from({ length: 9999 }, (_, number) => `${idOf(number)} 2026-01-01T00:00:00.000Z\n`);
  writeFileSync(file, lines.join(''));
  const list = new ExpiredJobs(root, new TestClock(), fail);
  list.add(idOf(9999), 'removed', null);
  expect(list.has(idOf(0))).toBe(true);
  list.add(idOf(10_000), 'removed', null);
  expect([0, 1, 10_000].map((number) => list.has(idOf(number)))).toEqual([false, true, true]);
});
