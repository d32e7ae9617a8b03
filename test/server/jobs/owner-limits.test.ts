import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { noLimits, type Principal } from '../../../src/access/index.js';
import { Job } from '../../../src/server/jobs/job.js';
import { JobDirectory } from '../../../src/server/jobs/job-directory.js';
import { newRecord } from '../../../src/server/jobs/job-record.js';
import { KeptBytes, OwnerLimits } from '../../../src/server/jobs/owner-limits.js';
import { temporary } from '../../support/temporary.js';
import { TestClock } from '../../support/test-clock.js';
import { ana, request } from './job-service.js';

const kibibyte = 1024;
const of = (max: number) => ({ max, whose: "of the token 'ana'" });
const principal = (limits: Partial<Principal['limits']>): Principal => ({
  ...ana,
  limits: { ...noLimits, ...limits },
});

/** Limits of somebody whose jobs keep so much. */
const keeping = (bytes: number) =>
  new OwnerLimits({ activeOwners: () => [], maxJobsOf: () => null, keptBytesOf: () => bytes });

const tooMuch = (kept: string, most: string) =>
  `The jobs of token 'ana' keep ${kept} of the ${most} that they may keep (the limit of the token 'ana'), ` +
  "which leaves too little for this upload; 'remote-app rm JOB...' removes jobs that have ended";
const ofToken = " of the token 'ana'";
const left = ", which is left of the 10.0 KiB that its jobs may keep (the limit of the token 'ana')";

test.for([
  ['no limit', {}, undefined, { bytes: null, advice: '' }],
  ['one for an upload', { max_upload: of(500) }, undefined, { bytes: 500, advice: ofToken }],
  ['one for what is kept', { max_kept: of(10 * kibibyte) }, undefined, { bytes: 6 * kibibyte, advice: left }],
  [
    'both, that of an upload smaller or as large',
    { max_kept: of(10 * kibibyte), max_upload: of(6 * kibibyte) },
    6 * kibibyte,
    { bytes: 6 * kibibyte, advice: ofToken },
  ],
  [
    'both, that of an upload larger',
    { max_kept: of(10 * kibibyte), max_upload: of(6 * kibibyte + 1) },
    6 * kibibyte,
    { bytes: 6 * kibibyte, advice: left },
  ],
] as const)(
  'An upload may be as large as what its owner may still keep: with %s',
  ([, limits, stated, allowed]) => {
    const { bytes, advice } = keeping(4 * kibibyte).take(principal(limits), stated);
    expect({ bytes, advice }).toEqual(allowed);
  },
);

test('An upload is refused if it states more than is left, or if nothing is left', () => {
  const owner = principal({ max_kept: of(10 * kibibyte) });
  expect(() => keeping(4 * kibibyte).take(owner, 6 * kibibyte + 1)).toThrow(tooMuch('4.0 KiB', '10.0 KiB'));
  expect(() => keeping(10 * kibibyte).take(owner, undefined)).toThrow(tooMuch('10.0 KiB', '10.0 KiB'));
});

test('Uploads in progress count with their stated size, then with their real size, until they are over', () => {
  const owner = principal({ max_kept: of(10 * kibibyte) });
  const limits = keeping(0);
  const bytesLeft = () => {
    const upload = limits.take(owner, 0);
    upload.release();
    return upload.bytes;
  };
  const first = limits.take(owner, 3 * kibibyte);
  expect(bytesLeft()).toBe(7 * kibibyte);
  first.hold(kibibyte);
  expect(bytesLeft()).toBe(9 * kibibyte);
  const second = limits.take(owner, 4 * kibibyte);
  first.hold(6 * kibibyte);
  expect(() => first.hold(6 * kibibyte + 1)).toThrow(tooMuch('4.0 KiB', '10.0 KiB'));
  second.release();
  expect(bytesLeft()).toBe(4 * kibibyte);
  // One that does not say how long it is may take all that is left.
  const third = limits.take(owner, undefined);
  limits.take(principal({}), undefined).hold(1e12);
  expect(() => limits.take(owner, 0)).toThrow(tooMuch('10.0 KiB', '10.0 KiB'));
  third.release();
  first.release();
  expect(bytesLeft()).toBe(10 * kibibyte);
});

test('An upload that grows is refused only for what it has in addition', () => {
  let kept = 0;
  const limits = new OwnerLimits({ activeOwners: () => [], maxJobsOf: () => null, keptBytesOf: () => kept });
  const upload = limits.take(principal({ max_kept: of(10 * kibibyte) }), 3 * kibibyte);
  kept = 9 * kibibyte;
  upload.hold(2 * kibibyte);
  upload.hold(2 * kibibyte);
  expect(() => upload.hold(2 * kibibyte + 1)).toThrow(tooMuch('9.0 KiB', '10.0 KiB'));
});

test('Uploads in progress count among the jobs of their owner until they are over', () => {
  const owner = principal({ max_jobs: of(1) });
  const limits = new OwnerLimits({
    activeOwners: () => ['ben'],
    maxJobsOf: (name) => (name === 'ben' ? null : 1),
    keptBytesOf: () => 0,
  });
  const counts = () => [limits.isHeld(owner), limits.isHeld(principal({})), limits.takenSlots];
  expect(counts()).toEqual([false, false, 1]);
  const first = limits.take(owner, undefined);
  expect(counts()).toEqual([true, false, 2]);
  const second = limits.take(owner, undefined);
  // The second waits for the first, and takes no place of others.
  expect(counts()).toEqual([true, false, 2]);
  for (const each of [first, second]) each.release();
  expect(counts()).toEqual([false, false, 1]);
});

test('An owner who may have no jobs is refused in a sentence of its own', () => {
  expect(() => keeping(0).take(principal({ max_jobs: of(0) }), undefined)).toThrow(
    "Token 'ana' may have no active jobs (the limit of the token 'ana')",
  );
});

test('An upload for later jobs gets the room that jobs and forms leave', () => {
  const limits = keeping(4 * kibibyte);
  const owner = principal({ max_kept: of(10 * kibibyte), max_upload: of(2 * kibibyte) });
  expect([limits.roomForUpload(principal({}), 1e12), limits.roomForUpload(owner, 2 * kibibyte)]).toEqual([
    null,
    6 * kibibyte,
  ]);
  expect(() => limits.roomForUpload(owner, 2 * kibibyte + 1)).toThrow(
    "The upload is larger than the limit of 2.0 KiB of the token 'ana'",
  );
  const form = limits.take(owner, 5 * kibibyte);
  expect(limits.roomForUpload(owner, kibibyte)).toBe(kibibyte);
  expect(() => limits.roomForUpload(owner, kibibyte + 1)).toThrow(tooMuch('9.0 KiB', '10.0 KiB'));
  form.release();
  expect(limits.uploadsFull(owner, 3 * kibibyte).message).toBe(
    "The jobs and uploads of token 'ana' may keep 10.0 KiB (the limit of the token 'ana'), and 3.0 KiB of uploads that " +
      'were just used leave too little for this one; submit what you have sent, or wait',
  );
});

test('A job that asks for more GPUs than its owner may have is refused', () => {
  const limits = keeping(0);
  const owner = principal({ max_gpus: of(1) });
  const check = (asking: Principal, ...ids: number[]) =>
    limits.checkGpus(asking, 'gpu', ids.length > 0 ? { kind: 'gpus', ids } : { kind: 'anyGpu' });
  for (const allowed of [[1], []]) check(owner, ...allowed);
  check(principal({}), 0, 1, 2);
  limits.checkGpus(principal({ max_gpus: of(0) }), 'gpu', { kind: 'cpu', workers: 8 });
  const refused = (count: string, most: number) =>
    expect.objectContaining({
      message: `Field 'gpu' asks for ${count}; token 'ana' may have ${most} at once (the limit of the token 'ana')`,
    });
  expect(() => check(owner, 0, 2)).toThrow(refused('2 GPUs', 1));
  expect(() => check(principal({ max_gpus: of(0) }))).toThrow(refused('1 GPU', 0));
});

test('The jobs of an owner count with their input, then with what they left, and not at all once they are removed', async () => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const kept = new KeptBytes();
  const make = (id: string, owner: string) => {
    const directory = new JobDirectory(id, path.join(root.path, id));
    directory.create();
    writeFileSync(path.join(directory.output, 'mask.nii'), Buffer.alloc(100_000, 1));
    return new Job(directory, newRecord(id, { ...request, owner }, ''), false, () => {}, new TestClock());
  };
  const [one, other] = [make('000000000001', 'ana'), make('000000000002', 'ben')];
  mkdirSync(path.join(root.path, 'beside'));
  kept.add(one, 700);
  kept.add(other, 50);
  expect([kept.of('ana'), kept.of('ben'), kept.of(null), kept.ofJob(one)]).toEqual([700, 50, 0, 700]);
  void kept.measure(one);
  await kept.known('ana');
  expect(kept.of('ana')).toBeGreaterThanOrEqual(100_000);
  expect(kept.of('ben')).toBe(50);
  // One that is removed while it is measured keeps nothing.
  const measured = kept.measure(other);
  kept.forget(other);
  await measured;
  expect([kept.of('ben'), kept.ofJob(other)]).toEqual([0, 50]);
});
