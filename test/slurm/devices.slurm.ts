import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { refusal } from '../support/api.js';
import { Cli } from '../support/cli.js';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { cpuNodes } from '../support/slurm/configuration.mjs';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { sharedCluster } from './support/shared-cluster.js';

const slurm = sharedCluster({
  nodes: [
    { name: 'n1', gpus: 2, gpuType: 'a100' },
    { name: 'n2', gpus: 1, gpuType: 'h100' },
  ],
});
const without = sharedCluster({ nodes: cpuNodes });
const unnamed = sharedCluster({
  nodes: [
    { name: 'n1', gpus: 2, gpuType: 'a100', gpuFlags: 'no_gpu_env' },
    { name: 'n2', gpus: 2, gpuType: 'h100', gpuFlags: 'no_gpu_env' },
  ],
  // On the second node, no variable says which GPUs a job has.
  settings: [`TaskProlog=${fileURLToPath(new URL('support/forget-gpus.sh', import.meta.url))}`],
});
const inputs = file('ct.nii');

interface Devices {
  readonly devices_index: readonly number[];
  readonly devices_name: readonly string[];
}

test('The devices are those of the cluster, listed by node and type, with those that are free', async () => {
  await using server = await slurm.serve();
  await using cli = await Cli.create();
  const env = { REMOTE_APP_SERVER: server.url };
  const { devices_index: ids, devices_name: names } = await server.api.json<Devices>('/available_devices');
  expect(ids).toEqual([0, 1, 2]);
  expect(names.filter((name) => /a100/.test(name) && /n1/.test(name)).length).toBe(2);
  expect(names.filter((name) => /h100/.test(name) && /n2/.test(name)).length).toBe(1);

  // The server's memory changes.
  const table = async () => (await cli.runProcess(['gpus'], env)).stdout.replace(/^RAM.*/m, '');
  const idle = await cli.runProcess(['gpus'], env);
  const free = await table();
  expect([idle.code, idle.stdout], idle.stderr).toEqual([0, expect.stringMatching(/a100[\s\S]*h100/)]);
  const gate = server.gate();
  const id = await server.api.running(
    'infer',
    { inputs, gpu: '0,1', ...steps('print=begun', `wait=${gate.path}`) },
    'begun',
  );
  await until('it shows that they are taken', async () => /a100 on n1 +taken/.test(await table()));
  gate.open();
  expect((await server.api.ended(id)).view.status).toBe('done');
  await until('it shows that they are free', async () => (await table()) === free);
});

test('The memory of the GPUs is reported as unknown', async () => {
  await using server = await slurm.serve();
  const response = await server.api.fetch('/vram?devices=0');
  const [status, detail] = await refusal(response);
  expect([status, detail]).toEqual([501, expect.stringContaining('Slurm')]);
  const [unknown] = await refusal(await server.api.fetch('/vram?devices=17'));
  expect(unknown).toBe(400);
});

test('More GPUs than a node has, and unknown GPUs, are refused with a reason', async () => {
  await using server = await slurm.serve();
  expect(await server.api.refused('infer', { inputs, gpu: '17' })).toEqual([
    400,
    expect.stringMatching(/17/),
  ]);
  const response = await server.api.submit('infer', { inputs, gpu: '0,1,2' });
  if (response.status !== 200) {
    const [status, detail] = await refusal(response);
    expect([status, detail]).toEqual([expect.any(Number), expect.stringMatching(/GPU/)]);
  } else {
    const { job_id: id } = (await response.json()) as { job_id: string };
    const { view } = await server.api.ended(id);
    expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/configuration|GPU/) });
  }
});

test('A job whose node sets no CUDA_VISIBLE_DEVICES gets the GPUs that SLURM_JOB_GPUS names', async () => {
  await using server = await unnamed.serve({ flags: ['--slurm-arg=--nodelist=n1'] });
  const gate = server.gate();
  const first = await server.api.running(
    'infer',
    { inputs, ...steps('print=begun', `wait=${gate.path}`) },
    'begun',
  );
  const { id, view } = await server.api.run('infer', { inputs });
  gate.open();
  expect(view).toMatchObject({ status: 'done', assigned_gpus: [1] });
  expect((await server.api.recorded(id)).env.CUDA_VISIBLE_DEVICES).toBe('1');
  expect((await server.api.ended(first)).view.assigned_gpus).toEqual([0]);
});

test('A job whose GPUs no variable names is not started', async () => {
  await using server = await unnamed.serve({ flags: ['--slurm-arg=--nodelist=n2'] });
  const { view } = await server.api.run('infer', { inputs });
  expect(view).toMatchObject({
    status: 'error',
    error: expect.stringMatching(
      /^Slurm granted it GPUs, but node n2 does not say which \(Slurm job \d+\): neither CUDA_VISIBLE_DEVICES nor SLURM_JOB_GPUS is set there/,
    ),
  });
});

test('Slurm gets what an app needs, and an option of the admin takes precedence', async () => {
  const directory = path.join(slurm.cluster.shared, 'lean');
  const about = { display_name: 'A', description: '', short_description: '', tta: 0, mc_dropout: 0 };
  const needs = { memory: '1.5GiB', cpus: 3 };
  const manifest = JSON.stringify({ ...about, command: ['true'], resources: needs });
  await plant(directory, { 'app.json': manifest });
  for (const [flags, memory, type] of [
    [[], '1.50G', 'gpu:1'],
    [['--slurm-arg=--mem=2G', '--slurm-arg=--gres=gpu:h100:1'], '2G', 'gpu:h100:1'],
  ] as const) {
    await using server = await slurm.serve({ apps: [directory], flags });
    const { id, view } = await server.api.run('infer', { inputs }, { app: 'lean' });
    expect(view.status, view.error ?? '').toBe('done');
    expect(slurm.jobsOf(id)).toMatchObject([
      { MinMemoryNode: memory, 'CPUs/Task': '3', TresPerNode: expect.stringContaining(type) },
    ]);
  }
});

test('A cluster without GPUs has none', async () => {
  await using server = await without.serve();
  expect(await server.api.json('/available_devices')).toEqual({ devices_index: [], devices_name: [] });
  await using cli = await Cli.create();
  const { code } = await cli.runProcess(['gpus'], { REMOTE_APP_SERVER: server.url });
  expect(code).toBe(0);
});
