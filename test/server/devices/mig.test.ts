import { expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { Cli } from '../../support/cli.js';
import { least, steps } from '../../support/form.js';
import { TestServer } from '../../support/server.js';

const uuid = (device: number) => `MIG-9e1f0c3${device}-94cb-52b7-a0ee-2d1a7c3b9f40`;

/** Two GPUs, the first of which MIG has divided. */
const divided = (more: Readonly<Record<string, string>> = {}) => ({
  runners: true,
  gpus: 2,
  flags: ['--on-exit', 'keep'],
  environment: { FAKE_MIG: '3g.71gb 1g.18gb', ...more },
});

test('MIG instances count as separate GPUs, and the GPU that they divide does not count', async () => {
  await using server = await TestServer.start(divided());
  await using cli = await Cli.create();
  const { api } = server;
  expect(server.stderr).toContain(
    'Found 3 GPUs: 100 (NVIDIA H200 MIG 3g.71gb), 101 (NVIDIA H200 MIG 1g.18gb), 1 (NVIDIA H200).',
  );
  const { stdout } = await cli.run(['gpus'], { REMOTE_APP_SERVER: server.url });
  expect(stdout.split('\n').slice(1, 4)).toEqual([
    expect.stringMatching(/^100 +NVIDIA H200 MIG 3g.71gb +0.0 of 9.8 GB +free/),
    expect.stringMatching(/^101 +NVIDIA H200 MIG 1g.18gb +0.0 of 19.5 GB +free/),
    expect.stringMatching(/^1 +NVIDIA H200 +1.0 of 140.4 GB +free/),
  ]);
  expect(await refusal(await api.submit('infer', { ...least.infer, gpu: '0' }))).toEqual([
    400,
    expect.stringContaining('this server has: 100, 101, 1'),
  ]);
});

test('A job gets a MIG instance by its UUID, and keeps it when the server restarts', async () => {
  await using server = await TestServer.start(divided());
  const { api } = server;
  const { env, argv } = await api.probe('infer', { ...least.infer, gpu: '101' });
  expect(env).toMatchObject({ CUDA_VISIBLE_DEVICES: uuid(1) });
  expect(argv.join(' ')).toContain('--gpu 101 --inputs');
  const gate = server.gate();
  const wait = steps('print=x', `wait=${gate.path}`);
  const id = await api.running('infer', { ...least.infer, ...wait, gpu: '100' }, 'x');
  expect(await (await api.fetch(`/jobs/${id}/log`)).text()).toContain('GPU 100 (GPU 0, MIG 3g.71gb)');
  await server.stop();
  await server.start();
  const { job_id: next } = await api.accepted('infer', { ...least.infer, gpu: '100' });
  expect((await api.reaches(next, 'waiting')).waiting_for).toBe('GPU 100');
  expect(await api.json('/available_devices')).toMatchObject({
    devices_index: [100, 101, 1],
    devices_jobs: [{ job_id: id }, null, null],
  });
  gate.open();
  expect((await api.ended(next)).view).toMatchObject({ status: 'done', assigned_gpus: [100] });
});

test.each([
  [uuid(1), [101]],
  ['0', [100, 101]],
  ['GPU-5e1f0c30,1', [100, 101, 1]],
])('CUDA_VISIBLE_DEVICES=%s selects among MIG instances', async (visible, ids) => {
  await using server = await TestServer.start(divided({ CUDA_VISIBLE_DEVICES: visible }));
  expect(await server.api.json('/available_devices')).toMatchObject({ devices_index: ids });
});

test('A GPU on which MIG is enabled without an instance counts as failed', async () => {
  await using server = await TestServer.start(divided({ FAKE_MIG: '' }));
  expect(await server.api.json('/available_devices')).toMatchObject({ devices_index: [1] });
  expect(server.stderr).toContain(
    "GPU 0 does not work (nvidia-smi says 'MIG is enabled, and there is no instance')",
  );
});
