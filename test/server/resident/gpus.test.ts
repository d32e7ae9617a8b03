import { describe, expect, test } from 'vitest';
import { Cli } from '../../support/cli.js';
import { least } from '../../support/form.js';
import { apps, sharedServer, TestServer } from '../../support/server.js';
import { TestTokens } from '../../support/tokens.js';
import { until } from '../../support/until.mjs';
import { hostsOf, noWorkerLeft, onGpu, workerState } from './support.js';

test('A resident app that is loaded without a GPU is shown by gpus', async () => {
  await using server = await TestServer.start({
    runners: true,
    apps: [apps.resident],
    app: 'resident',
    gpus: 1,
  });
  expect(await server.api.json('/available_devices')).not.toHaveProperty('cpu_loaded');
  await server.api.run('infer', { ...least.infer, cpu: '1' });
  expect(await server.api.json('/available_devices')).toMatchObject({ cpu_loaded: ['resident'] });
  expect(await server.api.json('/available_devices')).not.toHaveProperty('devices_loaded');
  await using cli = await Cli.create();
  const env = { REMOTE_APP_SERVER: server.url };
  expect((await cli.run(['gpus'], env)).stdout).toMatch(/^RAM: .*\nLoaded on the CPU: resident\n$/m);
  expect(JSON.parse((await cli.run(['gpus', '--json'], env)).stdout).cpu_loaded).toEqual(['resident']);
});

describe('a resident app on GPUs', () => {
  const server = sharedServer({ runners: true, apps: [apps.resident, apps.shell], app: 'resident', gpus: 3 });
  const { api } = server;

  test('A resident app is reused on the GPU where it is loaded, even if another GPU comes first', async () => {
    expect(await api.json('/available_devices')).not.toHaveProperty('devices_loaded');
    const first = await api.run('infer', onGpu('1'));
    expect(first.view).toMatchObject({ status: 'done', start: 'cold', assigned_gpus: [1] });
    const second = await api.run('infer', onGpu(null));
    expect(second.view).toMatchObject({ status: 'done', start: 'warm', assigned_gpus: [1] });
    expect(second.log).toContain('Starting infer on GPU 1, the app is loaded already\n');
  });

  test('A resident app leaves its GPU before another app starts there, and the other app prefers a free GPU', async () => {
    await api.run('infer', onGpu('1'));
    const { inputs } = onGpu(null);
    // No GPU is asked for: one is taken on which nothing is loaded.
    const beside = await api.run('infer', { inputs }, { app: 'shell' });
    expect(beside.view).toMatchObject({ status: 'done', assigned_gpus: [0] });
    const before = server.workers();
    expect(before).not.toEqual([]);
    const instead = await api.run('infer', { inputs, gpu: '1' }, { app: 'shell' });
    expect(instead.view).toMatchObject({ status: 'done', assigned_gpus: [1] });
    expect(server.workers()).toEqual([]);
    expect(hostsOf(server)).toEqual([]);
    expect((await api.run('infer', onGpu('1'))).view).toMatchObject({ start: 'cold' });
  });

  test('A resident app on GPUs is listed by gpus and apps while it is loaded', async () => {
    await api.run('infer', onGpu('1'));
    expect(await api.json('/available_devices')).toMatchObject({ devices_loaded: [[], ['resident'], []] });
    expect(await api.json('/repo_apps_list')).toEqual({ apps: ['resident', 'shell'], loaded: ['resident'] });
    await using cli = await Cli.create();
    const environment = { REMOTE_APP_SERVER: server.url };
    const { stdout } = await cli.run(['gpus'], environment);
    expect(stdout).toMatch(/^ID +GPU +MEMORY +USE +LOADED\n0 .* free +-\n1 .* free +resident\n/);
    const { gpus } = JSON.parse((await cli.run(['gpus', '--json'], environment)).stdout);
    expect(gpus[1]).toMatchObject({ id: 1, loaded: ['resident'] });
    expect(JSON.parse((await cli.run(['apps', '--json'], environment)).stdout).loaded).toEqual(['resident']);
  });

  test('A resident app on GPUs ends when the server is drained', async () => {
    await api.run('infer', onGpu('1'));
    expect(hostsOf(server)).not.toEqual([]);
    await api.fetch('/drain', { method: 'POST' });
    await noWorkerLeft(server);
    await api.fetch('/drain', { method: 'DELETE' });
    expect((await api.run('infer', onGpu('1'))).view).toMatchObject({ status: 'done', start: 'cold' });
  });

  test('A resident app on two GPUs is a separate worker, which takes both', async () => {
    await api.run('infer', onGpu('1'));
    expect((await api.run('infer', onGpu('1,2'))).view).toMatchObject({ status: 'done', start: 'cold' });
    expect((await api.run('infer', onGpu('1,2'))).view).toMatchObject({ status: 'done', start: 'warm' });
    await until('the first one is gone', () => hostsOf(server).length === 1);
  });
});

test('A worker belongs to one owner: two people never share a process', async () => {
  await using tokens = new TestTokens();
  for (const name of ['ada', 'eva']) tokens.create(name);
  await using server = await TestServer.start({
    runners: true,
    apps: [apps.resident],
    app: 'resident',
    gpus: 2,
    flags: ['--tokens', tokens.file],
    token: 'admin',
  });
  const [ada, eva] = [tokens.api(server, 'ada', 'resident'), tokens.api(server, 'eva', 'resident')];
  const first = await ada.run('infer', onGpu('0'));
  expect(await ada.json('/repo_apps_list')).toMatchObject({ loaded: ['resident'] });
  expect(await eva.json('/repo_apps_list')).not.toHaveProperty('loaded');
  expect(await server.api.json('/repo_apps_list')).toMatchObject({ loaded: ['resident'] });
  const other = await eva.run('infer', onGpu('0'));
  expect(other.view).toMatchObject({ status: 'done', start: 'cold' });
  expect((await workerState(eva, other.id)).pid).not.toBe((await workerState(ada, first.id)).pid);
  const again = await server.api.run('infer', onGpu('0'));
  expect(again.view).toMatchObject({ status: 'done', start: 'cold' });
  expect((await server.api.run('infer', onGpu('0'))).view.start).toBe('warm');
});
