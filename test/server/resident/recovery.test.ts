import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { apps, sharedServer, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import { doing, hostsOf, noWorkerLeft, workerState } from './support.js';

const options = { apps: [apps.resident], app: 'resident' } as const;

/** A server that can be killed. */
const killable = (flags: readonly string[] = []) => TestServer.start({ ...options, ownProcess: true, flags });

/** A server that leaves its running jobs to the next one when it stops. */
const keeping = (flags: readonly string[] = []) =>
  TestServer.start({ ...options, runners: true, flags: ['--on-exit', 'keep', ...flags] });

/** Starts a job that ends while there is no server, and resolves when it has ended. */
async function endedWithoutServer(server: TestServer): Promise<string> {
  const gate = server.gate();
  const id = await server.api.running('infer', doing(`wait:${gate.path}`), /^job /);
  await server.stop();
  gate.open();
  await until('it ends', () =>
    readFileSync(path.join(server.jobDirectory(id), 'log'), 'utf8').includes(' ends\n'),
  );
  return id;
}

/** The process of the only worker host of a server. */
function hostOf(server: TestServer): number {
  const [name = ''] = hostsOf(server);
  const file = path.join(server.dataDirectory, 'workers', name, 'host.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { host: { pid: number } }).host.pid;
}

test('A server that was killed leaves its workers to the next one, with and without a job', async () => {
  await using server = await killable();
  const { api } = server;
  const gate = server.gate();
  const held = await api.running('infer', doing(`wait:${gate.path}`), /^job /);
  const first = await api.run('infer', doing());
  await server.crash();
  await server.start();
  expect(await api.job(held)).toMatchObject({ status: 'running', start: 'cold' });
  const second = await api.run('infer', doing());
  expect(second.view).toMatchObject({ status: 'done', start: 'warm' });
  const { pid } = await workerState(api, first.id);
  expect(await workerState(api, second.id)).toMatchObject({ jobs: 2, pid });
  gate.open();
  const { view, log } = await api.ended(held);
  expect(view.status).toBe('done');
  expect(log.match(/^data: job /gm)).toHaveLength(2);
  // Both take the next ones.
  const next = await Promise.all([api.run('infer', doing()), api.run('infer', doing())]);
  expect(next.map((each) => each.view.start)).toEqual(['warm', 'warm']);
});

test('A job that ends while no server is running is done for the next server', async () => {
  await using server = await keeping();
  const id = await endedWithoutServer(server);
  await server.start();
  expect((await server.api.ended(id)).view).toMatchObject({ status: 'done', start: 'cold' });
});

test('Without a server a worker ends after its idle time', async () => {
  await using server = await killable(['--resident-idle', '2s']);
  await server.api.run('infer', doing());
  await server.crash();
  await noWorkerLeft(server);
});

test('A server without resident apps ends the workers of the previous one', async () => {
  await using server = await keeping();
  await endedWithoutServer(server);
  expect(hostsOf(server)).toHaveLength(1);
  await server.start(['--resident-idle', '0']);
  await noWorkerLeft(server);
});

test('The next server cleans up a worker host that was killed while no server was running', async () => {
  await using server = await keeping();
  const id = await server.api.running('infer', doing('ignore'), /^job /);
  await server.stop();
  process.kill(hostOf(server), 'SIGKILL');
  await server.start();
  expect((await server.api.ended(id)).view.status).toBe('error');
  await noWorkerLeft(server);
});

test('A server that stops and keeps its jobs keeps only the worker of a running job', async () => {
  await using server = await keeping();
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

describe('resident apps beside a running server', () => {
  const server = sharedServer({ ...options, runners: true });
  const { api } = server;

  test('A worker host that is killed takes its worker with it, and the job ends with a sentence', async () => {
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

  test('A job whose worker is gone when it starts reports a cold start', async () => {
    await api.run('infer', doing());
    await until('only its worker host is there', () => hostsOf(server).length === 1);
    process.kill(hostOf(server), 'SIGKILL');
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  });

  test('A suspended worker host resumes when it gets a job or the job is killed', async () => {
    await api.run('infer', doing());
    process.kill(hostOf(server), 'SIGSTOP');
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'warm' });
    const id = await api.running('infer', doing('hang'), /^job /);
    process.kill(hostOf(server), 'SIGSTOP');
    expect(await api.kill(id)).toMatchObject({ status: 'killed' });
    await noWorkerLeft(server);
  });

  test('A runner that is killed takes the worker of its job with it', async () => {
    const id = await api.running('infer', doing('ignore'), /^job /);
    const record = JSON.parse(readFileSync(path.join(server.jobDirectory(id), 'runner.json'), 'utf8'));
    process.kill(record.runner.pid, 'SIGKILL');
    expect((await api.ended(id)).view.status).toBe('error');
    await noWorkerLeft(server);
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  });

  test('A worker host that is asked to exit does so at once if idle, and otherwise after its current job', async () => {
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
});
