import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { apps, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import { doing, hostsOf, noWorkerLeft, workerState } from './support.js';

const started = (flags: readonly string[] = []) =>
  TestServer.start({ ownProcess: true, apps: [apps.resident], app: 'resident', flags });

/** The process of the only worker host of a server. */
function hostOf(server: TestServer): number {
  const [name = ''] = hostsOf(server);
  const file = path.join(server.dataDirectory, 'workers', name, 'host.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { host: { pid: number } }).host.pid;
}

test('a server that was killed leaves its workers to the next one', async () => {
  await using server = await started();
  const { api } = server;
  const first = await api.run('infer', doing());
  await server.crash();
  await server.start();
  const second = await api.run('infer', doing());
  expect(second.view).toMatchObject({ status: 'done', start: 'warm' });
  expect((await workerState(api, second.id)).pid).toBe((await workerState(api, first.id)).pid);
});

test('a server that was killed finds a job in a worker again, and the worker after it', async () => {
  await using server = await started();
  const { api } = server;
  await api.run('infer', doing());
  const gate = server.gate();
  const id = await api.running('infer', doing(`wait:${gate.path}`), /^job /);
  await server.crash();
  await server.start();
  expect(await api.job(id)).toMatchObject({ status: 'running', start: 'warm' });
  gate.open();
  const { view, log } = await api.ended(id);
  expect(view.status).toBe('done');
  expect(log.match(/^data: job /gm)).toHaveLength(2);
  expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'warm' });
});

test('a job that ends while there is no server is done for the next one', async () => {
  await using server = await started();
  const { api } = server;
  const gate = server.gate();
  const id = await api.running('infer', doing(`wait:${gate.path}`), /^job /);
  await server.crash();
  gate.open();
  await until('it ends', () =>
    readFileSync(path.join(server.jobDirectory(id), 'log'), 'utf8').includes(' ends\n'),
  );
  await server.start();
  expect((await api.ended(id)).view).toMatchObject({ status: 'done', start: 'cold' });
});

test('without a server a worker leaves after its time', async () => {
  await using server = await started(['--resident-idle', '2s']);
  await server.api.run('infer', doing());
  await server.crash();
  await noWorkerLeft(server);
});

test('a server that wants no workers ends those of the one before', async () => {
  await using server = await started();
  await server.api.run('infer', doing());
  await server.crash();
  await server.start(['--resident-idle', '0']);
  await noWorkerLeft(server);
});

test('a worker host that is killed takes its worker with it, and the job ends with a sentence', async () => {
  await using server = await started();
  const { api } = server;
  const id = await api.running('infer', doing('ignore'), /^job /);
  process.kill(hostOf(server), 'SIGKILL');
  const { view } = await api.ended(id);
  expect(view).toMatchObject({
    status: 'error',
    error: 'The process that keeps the app loaded was killed; the app was ended with it',
  });
  await noWorkerLeft(server);
  const idle = await api.run('infer', doing());
  expect(idle.view).toMatchObject({ status: 'done', start: 'cold' });
  process.kill(hostOf(server), 'SIGKILL');
  await noWorkerLeft(server);
});

test('a job whose worker is gone by the time that it starts is not said to have found it', async () => {
  await using server = await started();
  const { api } = server;
  for (let count = 0; count < 5; count += 1) {
    await api.run('infer', doing());
    await until('only its worker host is there', () => hostsOf(server).length === 1);
    process.kill(hostOf(server), 'SIGKILL');
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  }
});

test('a worker host that is stopped goes on when it is given a job, and when that is killed', async () => {
  await using server = await TestServer.start({ ownProcess: true, apps: [apps.resident], app: 'resident' });
  const { api } = server;
  await api.run('infer', doing());
  process.kill(hostOf(server), 'SIGSTOP');
  expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'warm' });
  const id = await api.running('infer', doing('hang'), /^job /);
  process.kill(hostOf(server), 'SIGSTOP');
  expect(await api.kill(id)).toMatchObject({ status: 'killed' });
  await noWorkerLeft(server);
});

test('a worker host that was killed while there was no server is cleared away by the next one', async () => {
  await using server = await started();
  const id = await server.api.running('infer', doing('ignore'), /^job /);
  await server.crash();
  process.kill(hostOf(server), 'SIGKILL');
  await server.start();
  expect((await server.api.ended(id)).view.status).toBe('error');
  await noWorkerLeft(server);
});

test('a runner that is killed takes the worker of its job with it', async () => {
  await using server = await started();
  const { api } = server;
  const id = await api.running('infer', doing('ignore'), /^job /);
  const record = JSON.parse(readFileSync(path.join(server.jobDirectory(id), 'runner.json'), 'utf8'));
  process.kill(record.runner.pid, 'SIGKILL');
  expect((await api.ended(id)).view.status).toBe('error');
  await noWorkerLeft(server);
  expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
});

test('a server that stops and keeps its jobs leaves the worker of a running one, and no other', async () => {
  await using server = await started(['--on-exit', 'keep']);
  const { api } = server;
  const gate = server.gate();
  const id = await api.running('infer', doing(`wait:${gate.path}`), /^job /);
  await api.run('infer', doing());
  expect(hostsOf(server)).toHaveLength(2);
  expect(await server.stop()).toBe(0);
  expect(hostsOf(server)).toHaveLength(1);
  await server.start();
  gate.open();
  expect((await api.ended(id)).view.status).toBe('done');
});

test('a worker host that is asked to end does so at once without a job, and after the one that it has', async () => {
  await using server = await started();
  const { api } = server;
  await api.run('infer', doing());
  process.kill(hostOf(server), 'SIGTERM');
  await noWorkerLeft(server);
  const gate = server.gate();
  const id = await api.running('infer', doing(`wait:${gate.path}`), /^job /);
  const host = hostOf(server);
  process.kill(host, 'SIGTERM');
  // It is asked a second time while it waits for the job, which changes nothing.
  process.kill(host, 'SIGTERM');
  gate.open();
  expect((await api.ended(id)).view).toMatchObject({ status: 'done', start: 'cold' });
  await noWorkerLeft(server);
  expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
});
