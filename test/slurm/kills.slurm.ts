import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { processesOfJob } from '../support/processes.js';
import { until } from '../support/until.mjs';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster();
const full = sharedCluster();
const inputs = file('ct.nii');

test.for([
  ['that ends when it is asked to', []],
  ['that ignores SIGTERM', ['stubborn=1']],
  ['with a child that ignores SIGTERM', ['child=1']],
  ['with a process in a session of its own', ['stray=1']],
  ['that does all of this', ['stubborn=1', 'child=1', 'stray=1']],
] as const)('kill ends a job %s, and answers when nothing of it is left', async ([, more]) => {
  await using server = await slurm.serve();
  const form = { inputs, ...steps(...more, 'print=begun', 'wait=/nonexistent/gate') };
  const id = await server.api.running('infer', form, 'begun');
  expect(processesOfJob(id)).not.toEqual([]);
  const [first, second] = await Promise.all([server.api.kill(id), server.api.kill(id)]);
  expect([first.status, second.status, processesOfJob(id)]).toEqual(['killed', 'killed', []]);
  const { view, log } = await server.api.ended(id);
  expect(view).toMatchObject({ status: 'killed', error: 'Killed by user' });
  expect(log).toContain('data: __ERROR__ Killed by user\n\n');
  // Slurm has its GPU back.
  await until('Slurm has ended it', () =>
    slurm.jobsOf(id).every(({ JobState = '' }) => !/PENDING|RUNNING|COMPLETING|SUSPENDED/.test(JobState)),
  );
  expect((await server.api.kill(id)).status).toBe('killed');
});

test('kill ends a job that waits in the queue of Slurm: it never starts', async () => {
  await using server = await full.serve();
  const release = await full.fill();
  const { job_id: id } = await server.api.accepted('infer', { inputs });
  await full.reaches(id, 'PENDING');
  expect((await server.api.kill(id)).status).toBe('killed');
  expect((await full.jobOf(id)).JobState).toBe('CANCELLED');
  release();
  expect(await server.api.job(id)).toMatchObject({
    status: 'killed',
    started_at: null,
    queue_position: null,
  });
});

test('kill ends a job that has just been accepted, at any moment', async () => {
  await using server = await slurm.serve();
  const ids = await Promise.all(
    Array.from({ length: 12 }, async (_, index) => {
      const form = { inputs, cpu: '1', ...steps('wait=/nonexistent/gate') };
      const { job_id: id } = await server.api.accepted('infer', form);
      await new Promise((resolve) => setTimeout(resolve, index * 90));
      expect((await server.api.kill(id)).status).toBe('killed');
      expect(processesOfJob(id)).toEqual([]);
      return id;
    }),
  );
  await until('Slurm has ended all', () =>
    ids
      .flatMap((id) => slurm.jobsOf(id))
      .every(({ JobState = '' }) => /CANCELLED|FAILED|COMPLETED/.test(JobState)),
  );
  // None starts later.
  expect(ids.flatMap(processesOfJob)).toEqual([]);
});

test('The command line submits, follows, kills and fetches as on one machine', async () => {
  await using server = await slurm.serve();
  await using cli = await Cli.create();
  const env = { REMOTE_APP_SERVER: server.url };
  const { code, stdout, stderr } = await cli.runProcess(
    ['infer', '--output', 'result', import.meta.filename],
    env,
  );
  expect([code, stdout], stderr).toEqual([0, expect.stringMatching(/^probe infer$/m)]);
  const detached = await cli.runProcess(
    ['infer', '--detach', '--set', 'wait=/nonexistent/gate', import.meta.filename],
    env,
  );
  const id = detached.stdout.trim();
  const killed = await cli.runProcess(['kill', id], env);
  expect([killed.code, killed.stdout]).toEqual([0, `${id}  killed\n`]);
});
