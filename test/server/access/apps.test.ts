import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { withApps } from '../../../src/access/change-tokens.js';
import { least, steps } from '../../support/form.js';
import { fieldPart, filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { apps, sharedServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { TestTokens } from '../../support/tokens.js';
import { until } from '../../support/until.mjs';

const tokens = new TestTokens();
tokens.create('ana', { apps: ['probe', 'elsewhere'] });
tokens.create('bob');
tokens.create('root', { role: 'admin', apps: ['shell'] });
afterAll(() => tokens[Symbol.asyncDispose]());

const logs = await temporary();
afterAll(() => logs[Symbol.asyncDispose]());
const auditLog = path.join(logs.path, 'audit.jsonl');
const server = sharedServer({
  apps: [apps.probe, apps.shell],
  flags: ['--tokens', tokens.file, '--audit-log', auditLog],
});
const api = (name: string, app?: string) => tokens.api(server, name, app);

test('A token restricted to certain apps sees and runs only these', async () => {
  const ana = api('ana');
  expect(await ana.json('/repo_apps_list')).toEqual({ apps: ['probe'] });
  expect(await api('bob').json('/repo_apps_list')).toEqual({ apps: ['probe', 'shell'] });
  expect(await api('root').json('/repo_apps_list')).toEqual({ apps: ['shell'] });
  expect((await ana.run('infer', least.infer)).view.status).toBe('done');
  expect(await api('ana', 'shell').refused('infer', least.infer)).toEqual([
    404,
    "Unknown app 'shell'; this token has 'probe', 'elsewhere'",
  ]);
});

test('An app that a token does not have is as unknown on every route as one that does not exist', async () => {
  const routes = ['infer', 'evaluate', 'uncertainty', 'pipeline', 'fine_tune'].map(
    (operation) => ['POST', (app: string) => `/apps/${app}/${operation}`] as const,
  );
  const all = [
    ...routes,
    ['GET', (app: string) => `/repo_apps/${app}`] as const,
    ['GET', (app: string) => `/repo_apps_config/${app}`] as const,
  ];
  for (const [method, address] of all) {
    const told = await Promise.all(
      ['shell', 'nosuch'].map(async (app) => {
        const response = await api('ana').fetch(address(app), { method });
        return [response.status, (await response.text()).replace(app, 'APP')];
      }),
    );
    expect(told[0]).toEqual([404, `{"detail":"Unknown app 'APP'; this token has 'probe', 'elsewhere'"}`]);
    expect(told[1]).toEqual(told[0]);
  }
});

test('An app that is withdrawn during an upload gets no job, and its running jobs continue', async () => {
  const token = tokens.create('cem', { apps: ['probe'] });
  const cem = api('cem');
  const gate = server.gate();
  const running = await cem.running('infer', {
    ...least.infer,
    ...steps('print=begins', `wait=${gate.path}`),
  });
  const body = multipart([filePart('inputs', 'ct.nii', 'a'), fieldPart('cpu', '1')]);
  await using connection = await RawConnection.open(server.url);
  const head = submissionHead(
    '/apps/probe/infer',
    `Content-Length: ${body.length}\r\nAuthorization: Bearer ${token}`,
  );
  connection.write(head);
  connection.write(body.subarray(0, -10));
  await until('it arrives', () => server.jobDirectories().length > 1);
  tokens.edit((before) => withApps(before, 'cem', ['shell']));
  await until('it counts', async () => (await cem.fetch('/repo_apps/probe')).status === 404);
  connection.write(body.subarray(-10));
  const { status, body: answer } = await connection.answer();
  expect([status, answer]).toEqual([404, `{"detail":"Unknown app 'probe'; this token has 'shell'"}`]);
  gate.open();
  expect((await cem.ended(running)).view).toMatchObject({ status: 'done', app: 'probe' });
  const changes = readFileSync(auditLog, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(changes).toContainEqual(
    expect.objectContaining({ event: 'token', change: 'changed', token: 'cem', apps: ['shell'] }),
  );
});
