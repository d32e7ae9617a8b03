import { describe, expect, test } from 'vitest';
import { apps, sharedServer, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import { doing, hostsOf, noWorkerLeft, ownApp, workerState } from './support.js';

const against = (what: string) => `The app ${what}, against the protocol of resident apps, and was ended`;

describe('a resident app that misbehaves', () => {
  const server = sharedServer({ runners: true, apps: [apps.resident], app: 'resident' });
  const { api } = server;

  test('A resident app that ends or breaks the protocol in the middle of a job fails that job', async () => {
    let { pid: before } = await workerState(api, (await api.run('infer', doing())).id);
    for (const [deed, error] of [
      ['die', 'The command was killed, and not by this service: the server may have run out of memory'],
      ['leave', 'The app ended without an answer (exit code 0)'],
      ['garbage', against('answered with a line that is not JSON')],
      ['other', against('answered for a job that it does not have')],
      ['ready-again', against('said that it is ready a second time')],
      ['mute', against('closed its answer pipe')],
    ] as const) {
      const { view, log } = await api.run('infer', doing(deed));
      expect
        .soft(view, deed)
        .toMatchObject({ status: 'error', error: expect.stringContaining(error), start: 'warm' });
      expect.soft(log).toContain(`data: __ERROR__ ${error}`);
      const next = await api.run('infer', doing());
      expect.soft(next.view, deed).toMatchObject({ status: 'done', start: 'cold' });
      const { pid } = await workerState(api, next.id);
      expect.soft(pid, deed).not.toBe(before);
      before = pid;
      await until('the old one is gone', () => hostsOf(server).length === 1);
    }
  });

  test('A job of a resident app whose program was killed is out of memory', async () => {
    const { view } = await api.run('infer', doing('killed'));
    expect(view).toMatchObject({ kind: 'out-of-memory', error: expect.stringContaining('was killed') });
  });

  test('When a resident app answers twice, the first answer counts', async () => {
    const { id, view } = await api.run('infer', doing('twice'));
    expect(view).toMatchObject({ status: 'done' });
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
    expect((await api.job(id)).status).toBe('done');
  });

  test('When a resident app begins a second answer, the first counts, and the next job gets none of it', async () => {
    await api.run('infer', doing());
    expect((await api.run('infer', doing('leftover'))).view).toMatchObject({ status: 'done', start: 'warm' });
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  });

  test('A resident app that begins an answer without a job is ended', async () => {
    const gate = server.gate();
    const { view } = await api.run('infer', doing(`later:${gate.path}`));
    expect(view).toMatchObject({ status: 'done' });
    gate.open();
    await noWorkerLeft(server);
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  });

  test.each(['child', 'hidden'])(
    'A resident app that leaves a process behind (%s) ends along with it',
    async (deed) => {
      await api.run('infer', doing());
      const { view, log } = await api.run('infer', doing(deed));
      expect(view).toMatchObject({ status: 'done', start: 'warm' });
      expect(log).toContain(
        'The app left a process running: it was stopped, and is loaded again for the next job\n',
      );
      expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
      await until('one is left', () => server.workers().length === 1);
    },
  );

  test('Killing a job ends a resident app that ignores SIGTERM after the grace period', async () => {
    await api.run('infer', doing());
    const id = await api.running('infer', doing('ignore'), /^job /);
    const start = performance.now();
    expect(await api.kill(id)).toMatchObject({ status: 'killed' });
    const took = performance.now() - start;
    expect(took).toBeGreaterThan(2900);
    expect(took).toBeLessThan(15_000);
    expect((await api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  });

  test('A kill or a time limit immediately ends a resident app that hangs', async () => {
    await api.run('infer', doing());
    const id = await api.running('infer', doing('hang'), /^job /);
    expect(await api.kill(id)).toMatchObject({ status: 'killed' });
    await noWorkerLeft(server);
    const { view } = await api.run('infer', doing('hang', { time_limit: '1s' }));
    expect(view).toMatchObject({ status: 'error', error: 'Ended at its time limit: it may run for 1s' });
    await noWorkerLeft(server);
  });
});

describe('a resident app that cannot be loaded', () => {
  test.each([
    ['exit 5', 'Subprocess failed (exit code 5)'],
    ['exit 0', 'The app ended before it was ready (exit code 0)'],
    ['early', against('answered for a job that it does not have')],
  ])('A resident app that cannot be loaded fails the job that needs it: %s', async (load, error) => {
    await using own = await ownApp(load);
    await using server = await TestServer.start({ runners: true, apps: [own.app], app: 'resident' });
    const { view, log } = await server.api.run('infer', doing());
    expect(view).toMatchObject({ status: 'error', error, start: 'cold' });
    expect(log).toContain('data: loading\n');
    await noWorkerLeft(server);
  });

  test('A resident app can be killed while it loads, and keeps the processes that it started before its first job', async () => {
    await using own = await ownApp('never');
    await using server = await TestServer.start({ runners: true, apps: [own.app], app: 'resident' });
    const id = await server.api.running('infer', doing(), 'loading');
    expect(await server.api.kill(id)).toMatchObject({ status: 'killed' });
    await noWorkerLeft(server);
  });

  test('A resident app may have permanent processes of its own', async () => {
    await using own = await ownApp('child');
    await using server = await TestServer.start({ runners: true, apps: [own.app], app: 'resident' });
    await server.api.run('infer', doing());
    expect((await server.api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'warm' });
    expect(await server.stop()).toBe(0);
    await noWorkerLeft(server);
  });
});
