import { expect, test } from 'vitest';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { processesOfJob } from '../support/processes.js';
import { until } from '../support/until.mjs';
import { sharedCluster } from './support/shared-cluster.js';

/** The controllers of these are stopped, so each test has a cluster. */
const submitting = sharedCluster();
const running = sharedCluster();
const killing = sharedCluster();
const hanging = sharedCluster();
const forgetful = sharedCluster();
const daemonless = sharedCluster();
const inputs = file('ct.nii');

test('A job that is submitted while slurmctld is down waits for it, says so, and runs', async () => {
  await using server = await submitting.serve();
  await submitting.cluster.stopController();
  const { job_id: id } = await server.api.accepted('infer', { inputs });
  await until('it says for what it waits', async () =>
    /Slurm|slurmctld|controller/i.test((await server.api.job(id)).waiting_for ?? ''),
  );
  expect(await server.api.json('/health')).toMatchObject({ status: 'ok' });
  await submitting.cluster.startController();
  const { view } = await server.api.ended(id);
  expect(view).toMatchObject({ status: 'done', error: null });
  expect(submitting.jobsOf(id).length).toBe(1);
});

test('A running job continues while slurmctld is down, ends, and has its result', async () => {
  await using server = await running.serve();
  const gate = server.gate();
  const form = { inputs, ...steps('print=begun', `wait=${gate.path}`, 'print=over') };
  const id = await server.api.running('infer', form, 'begun');
  await running.cluster.stopController();
  await until('the server says that Slurm does not answer', () => /slurm/i.test(server.stderr));
  expect((await server.api.job(id)).status).toBe('running');
  // A restart meanwhile loses nothing either.
  await server.crash();
  await server.start();
  expect((await server.api.job(id)).status).toBe('running');
  gate.open();
  await using log = await server.api.follow(id);
  await log.until('over');
  await running.cluster.startController();
  expect(await server.api.reaches(id, 'done')).toMatchObject({ error: null });
});

test('A kill while slurmctld is down ends the job as soon as slurmctld is back, if not earlier', async () => {
  await using server = await killing.serve();
  const id = await server.api.running(
    'infer',
    { inputs, ...steps('stubborn=1', 'print=begun', 'wait=/nonexistent/gate') },
    'begun',
  );
  await killing.cluster.stopController();
  const asked = server.api.fetch(`/jobs/${id}/kill`, { method: 'POST' });
  await until(
    'the kill is noted',
    async () =>
      /kill/i.test(await server.api.json(`/jobs/${id}`).then(JSON.stringify)) || server.stderr.includes(id),
  );
  await killing.cluster.startController();
  await asked;
  expect((await server.api.ended(id)).view).toMatchObject({ status: 'killed', error: 'Killed by user' });
  expect(processesOfJob(id)).toEqual([]);
});

test('A slurmctld that hangs neither blocks the server nor changes the state of a job', async () => {
  await using server = await hanging.serve();
  const gate = server.gate();
  const id = await server.api.running(
    'infer',
    { inputs, ...steps('print=begun', `wait=${gate.path}`) },
    'begun',
  );
  hanging.cluster.hangController(true);
  const { job_id: next } = await server.api.accepted('infer', { inputs });
  const waits: number[] = [];
  for (let look = 0; look < 20; look += 1) {
    const began = performance.now();
    await server.api.json('/health');
    await server.api.json('/available_devices');
    expect((await server.api.job(id)).status).toBe('running');
    waits.push(performance.now() - began);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  hanging.cluster.hangController(false);
  gate.open();
  for (const each of [id, next]) expect((await server.api.ended(each)).view.status).toBe('done');
  expect(Math.max(...waits)).toBeLessThan(2500);
});

test('A job that slurmctld forgets in a crash ends and is reported as lost', async () => {
  await using server = await forgetful.serve();
  const { job_id: id } = await server.api.accepted('infer', {
    inputs,
    ...steps('print=begun', 'shell=sleep 3', 'print=over'),
  });
  await forgetful.jobOf(id);
  await forgetful.cluster.killController();
  await forgetful.cluster.startController();
  const { view } = await server.api.ended(id);
  if (view.status !== 'done') {
    expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/Slurm/) });
  }
  // Where slurmctld has forgotten it, slurmd ends what runs of it when it next registers.
  await until('nothing of the job runs', () => processesOfJob(id).length === 0);
  expect(forgetful.jobsOf(id).every(({ JobState = '' }) => !/PENDING|RUNNING/.test(JobState))).toBe(true);
});

test('A job whose slurmd is killed continues and ends successfully', async () => {
  await using server = await daemonless.serve();
  const gate = server.gate();
  const id = await server.api.running(
    'infer',
    { inputs, ...steps('print=begun', `wait=${gate.path}`) },
    'begun',
  );
  const { NodeList: node = '' } = await daemonless.jobOf(id);
  await daemonless.cluster.killDaemon(node);
  gate.open();
  await daemonless.cluster.startDaemon(node);
  expect((await server.api.ended(id)).view).toMatchObject({ status: 'done', error: null });
});
