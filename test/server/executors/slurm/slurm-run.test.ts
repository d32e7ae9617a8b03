import { expect, test } from 'vitest';
import { Turns } from '../../../../src/files/index.js';
import type { RunOrder } from '../../../../src/server/executors/index.js';
import type { SlurmContext } from '../../../../src/server/executors/slurm/context.js';
import { OwnerQuota } from '../../../../src/server/executors/slurm/owner-quota.js';
import { JobQueue } from '../../../../src/server/executors/slurm/queue.js';
import { SlurmRun } from '../../../../src/server/executors/slurm/slurm-run.js';
import { temporary } from '../../../support/temporary.js';

/** A job that an earlier server has accepted, on a cluster whose squeue tells this of it. */
async function recovered(problem: string | null, id: number | null) {
  await using root = await temporary();
  const row = id === null ? '' : `${id}|PENDING|1||1:00|Resources|remote-app-0123456789ab|${root.path}`;
  const submitted: string[] = [];
  let answer: () => string = () => {
    if (problem === null) return row;
    throw new Error(problem);
  };
  const queue = new JobQueue(async () => answer());
  const context = {
    queue,
    turns: new Turns(1),
    quota: new OwnerQuota({ maxGpus: () => null, maxJobs: () => null }),
    runs: new Set(),
    cluster: { nodes: null, maxMinutes: null },
    slurm: {
      submit: async () => {
        submitted.push('again');
        return 18;
      },
    },
  } as unknown as SlurmContext;
  const order = {
    directory: { id: '0123456789ab', path: root.path },
    devices: { kind: 'cpu', workers: 1 },
    ...{ owner: null, timeLimit: null, isAccepted: true, grant: null },
  } as unknown as RunOrder;
  const run = new SlurmRun(order, context);
  const events = run.events();
  const { value } = await events.next();
  const outcome = { for: (value as { for: string }).for, id: run.id, submitted };
  answer = () => '';
  run.stop();
  await events.next();
  return outcome;
}

test('A job that an earlier server has submitted is not submitted again while squeue fails', async () => {
  expect(await recovered('Unable to contact slurm controller', null)).toEqual({
    for: 'Slurm, which does not answer (Unable to contact slurm controller)',
    id: null,
    submitted: [],
  });
});

test('A job of an earlier server is found in the queue once squeue answers', async () => {
  expect(await recovered(null, 17)).toEqual({
    for: 'free resources of the cluster (Slurm: Resources)',
    id: 17,
    submitted: [],
  });
});
