import { expect, test } from 'vitest';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { processesOfJob } from '../support/processes.js';
import { until } from '../support/until.mjs';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();
const endless = steps('print=begun', 'wait=/nonexistent/gate');

const inputs = file('ct.nii');

test('A job that is preempted on a cluster that requeues jobs ends, and is not run a second time', async () => {
  await using server = await slurm.serve({ flags: ['--slurm-partition', 'main'] });
  const id = await server.api.running('infer', { inputs, gpu: '0,1', ...endless }, 'begun');
  const release = await slurm.fill('--partition=urgent');
  const { view } = await server.api.ended(id);
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/preempt/i) });
  release();
  expect(slurm.jobsOf(id).map(({ JobState }) => JobState)).toEqual(['PREEMPTED']);
});

test('A job that the admin of the cluster requeues ends, and is not run a second time', async () => {
  await using server = await slurm.serve();
  const id = await server.api.running('infer', { inputs, ...endless }, 'begun');
  const { JobId = '' } = await slurm.jobOf(id);
  slurm.cluster.output(['scontrol', 'update', `JobId=${JobId}`, 'Requeue=1']);
  slurm.cluster.output(['scontrol', 'requeue', JobId]);
  const { view, log } = await server.api.ended(id);
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/again/i) });
  expect(log.match(/^data: begun$/gm)).toHaveLength(1);
  expect(processesOfJob(id)).toEqual([]);
  await until('Slurm has nothing left of it', () =>
    slurm.jobsOf(id).every(({ JobState = '' }) => !/PENDING|RUNNING|COMPLETING/.test(JobState)),
  );
});
