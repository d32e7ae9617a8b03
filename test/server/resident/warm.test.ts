import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { sandbox } from '../../support/sandbox.js';
import { apps, sharedServer, TestServer } from '../../support/server.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { doing, hostsOf, noWorkerLeft, ownApp, ownLines, workerState } from './support.js';

describe('a resident app', () => {
  const server = sharedServer({ runners: true, apps: [apps.resident], app: 'resident' });
  const { api } = server;

  test('A resident app is loaded for its first job, and stays for the next ones', async () => {
    const first = await api.run('infer', doing());
    const second = await api.run('infer', doing());
    expect(first.view).toMatchObject({ status: 'done', start: 'cold' });
    expect(second.view).toMatchObject({ status: 'done', start: 'warm' });
    const [one, two] = [await workerState(api, first.id), await workerState(api, second.id)];
    expect(two.pid).toBe(one.pid);
    expect([one.jobs, two.jobs]).toEqual([1, 2]);
    // Each job has its own environment, working directory and log.
    expect([one.marker, two.marker]).toEqual([first.id, second.id]);
    expect(first.log).toContain('Starting infer on the CPU, loading the app; it stays loaded\n');
    expect(second.log).toContain('Starting infer on the CPU, the app is loaded already\n');
    const lines = (jobs: number, id: string) => [`job ${jobs} of ${one.pid} in ${id}`, `job ${jobs} ends`];
    expect(ownLines(first.log)).toEqual(['loading', 'loaded', ...lines(1, first.id), '__DONE__']);
    expect(ownLines(second.log)).toEqual([...lines(2, second.id), '__DONE__']);
    expect(await api.json(`/jobs/${second.id}`)).toMatchObject({ start: 'warm' });
  });

  test('A resident app stays loaded after a job that fails, which reports its exit code', async () => {
    const { view, id } = await api.run('infer', doing('fail'));
    expect(view).toMatchObject({ status: 'error', error: 'Subprocess failed (exit code 3)', start: 'warm' });
    expect(existsSync(path.join(server.jobDirectory(id), 'exit.json'))).toBe(true);
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'warm' });
  });

  test('A resident app is loaded a second time for a simultaneous second job', async () => {
    const gate = server.gate();
    const held = await api.running('infer', doing(`wait:${gate.path}`), /^job /);
    const { view } = await api.run('infer', doing());
    expect(view).toMatchObject({ status: 'done', start: 'cold' });
    gate.open();
    expect((await api.ended(held)).view).toMatchObject({ status: 'done', start: 'warm' });
  });

  test('A resident app is loaded separately for another number of CPUs', async () => {
    expect((await api.run('infer', doing('nothing', { cpu: '2' }))).view.start).toBe('cold');
    expect((await api.run('infer', doing('nothing', { cpu: '2' }))).view.start).toBe('warm');
  });
});

test('A resident app that is changed is loaded again', async () => {
  await using own = await ownApp();
  await using server = await TestServer.start({ runners: true, apps: [own.app], app: 'resident' });
  const { api } = server;
  const first = await api.run('infer', doing());
  writeFileSync(path.join(own.app, 'weights.pt'), 'new');
  const second = await api.run('infer', doing());
  expect(second.view).toMatchObject({ status: 'done', start: 'cold' });
  expect((await workerState(api, second.id)).pid).not.toBe((await workerState(api, first.id)).pid);
  await until('the old one is gone', () => hostsOf(server).length === 1);
  // Also while nobody submits a job.
  rmSync(path.join(own.app, 'weights.pt'));
  await noWorkerLeft(server);
});

test('A resident app ends after --resident-idle', async () => {
  await using server = await TestServer.start({
    runners: true,
    apps: [apps.resident],
    app: 'resident',
    flags: ['--resident-idle', '1s'],
  });
  const { id } = await server.api.run('infer', doing());
  expect((await workerState(server.api, id)).jobs).toBe(1);
  expect(hostsOf(server)).toHaveLength(1);
  await noWorkerLeft(server);
});

test('--resident-idle 0 starts a resident app for each job', async () => {
  await using server = await TestServer.start({
    runners: true,
    apps: [apps.resident],
    app: 'resident',
    flags: ['--resident-idle', '0'],
  });
  for (const _ of [1, 2]) {
    const { id, view, log } = await server.api.run('infer', doing());
    expect(view).toMatchObject({ status: 'done' });
    expect(view).toMatchObject({ start: null });
    expect((await workerState(server.api, id)).jobs).toBe(1);
    expect(log).toContain('Starting infer on the CPU\n');
  }
  expect(hostsOf(server)).toEqual([]);
});

test.each(sandbox ? ['off', 'bwrap'] : ['off'])(
  'One engine stays loaded for all apps (--sandbox %s)',
  async (kind) => {
    await using root = await temporary();
    const {
      command: _,
      resident: __,
      ...manifest
    } = JSON.parse(readFileSync(path.join(apps.resident, 'app.json'), 'utf8'));
    await plant(root.path, {
      'one/app.json': JSON.stringify(manifest),
      'two/app.json': JSON.stringify(manifest),
    });
    await using server = await TestServer.start({
      runners: true,
      apps: [path.join(root.path, 'one'), path.join(root.path, 'two')],
      flags: [
        ...['--engine', `node ${path.join(apps.resident, 'main.mjs')}`, '--engine-resident'],
        ...['--sandbox', kind],
      ],
    });
    const { api } = server;
    expect((await api.run('infer', doing(), { app: 'one' })).view).toMatchObject({
      status: 'done',
      start: 'cold',
    });
    expect(await api.json('/repo_apps_list')).toMatchObject({ loaded: ['one', 'two'] });
    const { view, id } = await api.run('infer', doing(`peek:${root.path}/two`), { app: 'two' });
    expect(view).toMatchObject({ status: 'done', start: 'warm' });
    expect((await workerState(api, id)).jobs).toBe(2);
  },
);

test('A data directory may have a path that is too long for a socket', async () => {
  await using root = await temporary();
  const dataDirectory = path.join(root.path, 'd'.repeat(120), 'data');
  await using server = await TestServer.start({
    runners: true,
    apps: [apps.resident],
    app: 'resident',
    dataDirectory,
    flags: ['--on-exit', 'keep'],
  });
  const gate = server.gate();
  const id = await server.api.running('infer', doing(`wait:${gate.path}`), /^job /);
  await server.restart();
  gate.open();
  expect((await server.api.ended(id)).view).toMatchObject({ status: 'done', start: 'cold' });
  expect((await server.api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'warm' });
});

test('A server that is asked to stop leaves no worker', async () => {
  await using server = await TestServer.start({ runners: true, apps: [apps.resident], app: 'resident' });
  await server.api.run('infer', doing());
  expect(server.workers()).not.toEqual([]);
  expect(await server.stop()).toBe(0);
  expect(server.workers()).toEqual([]);
  expect(hostsOf(server)).toEqual([]);
});
