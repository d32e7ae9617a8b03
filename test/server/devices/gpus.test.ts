import { truncateSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { Cli } from '../../support/cli.js';
import { least, steps } from '../../support/form.js';
import type { FormValues } from '../../support/form.mjs';
import { linesOf } from '../../support/log-lines.mjs';
import { apps, sharedServer, TestServer } from '../../support/server.js';
import { plant } from '../../support/temporary.js';

const server = sharedServer({ gpus: 2, flags: ['--cpu-slots', '1'] });
const { api } = server;

/** A job that holds its devices until its gate is opened. */
async function holding(fields: FormValues) {
  const gate = server.gate();
  const form = { ...least.infer, ...steps(`wait=${gate.path}`), ...fields };
  const { job_id: id } = await api.accepted('infer', form);
  return {
    id,
    end: async () => {
      gate.open();
      return api.ended(id);
    },
    gpus: async () => (await api.reaches(id, 'running')).assigned_gpus,
    waitsFor: async () => (await api.reaches(id, 'waiting')).waiting_for,
  };
}

describe('a GPU job', () => {
  test('A GPU job sees only the GPUs that it was given', async () => {
    await using real = await TestServer.start({ runners: true, gpus: 2 });
    const { api } = real;
    const { env, argv } = await api.probe('infer', { ...least.infer, gpu: '1' });
    expect(env).toMatchObject({ CUDA_VISIBLE_DEVICES: '1', CUDA_DEVICE_ORDER: 'PCI_BUS_ID' });
    expect(argv.join(' ')).toContain('--gpu 1 --inputs');
    const both = await api.probe('infer', { ...least.infer, gpu: '1,0' });
    expect(both.env.CUDA_VISIBLE_DEVICES).toBe('1,0');
    expect(both.argv.join(' ')).toContain('--gpu 1 0 --inputs');
  });

  test('A GPU job without ids gets any free GPU, and waits if there is none', async () => {
    const jobs = [await holding({}), await holding({}), await holding({})];
    const [first, second, third] = jobs;
    expect([await first?.gpus(), await second?.gpus()].flat().sort()).toEqual([0, 1]);
    expect(await third?.waitsFor()).toBe('a free GPU');
    const freed = await second?.gpus();
    await second?.end();
    expect(await third?.gpus()).toEqual(freed);
    const { log, view } = (await third?.end()) ?? {};
    expect(view?.assigned_gpus).toEqual(freed);
    expect(linesOf(log ?? '')).toContain(`[remote-app] Assigned GPUs: ${freed}`);
    await first?.end();
  });

  test('A GPU job with ids gets all of them or none, and no later job overtakes it', async () => {
    const onZero = await holding({ gpu: '0' });
    const both = await holding({ gpu: '0,1' });
    const onOne = await holding({ gpu: '1' });
    const any = await holding({});
    expect(await onZero.gpus()).toEqual([0]);
    expect(await both.waitsFor()).toBe('GPU 0, 1');
    // GPU 1 is idle, but an earlier job waits for it.
    expect(await onOne.waitsFor()).toBe(`GPU 1 (behind job ${both.id})`);
    expect(await any.waitsFor()).toBe('a free GPU (behind 2 jobs)');
    expect(
      await Promise.all([both, onOne, any].map(async ({ id }) => (await api.job(id)).queue_position)),
    ).toEqual([1, 2, 3]);
    await onZero.end();
    expect(await both.gpus()).toEqual([0, 1]);
    expect(await onOne.waitsFor()).toBe('GPU 1');
    await both.end();
    expect([await onOne.gpus(), await any.gpus()]).toEqual([[1], [0]]);
    await onOne.end();
    await any.end();
  });

  test('A GPU job that can use an idle GPU which no earlier job waits for runs at once', async () => {
    const onZero = await holding({ gpu: '0' });
    const alsoZero = await holding({ gpu: '0' });
    const onOne = await holding({ gpu: '1' });
    expect(await alsoZero.waitsFor()).toBe('GPU 0');
    expect(await onOne.gpus()).toEqual([1]);
    for (const job of [onOne, onZero, alsoZero]) await job.end();
  });

  test('A GPU job releases its GPU to the next job when it is killed', async () => {
    const first = await holding({ gpu: '0,1' });
    const second = await holding({ gpu: '1' });
    expect(await second.waitsFor()).toBe('GPU 1');
    await api.kill(first.id);
    expect(await second.gpus()).toEqual([1]);
    await second.end();
  });

  test('A GPU job counts a repeated id once', async () => {
    const job = await holding({ gpu: '1, 1,1' });
    expect(await job.gpus()).toEqual([1]);
    await job.end();
  });

  test.for(['2', '0,7', '99'])('A GPU job with an unknown id is answered 400: %s', async (gpu) => {
    expect(await api.refused('infer', { ...least.infer, gpu })).toEqual([
      400,
      expect.stringMatching(/GPU.*0, 1/),
    ]);
  });
});

describe('a CPU job on a server with GPUs', () => {
  test('A CPU job on a server with GPUs has the field cpu and not gpu; it sees no GPU and waits for none', async () => {
    const both = await holding({ gpu: '0,1' });
    const cpu = await holding({ cpu: '1' });
    expect(await cpu.gpus()).toEqual([]);
    await cpu.end();
    const { env, argv } = await api.recorded(cpu.id);
    expect(env.CUDA_VISIBLE_DEVICES).toBe('');
    expect(argv).toContain('--cpu');
    await both.end();
  });
});

test('Jobs share a GPU with --share-gpus, `gpus` names them, and a restarted server still counts what they declare', async () => {
  await using cli = await Cli.create();
  const about = { display_name: 'A', description: '', short_description: '', tta: 0, mc_dropout: 0 };
  const gate = path.join(cli.directory, 'gate');
  const command = ['sh', '-c', 'until [ -e "$0" ]; do sleep 0.1; done', gate];
  const manifest = { ...about, command, resources: { gpu_memory: '8GiB', memory: '1MiB' } };
  await plant(cli.directory, { 'small/app.json': JSON.stringify(manifest) });
  await using server = await TestServer.start({
    ...{ runners: true, gpus: 1, environment: { FAKE_GPU_MEMORY: '24576' } },
    apps: [path.join(cli.directory, 'small')],
    flags: ['--share-gpus', '--gpu-margin', '1GiB', '--on-exit', 'keep'],
  });
  const { api } = server;
  const submit = async () => (await api.accepted('infer', least.infer, { app: 'small' })).job_id;
  const [first, second, third] = [await submit(), await submit(), await submit()];
  const isShown = async () => {
    for (const id of [first, second]) await api.reaches(id, 'running');
    expect((await api.reaches(third, 'waiting')).waiting_for).toBe('8.0 GiB of GPU memory');
    const { stdout } = await cli.run(['gpus', '--server', server.url]);
    expect(stdout).toContain(`job ${first}, job ${second}`);
  };
  await isShown();
  await server.restart();
  await isShown();
  await plant(cli.directory, { gate: '' });
  for (const id of [first, second, third]) expect((await api.ended(id)).view.status).toBe('done');
});

describe('after a restart', () => {
  test('GPUs that a job still holds are not given to another one', async () => {
    await using server = await TestServer.start({ gpus: 2 });
    const { api } = server;
    const first = await server.heldJob({ gpu: '0' });
    await server.restart();
    const { job_id: second } = await api.accepted('infer', { ...least.infer, gpu: '0' });
    expect((await api.reaches(second, 'waiting')).waiting_for).toBe('GPU 0');
    expect((await api.run('infer', least.infer)).view.assigned_gpus).toEqual([1]);
    first.gate.open();
    expect((await api.ended(second)).view.assigned_gpus).toEqual([0]);
  });

  test('A job that waits for a missing GPU waits until it is back, or the job is killed', async () => {
    await using server = await TestServer.start({ gpus: 2 });
    const { api } = server;
    const { id: running, gate } = await server.heldJob({ gpu: '1' });
    const held = { ...least.infer, ...steps(`wait=${gate.path}`), gpu: '1' };
    const { job_id: waiting } = await api.accepted('infer', held);
    const { job_id: unwanted } = await api.accepted('infer', held);
    for (const id of [waiting, unwanted]) await api.reaches(id, 'waiting');
    await server.restart([], { gpus: 1 });
    gate.open();
    expect((await api.ended(running)).view.status).toBe('done');
    expect(await api.job(waiting)).toMatchObject({
      status: 'waiting',
      waiting_for: 'GPU 1, which this server does not see at the moment',
    });
    expect(await api.refused('infer', { ...least.infer, gpu: '1' })).toEqual([
      400,
      expect.stringMatching(/GPU.*1.*has: 0/),
    ]);
    await api.kill(unwanted);
    expect((await api.job(unwanted)).status).toBe('killed');
    await server.restart([], { gpus: 2 });
    expect((await api.ended(waiting)).view).toMatchObject({ status: 'done', assigned_gpus: [1] });
  });

  test('A job that waits for any GPU waits while there is none', async () => {
    await using server = await TestServer.start({ gpus: 1 });
    const { api } = server;
    const { id: running, gate } = await server.heldJob();
    const { job_id: waiting } = await api.accepted('infer', least.infer);
    await api.reaches(waiting, 'waiting');
    await server.restart([], { gpus: 0 });
    gate.open();
    expect((await api.ended(running)).view.status).toBe('done');
    expect((await api.job(waiting)).waiting_for).toContain('does not see any at the moment');
    await server.restart([], { gpus: 1 });
    expect((await api.ended(waiting)).view).toMatchObject({ status: 'done', assigned_gpus: [0] });
  });

  test.for([
    ['whose record can be read', false],
    ['whose record cannot be read', true],
  ] as const)('A GPU whose id has changed is kept for the job %s', async ([, isUnreadable]) => {
    const shell = { runners: true, apps: [apps.shell], app: 'shell' } as const;
    await using before = await TestServer.start({ ...shell, gpus: 2, flags: ['--on-exit', 'keep'] });
    const { id: running, gate } = await before.heldJob({ gpu: '1' });
    await before.stop();
    const record = path.join(before.jobDirectory(running), 'job.json');
    if (isUnreadable) truncateSync(record);
    // The first GPU has gone, and the second one has taken its id.
    const { dataDirectory } = before;
    await using after = new TestServer({
      ...shell,
      gpus: 2,
      dataDirectory,
      environment: { FAKE_GPUS_GONE: '1' },
    });
    await after.start();
    expect(await after.api.json('/available_devices')).toMatchObject({ devices_index: [0] });
    const { job_id: next } = await after.api.accepted('infer', least.infer);
    expect((await after.api.reaches(next, 'waiting')).waiting_for).toBe('a free GPU');
    gate.open();
    expect((await after.api.ended(next)).view).toMatchObject({ status: 'done', assigned_gpus: [0] });
  });
});

describe('a server without GPUs', () => {
  const cpuServer = sharedServer();

  test('A server without GPUs answers 503 with Retry-After to a job that wants a GPU', async () => {
    const response = await cpuServer.api.submit('infer', { ...least.infer, gpu: '0' });
    expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await refusal(response)).toEqual([503, expect.stringContaining('GPU')]);
    expect(cpuServer.jobDirectories()).toEqual([]);
  });

  test('A server without GPUs runs all other jobs on the CPU', async () => {
    const { argv, env } = await cpuServer.api.probe('infer', least.infer);
    expect(argv.join(' ')).toContain('--cpu 1 --inputs');
    expect(env.CUDA_VISIBLE_DEVICES).toBe('');
    expect(env).not.toHaveProperty('CUDA_DEVICE_ORDER');
  });
});
