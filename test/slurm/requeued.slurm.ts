import { expect, test } from 'vitest';
import { file } from '../../support/form.mjs';
import { until } from '../../support/until.mjs';
import { steps } from '../support/form.js';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();

test('a job that Slurm puts back into its queue runs at most once at a time, and ends with its own sentence or its result', async () => {
  await using server = await slurm.serve({ flags: ['--slurm-partition', 'main'] });
  const gate = server.gate();
  const form = { inputs: file('ct.nii'), gpu: '0,1', ...steps('print=begun', `wait=${gate.path}`) };
  const id = await server.api.running('infer', form, 'begun');
  const release = await slurm.fill('--partition=urgent');
  await until('it was preempted', async () => (await server.api.job(id)).status !== 'running');
  release();
  gate.open();
  const { view, log } = await server.api.ended(id);
  if (view.status === 'error') expect(view.error).toMatch(/preempt/i);
  else expect([view.status, log]).toEqual(['done', expect.stringMatching(/preempt|requeue/i)]);
});
