import { afterAll, beforeAll, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { FakeHub } from '../support/fake-hub.js';
import { fakeService } from '../support/fake-service.js';
import { manifest } from '../support/hub-app.js';
import { TestServer } from '../support/server.js';

const id = 'lab/app:X';
let hub: FakeHub;
let cli: Cli;
beforeAll(async () => {
  hub = await FakeHub.start();
  cli = await Cli.create();
});
afterAll(async () => {
  await hub[Symbol.asyncDispose]();
  await cli[Symbol.asyncDispose]();
});

test('apps --refresh makes the server look for new commits, and shows what it found', async () => {
  const first = hub.commit('lab/app', { 'X/app.json': manifest({ display_name: 'First' }) });
  await using server = await TestServer.start({
    apps: [id, 'lab/none:X'],
    environment: { HF_HUB_OFFLINE: '', HF_ENDPOINT: hub.url },
  });
  const env = { REMOTE_APP_SERVER: server.url };
  const none = `lab/none:X: not available: ${hub.url} shows this server no repository 'lab/none' (401): if it is private or gated, set HF_TOKEN to a token that may read it\n`;
  expect(await cli.run(['apps', '--refresh'], env)).toMatchObject({
    code: 0,
    stdout: `${id}: available at commit ${first.slice(0, 12)}\n${none}`,
    stderr: '',
  });
  const second = hub.commit('lab/app', { 'X/app.json': manifest({ display_name: 'Second' }) });
  const shown = await cli.run(['apps', id, '--refresh'], env);
  expect(shown.stdout).toMatch(/^Name +Second$/m);
  expect(shown.stdout).toMatch(
    new RegExp(`^Repository +lab/app, main, at commit ${second.slice(0, 12)}$`, 'm'),
  );
  const missing = await cli.run(['apps', 'lab/none:X'], env);
  expect(missing.stdout).toContain('lab/none:X is not available: http');
  hub.fail(() => ({ status: 503 }));
  const stale = await cli.run(['apps', id, '--refresh'], env);
  hub.fail(() => null);
  expect(stale.stdout).toMatch(/^Name +Second$/m);
  expect(stale.stdout).toMatch(/^Not updated +http\S+ answered 503/m);
});

test('A server without repositories says so, and one that cannot refresh fails with advice', async () => {
  await using server = await TestServer.start();
  expect(await cli.run(['apps', '--refresh'], { REMOTE_APP_SERVER: server.url })).toMatchObject({
    code: 0,
    stdout: '',
    stderr: `No app of ${server.url} comes from a repository\n`,
  });
  await using theirs = await fakeService({});
  expect(await cli.run(['apps', '--refresh'], { REMOTE_APP_SERVER: theirs.url })).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/cannot refresh its apps.*restart it instead/),
  });
});
