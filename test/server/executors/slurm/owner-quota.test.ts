import { expect, test } from 'vitest';
import { OwnerQuota } from '../../../../src/server/executors/slurm/owner-quota.js';

/** A quota of two GPUs for one owner, and the names of the jobs that have their GPUs. */
function open(most: number | null = 2) {
  const limits = { most };
  const quota = new OwnerQuota({
    maxGpus: (owner) => (owner === 'ana' ? limits.most : null),
    maxJobs: () => null,
  });
  const served: string[] = [];
  const take = (name: string, owner: string | null, gpus: number) =>
    quota.take(owner, gpus, () => served.push(name));
  return { quota, limits, served, take };
}

test('An owner has no more GPUs at once than allowed, and their jobs get them in order', () => {
  const { served, take, quota } = open();
  const release = take('a', 'ana', 1);
  const releaseSecond = take('b', 'ana', 1);
  take('c', 'ana', 2);
  take('d', 'ana', 1);
  expect(served).toEqual(['a', 'b']);
  expect(quota.describe('ana')).toBe('a GPU: ana may have 2 at once and has 2');
  release();
  // A small job does not overtake a large one of the same owner.
  expect(served).toEqual(['a', 'b']);
  releaseSecond();
  releaseSecond();
  expect(served).toEqual(['a', 'b', 'c']);
});

test('Jobs of other owners and jobs on the CPU do not wait', () => {
  const { served, take } = open();
  take('a', 'ana', 2);
  take('b', 'ana', 1);
  take('cpu', 'ana', 0);
  take('admin', null, 8);
  expect(served).toEqual(['a', 'cpu', 'admin']);
});

test('Running jobs count, and a higher limit lets waiting jobs start', () => {
  const { quota, limits, served, take } = open();
  const release = quota.hold('ana', 2);
  take('a', 'ana', 1);
  const giveUp = take('b', 'ana', 1);
  take('c', 'ana', 1);
  giveUp();
  limits.most = 3;
  quota.reconsider();
  expect(served).toEqual(['a']);
  release();
  expect(served).toEqual(['a', 'c']);
});

test('An owner has no more jobs at once than allowed, on whatever devices, and is told which limit it is', () => {
  const served: string[] = [];
  const quota = new OwnerQuota({ maxGpus: () => 2, maxJobs: (owner) => (owner === null ? 1 : null) });
  const take = (name: string, owner: string | null, gpus: number) =>
    quota.take(owner, gpus, () => served.push(name));
  const release = take('a', null, 0);
  take('cpu', null, 0);
  take('b', 'bob', 1);
  expect(served).toEqual(['a', 'b']);
  expect(quota.describe(null)).toBe('its turn: the admin may have 1 job at once and has 1');
  release();
  expect(served).toEqual(['a', 'b', 'cpu']);
});
