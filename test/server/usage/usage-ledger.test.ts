import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { type EndedJob, ServerEvents } from '../../../src/server/events.js';
import { UsageLedger } from '../../../src/server/usage/usage-ledger.js';
import { temporary } from '../../support/temporary.js';

test('Usage is listed by owner and app, the highest GPU usage first, then the most jobs', async () => {
  await using directory = await temporary();
  const events = new ServerEvents(() => {});
  const ledger = new UsageLedger(directory.path, () => {});
  ledger.follow(events);
  const ran = (owner: string, endedAt: string, more: Partial<EndedJob> = {}) => {
    const facts = { id: '0123456789ab', app: 'a', gpus: [], seconds: null, received: 0, bytes: null };
    events.announce('ended', { ...facts, owner, endedAt, ...more } as unknown as EndedJob);
  };
  const [before, then, later] = ['2026-01-01', '2026-02-01', '2026-02-02'].map(
    (day) => `${day}T00:00:00.000Z`,
  ) as [string, string, string];
  // On the CPU.
  ran('dee', then, { seconds: 3600 });
  for (const day of [then, later]) ran('eve', day);
  ran('ana', before, { received: 5 });
  ran('ana', later, { gpus: [0, 1], seconds: 1800, received: 7, bytes: 9 });
  ran('ana', then, { gpus: [0], seconds: 900, received: 1, bytes: 2 });
  ran('bob', then, { gpus: [0], seconds: 7200 });
  ran('cem', then);
  const rows = await ledger.summary(Date.parse(then), (owner) => owner !== 'cem', []);
  const words = rows.map((row) => [
    row.owner,
    row.jobs,
    row.gpu_hours,
    row.bytes_in,
    row.bytes_out,
    row.last_used,
  ]);
  expect(words).toEqual([
    ['bob', 1, 2, 0, 0, then],
    ['ana', 2, 1.25, 8, 11, later],
    ['eve', 2, 0, 0, 0, later],
    ['dee', 1, 0, 0, 0, then],
  ]);
});

const day = (number: number) => `2026-01-0${number}T00:00:00.000Z`;

test('Kept data is listed beside the usage, for active jobs and for those that have ended since', async () => {
  await using directory = await temporary();
  const ledger = new UsageLedger(directory.path, () => {});
  const kept = [
    { owner: 'ana', app: 'a', endedAt: day(1), bytes: 100 },
    { owner: 'ana', app: 'a', endedAt: day(2), bytes: 20 },
    // Its line has the end of its command, and this is that of its packing.
    { owner: 'ana', app: 'a', endedAt: day(5), bytes: 3 },
    { owner: 'ana', app: 'b', endedAt: null, bytes: 7 },
    { owner: 'bob', app: 'a', endedAt: day(2), bytes: 5 },
    { owner: null, app: 'a', endedAt: day(2), bytes: 6 },
    { owner: 'null', app: 'a', endedAt: day(2), bytes: 8 },
    { owner: 'eve', app: 'a', endedAt: day(2), bytes: 9 },
  ];
  // A server without an end has no file.
  const [first] = await ledger.summary(0, (owner) => owner === 'bob', kept);
  const nothing = { jobs: 0, gpu_hours: 0, cpu_hours: 0, bytes_in: 0, bytes_out: 0 };
  expect(first).toEqual({ ...nothing, owner: 'bob', app: 'a', bytes_kept: 5, last_used: day(2) });
  const figures = { job_id: '0123456789ab', gpu_seconds: 0, bytes_in: 1, bytes_out: 2 };
  const lines = [
    { time: day(4), owner: 'ana', app: 'a', ...figures },
    { time: day(2), owner: 'ana', app: 'a', ...figures },
  ];
  writeFileSync(
    path.join(directory.path, 'usage'),
    lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
  );
  const begun = Date.now();
  const rows = await ledger.summary(Date.parse(day(2)), (owner) => owner !== 'eve', kept);
  const used = rows.map(({ owner, app, jobs, bytes_in, bytes_kept, last_used }) => [
    owner,
    app,
    jobs,
    bytes_in,
    bytes_kept,
    Date.parse(last_used ?? '') >= begun ? 'now' : last_used,
  ]);
  expect(used).toEqual([
    ['ana', 'a', 2, 2, 23, day(4)],
    ['ana', 'b', 0, 0, 7, 'now'],
    ['bob', 'a', 0, 0, 5, day(2)],
    [null, 'a', 0, 0, 6, day(2)],
    ['null', 'a', 0, 0, 8, day(2)],
  ]);
});

test('Anything in place of the usage file is set aside at startup, and the next job that ends is recorded', async () => {
  await using directory = await temporary();
  const file = path.join(directory.path, 'usage');
  mkdirSync(file);
  const told: string[] = [];
  const events = new ServerEvents(expect.fail);
  new UsageLedger(directory.path, (problem, cause) => told.push(`${problem}: ${cause}`)).follow(events);
  expect(told).toEqual([expect.stringMatching(/^Set aside 'usage' as .*\/set-aside\/usage\..*: EISDIR/)]);
  const facts = { id: '0123456789ab', owner: 'ana', app: 'a', gpus: [0, 1], endedAt: day(1), seconds: 3 };
  events.announce('ended', { ...facts, received: 5, bytes: 7 } as unknown as EndedJob);
  const line = { time: day(1), job_id: '0123456789ab', owner: 'ana', app: 'a' };
  expect(readFileSync(file, 'utf8')).toBe(
    `${JSON.stringify({ ...line, gpu_seconds: 6, bytes_in: 5, bytes_out: 7 })}\n`,
  );
});

test('A usage file that cannot be read is an error rather than no usage', async () => {
  await using directory = await temporary();
  const ledger = new UsageLedger(directory.path, () => {});
  const file = path.join(directory.path, 'usage');
  rmSync(file, { force: true });
  mkdirSync(file);
  await expect(ledger.summary(0, () => true, [])).rejects.toThrow('EISDIR');
});
