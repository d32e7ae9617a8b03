import { expect, test } from 'vitest';
import type { JobView } from '../../src/contract/job.js';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { fakeProgram } from './support/fake-program.js';
import { sharedCluster } from './support/shared-cluster.js';

/** Each test disturbs the jobs of a cluster, so each has one. */
const cancelled = sharedCluster();
const timed = sharedCluster();
const tight = sharedCluster();
const failing = sharedCluster();
const crowded = sharedCluster();
const inputs = file('ct.nii');
const endless = { inputs, ...steps('print=begun', 'shell=sleep 600') };

/** The sentences of all ends, each of which has to be another. */
const sentences = new Map<string, string>();

/** An end that is nobody's success: its sentence, the end of its log, and no process left. */
function expectFailed(view: JobView, log: string, sentence: RegExp): void {
  expect(view).toMatchObject({
    status: 'error',
    error: expect.stringMatching(sentence),
    assigned_gpus: expect.any(Array),
  });
  expect(log).toContain(`data: __ERROR__ ${view.error}\n\n`);
  expect(view.error).not.toMatch(/undefined|null|\[object|slurm_\w+\(/);
  expect([...sentences.values()]).not.toContain(view.error);
  sentences.set(String(sentence), view.error ?? '');
}

test('A job that somebody cancels in Slurm reports the cancellation', async () => {
  await using server = await cancelled.serve();
  const running = await server.api.running('infer', endless, 'begun');
  cancelled.cluster.output(['scancel', (await cancelled.jobOf(running)).JobId ?? '']);
  const ended = await server.api.ended(running);
  expectFailed(ended.view, ended.log, /cancel/i);

  const release = await cancelled.fill();
  const { job_id: waiting } = await server.api.accepted('infer', endless);
  await cancelled.reaches(waiting, 'PENDING');
  cancelled.cluster.output(['scancel', (await cancelled.jobOf(waiting)).JobId ?? '']);
  const { view } = await server.api.ended(waiting);
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/cancel/i), started_at: null });
  release();
});

test('The time limit of a job is passed on to Slurm, with time for the service to end it first', async () => {
  await using server = await timed.serve();
  const id = await server.api.running('infer', { ...endless, time_limit: '5' }, 'begun');
  expect(await timed.jobOf(id)).toMatchObject({ TimeLimit: '00:04:00' });
  const { view, log } = await server.api.ended(id);
  expectFailed(view, log, /may run for 5s/);
});

test('A job that reaches the time limit of Slurm reports the timeout', async () => {
  await using server = await timed.serve({ flags: ['--slurm-time', '1'] });
  const id = await server.api.running('infer', endless, 'begun');
  // As if its minute were over.
  timed.cluster.output(['scontrol', 'update', `JobId=${(await timed.jobOf(id)).JobId}`, 'EndTime=now']);
  await timed.reaches(id, 'TIMEOUT');
  const { view, log } = await server.api.ended(id);
  expectFailed(view, log, /time limit/i);
});

test('A job that uses more memory than Slurm gave it reports a lack of memory', async () => {
  // Without control groups Slurm says FAILED of such a job; with them, what this says.
  using asWithControlGroups = fakeProgram('squeue', '"$real" "$@" | sed s/FAILED/OUT_OF_MEMORY/g');
  using alsoSacct = fakeProgram('scontrol', '"$real" "$@" | sed s/FAILED/OUT_OF_MEMORY/g');
  await using server = await tight.serve({
    flags: ['--slurm-arg=--mem=120M'],
    environment: tight.environment(asWithControlGroups.directory, alsoSacct.directory),
  });
  const program = 'const all = []; setInterval(() => all.push(Buffer.alloc(2e7, 1)), 20)';
  const { view, log } = await server.api.run('infer', { inputs, ...steps(`shell=node -e '${program}'`) });
  expectFailed(view, log, /memory/i);
});

test('A job whose node fails reports the failure, with the name of the node', async () => {
  await using server = await failing.serve();
  const id = await server.api.running('infer', endless, 'begun');
  const { NodeList: node = '' } = await failing.jobOf(id);
  await failing.cluster.failNode(node);
  const { view, log } = await server.api.ended(id);
  expectFailed(view, log, /node/i);
  expect(view.error).toContain(node);
  await failing.cluster.startNode(node);
});

test('A job that is preempted by one of a higher priority reports the preemption', async () => {
  await using server = await crowded.serve({ flags: ['--slurm-partition', 'scavenge'] });
  const id = await server.api.running('infer', { ...endless, gpu: '0,1' }, 'begun');
  const release = await crowded.fill('--partition=urgent');
  const { view, log } = await server.api.ended(id);
  expectFailed(view, log, /preempt/i);
  release();
});
