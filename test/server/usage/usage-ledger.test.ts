import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { type EndedJob, ServerEvents } from '../../../src/server/events.js';
import { UsageLedger } from '../../../src/server/usage/usage-ledger.js';
import { temporary } from '../../support/temporary.js';

test('a line is passed over that is longer than any that the server writes', async () => {
  await using directory = await temporary();
  const used = { time: '2026-01-01T00:00:00.000Z', job_id: '0123456789ab', owner: null };
  const figures = { gpu_seconds: 3600, bytes_in: 1, bytes_out: 2 };
  const lines = ['a', 'b'.repeat(1 << 20), 'c'].map((app) => JSON.stringify({ ...used, app, ...figures }));
  writeFileSync(path.join(directory.path, 'usage'), lines.join('\n'));
  const rows = await new UsageLedger(directory.path, () => {}).summary(0, () => true, []);
  const row = {
    owner: null,
    jobs: 1,
    gpu_hours: 1,
    bytes_in: 1,
    bytes_out: 2,
    bytes_kept: 0,
    last_used: used.time,
  };
  expect(rows).toEqual(['a', 'c'].map((app) => ({ ...row, app })));
});

test('what cannot be noted is reported, and who else listens is told of the end all the same', async () => {
  await using directory = await temporary();
  const told: string[] = [];
  const report = (problem: string) => told.push(problem);
  const events = new ServerEvents(report);
  new UsageLedger(directory.path, report).follow(events);
  events.on('ended', ({ id }) => told.push(id));
  mkdirSync(path.join(directory.path, 'usage'));
  const facts = { id: '0123456789ab', owner: null, app: 'a', gpus: [0], endedAt: '2026-01-01T00:00:00.000Z' };
  events.tell('ended', facts as unknown as EndedJob);
  expect(told).toEqual(['What job 0123456789ab used could not be noted', '0123456789ab']);
});

test('jobs count by owner and app, those with the largest use of GPUs first, then those with the most jobs', async () => {
  await using directory = await temporary();
  const events = new ServerEvents(() => {});
  const ledger = new UsageLedger(directory.path, () => {});
  ledger.follow(events);
  const ran = (owner: string, endedAt: string, more: Partial<EndedJob> = {}) => {
    const facts = { id: '0123456789ab', app: 'a', gpus: [], seconds: null, received: null, bytes: null };
    events.tell('ended', { ...facts, owner, endedAt, ...more } as unknown as EndedJob);
  };
  const [before, then, later] = ['2026-01-01', '2026-02-01', '2026-02-02'].map(
    (day) => `${day}T00:00:00.000Z`,
  ) as [string, string, string];
  ran('dee', then);
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
