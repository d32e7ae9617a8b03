import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { noLimits, type Principal } from '../../../src/access/index.js';
import { ServiceError } from '../../../src/contract/index.js';
import type { Executor } from '../../../src/server/executors/index.js';
import {
  Admission,
  type AdmissionDeps,
  type Claim,
  JobTerms,
  type Submitter,
} from '../../../src/server/jobs/admission.js';
import type { Job } from '../../../src/server/jobs/job.js';
import { StreamSlots } from '../../../src/server/jobs/log.js';
import { OwnerLimits } from '../../../src/server/jobs/owner-limits.js';
import type { Retention } from '../../../src/server/jobs/retention.js';
import { JobStore } from '../../../src/server/jobs/store.js';
import { Trash } from '../../../src/server/jobs/trash.js';
import { temporary } from '../../support/temporary.js';
import { ana, executor, idOf, request } from './job-service.js';

const fail = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);

async function place(): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  return root.path;
}

const refusal = (code: string, message: string) => expect.objectContaining({ code, message });

/** Admits submissions beside so many active jobs. */
async function admission(active = 0, more: Partial<AdmissionDeps> = {}) {
  const root = await place();
  const released: (string | null)[] = [];
  const owners = new OwnerLimits({
    activeOwners: () => new Array<string>(active).fill('ben'),
    maxJobsOf: (owner) => (owner === 'ana' ? 1 : null),
    keptBytesOf: () => 0,
  });
  const deps = {
    store: new JobStore(root, fail),
    trash: new Trash(root, fail),
    maxJobs: 2,
    owners,
    released: (owner: string | null) => released.push(owner),
    ...more,
  };
  const left = () => readdirSync(path.join(root, 'incoming')).length;
  return { admission: new Admission(deps), released, left };
}

const unclaimed: Claim = { awaited: new AbortController().signal, settle: () => {} };

test('Jobs that are still being uploaded count towards the limit of active jobs', async () => {
  const { admission: one, left } = await admission(1);
  const slot = one.reserve(ana, undefined, unclaimed);
  expect([one.submitting, left(), existsSync(slot.directory.path)]).toEqual([1, 1, true]);
  expect(path.basename(slot.finalDirectory.path)).toBe(path.basename(slot.directory.path));
  const full = 'Server busy: 2 jobs are active, the most there may be; try again later';
  expect(() => one.reserve(ana, undefined, unclaimed)).toThrow(refusal('busy', full));
  // Whose next job waits for their own limit takes no place of others.
  const limits = { ...noLimits, max_jobs: { max: 1, whose: 'x' } };
  const held = one.reserve({ ...ana, limits }, undefined, unclaimed);
  await slot[Symbol.asyncDispose]();
  expect([one.submitting, left()]).toEqual([1, 1]);
  await held[Symbol.asyncDispose]();
  await using _next = one.reserve(ana, undefined, unclaimed);
  const { admission: single } = await admission(1, { maxJobs: 1 });
  expect(() => single.reserve(ana, undefined, unclaimed)).toThrow(
    'Server busy: 1 job is active, the most there may be',
  );
});

test('A finished submission frees its place, and leaves only the files of its job', async () => {
  const { admission: one, released, left } = await admission();
  const job = {} as Job;
  const settled: (Job | null)[] = [];
  const claim = { ...unclaimed, settle: (made: Job | null) => settled.push(made) };
  const accepted = one.reserve(ana, undefined, claim);
  accepted.job = job;
  await accepted[Symbol.asyncDispose]();
  expect([one.submitting, released, left()]).toEqual([0, ['ana'], 1]);
  const refused = one.reserve(ana, undefined, claim);
  await refused[Symbol.asyncDispose]();
  expect([one.submitting, released, left(), settled]).toEqual([0, ['ana'], 1, [job, null]]);
});

test('A server that is draining or was upgraded accepts no jobs', async () => {
  let isUpgraded = false;
  const { admission: one, left } = await admission(0, { isUpgraded: () => isUpgraded });
  one.isDraining = true;
  expect(() => one.reserve(ana, undefined, unclaimed)).toThrow(
    refusal('draining', 'The server is draining and accepts no new jobs; submit again later'),
  );
  one.isDraining = false;
  isUpgraded = true;
  expect(() => one.reserve(ana, undefined, unclaimed)).toThrow(
    refusal(
      'upgraded',
      'The program was upgraded under the running server, which takes no new job until its admin restarts it',
    ),
  );
  expect([one.submitting, left()]).toEqual([0, 0]);
});

test('A repeated submission waits for the first one, gets its job, and runs only if there is none', async () => {
  const { admission: one } = await admission();
  const from = { owner: 'ana', idempotencyKey: 'k' };
  const claimed = async (who = from as Submitter) => {
    const claim = await one.claim(who);
    if (!('settle' in claim)) throw new Error('There is a job');
    return claim;
  };
  const first = await claimed();
  expect(first.awaited.aborted).toBe(false);
  const repeated = claimed();
  expect(first.awaited.aborted).toBe(true);
  first.settle(null);
  const job = { request: { ...request, owner: 'ana', idempotencyKey: 'k' } } as unknown as Job;
  (await repeated).settle(job);
  expect(await one.claim(from)).toBe(job);
  for (const other of [
    { ...from, owner: 'ben' },
    { ...from, owner: null },
    { ...from, idempotencyKey: 'l' },
    { ...from, idempotencyKey: null },
  ])
    (await claimed(other)).settle(null);
  one.forget(job);
  (await claimed()).settle(null);
  one.remember(job);
  expect(await one.claim(from)).toBe(job);
});

/** The terms of a server on which jobs may run for an hour, and fine-tuning for two. */
const terms = (maxRunTime: number | null = 3_600_000, maxFineTuneTime: number | null = 7_200_000) =>
  new JobTerms({
    executor: { ...executor, check: () => ({ kind: 'gpus', ids: [0, 1] }) } as Executor,
    owners: new OwnerLimits({ activeOwners: () => [], maxJobsOf: () => null, keptBytesOf: () => 0 }),
    retention: { keepFor: (field: string, asked: unknown) => `${field} ${asked}` } as unknown as Retention,
    maxRunTime,
    maxFineTuneTime,
  });

test('A job may run for as long as it asks, up to the limit of its operation', () => {
  const limit = (asked: string | number | undefined, operation: 'infer' | 'fine_tune' = 'infer') =>
    terms().timeLimit(operation, 'time_limit', asked);
  expect([limit(undefined), limit('max'), limit(1), limit(3600)]).toEqual([3600, 3600, 1, 3600]);
  expect([limit(undefined, 'fine_tune'), limit(7200, 'fine_tune')]).toEqual([7200, 7200]);
  expect(() => limit(3601)).toThrow("Field 'time_limit' is at most 1h on this server, got 3601s");
  expect(() => limit(7201, 'fine_tune')).toThrow(
    "Field 'time_limit' is at most 2h on this server, got 7201s",
  );
  for (const each of [terms(), terms(null, null)])
    expect(() => each.timeLimit('infer', 'time_limit', 0)).toThrow(
      "Field 'time_limit' must be at least 1s, got 0s",
    );
  const free = (asked: number | undefined) => terms(null).timeLimit('infer', 'time_limit', asked);
  expect([free(undefined), free(1e6)]).toEqual([null, 1e6]);
});

test('A job gets only devices that the machine has and its owner may use', () => {
  const asked = { gpus: [0, 1], isCpu: false, workers: 1 };
  expect(terms().devices(ana, 'gpu', asked)).toEqual({ kind: 'gpus', ids: [0, 1] });
  const few: Principal = { ...ana, limits: { ...noLimits, max_gpus: { max: 1, whose: 'of the role' } } };
  expect(() => terms().devices(few, 'gpu', asked)).toThrow(
    "Field 'gpu' asks for 2 GPUs; token 'ana' may have 1 at once (the limit of the role)",
  );
  expect(terms().keepFor('keep', 7)).toBe('keep 7');
});

test('Log streams are limited to one for each job, and to a number for each owner and for all', async () => {
  const slots = new StreamSlots(4, 2);
  const releases = [await slots.take('a', 'ana'), await slots.take('b', 'ana'), await slots.take('c', null)];
  expect(slots.open).toBe(3);
  await expect(slots.take('a', 'ben')).rejects.toThrow(
    refusal(
      'streamOpen',
      'The log of job a is being streamed already; close that stream first, or read what there is at /jobs/a/log',
    ),
  );
  await expect(slots.take('d', 'ana')).rejects.toThrow(
    refusal(
      'tooManyStreams',
      "2 log streams of token 'ana' are open, the most that one may have; try again soon",
    ),
  );
  // Without named tokens everybody has the same owner.
  releases.push(await slots.take('d', null));
  await expect(slots.take('e', null)).rejects.toThrow(
    refusal('tooManyStreams', '4 log streams are open, the most there may be; try again soon'),
  );
  releases[0]?.();
  releases[0]?.();
  expect(slots.open).toBe(3);
  // A reader that comes back at once waits for its earlier connection.
  const again = slots.take('b', 'ana');
  releases[1]?.();
  const release = await again;
  releases[1]?.();
  expect(slots.open).toBe(3);
  release();
  expect(slots.open).toBe(2);
  await expect(slots.take('c', null)).rejects.toBeInstanceOf(ServiceError);
});

test('The trash removes what it is given whatever its permissions, and at a start only its own entries', async () => {
  const root = await place();
  const trash = new Trash(root, fail);
  onTestFinished(() => trash.close());
  const job = path.join(root, 'jobs', idOf(1));
  mkdirSync(path.join(job, 'Output/closed'), { recursive: true });
  writeFileSync(path.join(root, 'outside'), '');
  symlinkSync(path.join(root, 'outside'), path.join(job, 'Output/link'));
  chmodSync(path.join(job, 'Output/closed'), 0);
  await trash.throwAway(path.join(job, 'Output'), false, idOf(1));
  expect([readdirSync(job), readdirSync(path.join(root, 'trash'))]).toEqual([[], []]);
  await trash.throwAway(job, true);
  await trash.throwAway(job);
  expect(readdirSync(path.join(root, 'jobs'))).toEqual([]);
  const left = [`${idOf(2)}.0a1b2c3d`, `${idOf(2)}.0a1b2c3`, 'notes', `${idOf(3)}`];
  for (const name of left) mkdirSync(path.join(root, 'trash', name));
  trash.empty();
  await expect.poll(() => readdirSync(path.join(root, 'trash')).sort()).toEqual(left.slice(1).sort());
  expect(existsSync(path.join(root, 'outside'))).toBe(true);
});

test('What cannot be moved to the trash is reported once', async () => {
  const root = await place();
  const told: unknown[] = [];
  const trash = new Trash(root, (problem) => told.push(problem));
  onTestFinished(() => trash.close());
  // A file has nothing below it.
  writeFileSync(path.join(root, 'file'), '');
  const below = path.join(root, 'file', idOf(1));
  for (let time = 0; time < 2; time += 1) await trash.throwAway(below);
  expect(told).toEqual([`${below} could not be moved to the trash; it is tried again later`]);
});
