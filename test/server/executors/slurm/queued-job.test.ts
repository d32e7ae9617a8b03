import { expect, test } from 'vitest';
import { Turns } from '../../../../src/files/index.js';
import type { RunOrder } from '../../../../src/server/executors/index.js';
import type { SlurmContext } from '../../../../src/server/executors/slurm/context.js';
import { OwnerQuota } from '../../../../src/server/executors/slurm/owner-quota.js';
import { QueuedJob } from '../../../../src/server/executors/slurm/queued-job.js';
import { temporary } from '../../../support/temporary.js';

/** A job that an earlier server has accepted, on a cluster whose squeue tells this of it. */
async function recovered(problem: string | null, id: number | null) {
  await using root = await temporary();
  const rows = id === null ? [] : [{ id, state: 'PENDING', reason: 'Resources', directory: root.path }];
  const submitted: string[] = [];
  const queue = {
    problem,
    view: problem === null ? { at: Number.POSITIVE_INFINITY, rows } : null,
    refresh: async () => {},
    rowsOf: () => rows,
    follow: () => () => {},
  };
  const context = {
    queue,
    turns: new Turns(1),
    quota: new OwnerQuota(),
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
  const job = new QueuedJob(order, context, 1, () => 1);
  const { value } = await job.untilPlaced().next();
  const outcome = { for: (value as { for: string }).for, id: job.id, submitted };
  queue.problem = null;
  rows.splice(0);
  await job.leave(false);
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
