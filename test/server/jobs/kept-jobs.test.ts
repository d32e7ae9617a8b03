import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { theAdmin } from '../../../src/access/index.js';
import { openAuditLog } from '../../../src/server/audit/index.js';
import { ServerEvents } from '../../../src/server/events.js';
import type { JobService } from '../../../src/server/jobs/index.js';
import { ana, idOf, serviceWith, slotOf } from './job-service.js';

const fetchedAt = new Date().toISOString();
const ids = (service: JobService) => service.list().map(({ id }) => Number.parseInt(id, 16));

describe('a disk that is short of space', () => {
  test('When disk space is short, fetched results are removed first, then the remains of failed jobs, and never an unfetched result', async () => {
    const ends = [{ state: 'error' }, {}, { fetchedAt }, { state: 'killed' }, { fetchedAt }] as const;
    const { service, directory } = await serviceWith(ends, 100);
    const left = (number: number) => existsSync(path.join(directory(number), 'Output', 'mask.nii'));
    const steps = [];
    for (;;) {
      const isMore = await service.makeRoom(1, null);
      steps.push([0, 1, 2, 3, 4].filter(left));
      if (!isMore) break;
    }
    expect(steps).toEqual([[0, 1, 3, 4], [0, 1, 3], [1, 3], [1], [1]]);
    // The failed ones are still there, with their logs.
    expect(ids(service)).toEqual([3, 1, 0]);
    expect(readFileSync(path.join(directory(0), 'log'), 'utf8')).toContain('the disk was almost full');
    expect(service.get(idOf(0), theAdmin).view()).toMatchObject({ status: 'error', left_files: 0 });
  });
});

test("When disk space is short, the requester's own files are removed first, then those of owners who keep more, the largest first", async () => {
  const removed: string[] = [];
  const kept = [
    ['bob', 3],
    ['ana', 4],
    ['ana', 1],
    ['eve', 2],
    ['joe', 2],
  ] as const;
  const bytes = { ana: 5, bob: 3, eve: 3, joe: 2 };
  const evictable = () =>
    kept.map(([owner, bytes]) => ({
      owner,
      bytes,
      remove: async () => void removed.push(`${bytes} of ${owner}`),
    }));
  const usage = () => Object.entries(bytes).map(([owner, bytes_kept]) => ({ owner, bytes_kept }));
  const events = new ServerEvents(expect.fail);
  const { service, root } = await serviceWith([], 100, {
    events,
    uploads: { evictable, usage, trim: () => {} },
  });
  const file = path.join(root, 'audit.log');
  const audit = openAuditLog(file, events, expect.fail);
  onTestFinished(() => audit?.close());
  // Eve has another byte, which was just used, and Ana and Bob lose files as long as they keep more than that.
  expect([await service.evictable('eve', 0), await service.evictable('eve', 2)]).toEqual([11, 6]);
  expect([await service.evictable('ana', 0), await service.evictable('joe', 9)]).toEqual([12, 2]);
  expect([await service.makeRoom(12, 'eve'), removed]).toEqual([false, []]);
  expect([await service.makeRoom(7, 'eve'), removed]).toEqual([true, ['2 of eve', '4 of ana', '3 of bob']]);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toEqual(
    [['eve', 2] as const, ['ana', 4] as const, ['bob', 3] as const].map(([owner, bytes]) =>
      expect.objectContaining({ event: 'eviction', owner, job_id: null, bytes, for: 'eve' }),
    ),
  );
});

describe('the jobs of one owner', () => {
  test('The number of kept jobs of an owner is limited: the oldest fetched one is removed, then the oldest failed one', async () => {
    const { service } = await serviceWith([{}, { state: 'error' }, { fetchedAt }], 3);
    await using _first = await slotOf(service, ana);
    expect(ids(service)).toEqual([1, 0]);
    const { service: fuller } = await serviceWith([{}, { state: 'error' }, {}], 3);
    await using _second = await slotOf(fuller, ana);
    expect(ids(fuller)).toEqual([2, 0]);
  });

  test('Results that nobody has fetched are never removed: the next job of their owner is refused', async () => {
    const { service } = await serviceWith([{}, {}], 2);
    const refusal = /2 jobs of token 'ana' are kept with results that nobody has fetched/;
    await expect(service.begin(ana, null, undefined)).rejects.toThrow(refusal);
    await using _other = await slotOf(service, theAdmin);
    expect(ids(service)).toEqual([1, 0]);
  });

  test('The jobs of one owner are listed in pages, with the bytes that they keep', async () => {
    const { service } = await serviceWith([{}, {}, {}, {}], 10);
    await service.kept();
    const isWanted = ({ id }: { id: string }) => id !== idOf(2);
    const page = (limit: number, before: number | null) =>
      service
        .page({ isWanted, limit, before: before === null ? null : service.get(idOf(before), theAdmin) })
        .map(({ id }) => Number.parseInt(id, 16));
    expect([page(2, null), page(2, 1), page(2, 0)]).toEqual([[3, 1], [0], []]);
    expect(service.list().map((job) => job.view().bytes_kept)).toEqual(Array(4).fill(expect.any(Number)));
    expect(service.list()[0]?.view().bytes_kept).toBeGreaterThanOrEqual(10_000);
  });
});

test.each([
  [
    'shorter',
    3600,
    86_400,
    { least: 3600, most: 86_400, sentence: 'is at most 1d on this server, got 86401s' },
  ],
  ['longer', 7200, 3600, { least: 7200, most: 7200, sentence: 'is at most 2h on this server, got 7201s' }],
])(
  'With a grace period that is %s than --max-keep a job is kept for at least the former, and at most the longer of both',
  async (_, grace, maxKeep, { least, most, sentence }) => {
    const { service } = await serviceWith([], 10, { grace: grace * 1000, maxKeep: maxKeep * 1000 });
    const kept = (asked: number | string | undefined) => service.terms.keepFor('keep', asked);
    expect([undefined, 1, grace, most, 'max'].map(kept)).toEqual([least, least, least, most, most]);
    expect(() => kept(most + 1)).toThrow(
      expect.objectContaining({ message: expect.stringContaining(sentence) }),
    );
  },
);
