import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { least } from '../support/form.js';
import { apps, TestServer } from '../support/server.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const idsOf = async (server: TestServer): Promise<unknown> => (await server.api.json('/repo_apps_list')).apps;

/** Waits until the server has these apps. */
const serves = (server: TestServer, ...ids: string[]) =>
  until(`it serves ${ids}`, async () => JSON.stringify(await idsOf(server)) === JSON.stringify(ids));

test('An app that is added to a served directory is discovered automatically, and a removed one disappears', async () => {
  await using root = await temporary();
  const shelf = path.join(root.path, 'shelf');
  cpSync(apps.probe, path.join(shelf, 'probe'), { recursive: true });
  await using server = await TestServer.start({ runners: true, apps: [shelf] });
  expect(await idsOf(server)).toEqual(['probe']);
  cpSync(apps.shell, path.join(shelf, 'shell'), { recursive: true });
  await serves(server, 'probe', 'shell');
  expect((await server.api.submit('infer', least.infer, { app: 'shell' })).status).toBe(200);
  cpSync(apps.broken, path.join(shelf, 'broken'), { recursive: true });
  await serves(server, 'broken', 'probe', 'shell');
  await until('it says what is wrong', () => server.stderr.includes("WARNING: app 'broken' cannot be run"));
  rmSync(path.join(shelf, 'broken'), { recursive: true });
  await serves(server, 'probe', 'shell');
  // Everything gone, as on a disk that is not mounted for a moment: the apps stay.
  renameSync(shelf, `${shelf}-away`);
  await until(
    'it is said',
    async () => (await idsOf(server)) && server.stderr.includes('could not be looked at'),
  );
  expect(await idsOf(server)).toEqual(['probe', 'shell']);
  renameSync(`${shelf}-away`, shelf);
  expect(server.stderr).toMatch(/^\S+Z Served from now on: shell$/m);
  expect(server.stderr).toMatch(/^\S+Z No longer served: broken$/m);
});

test('A queued job whose app is gone when its turn comes fails with one sentence', async () => {
  await using root = await temporary();
  const list = path.join(root.path, 'apps.json');
  const shelf = path.join(root.path, 'shelf');
  cpSync(apps.probe, path.join(shelf, 'torn'), { recursive: true });
  const write = (...entries: unknown[]) => writeFileSync(list, JSON.stringify({ apps: entries }));
  const kept = { name: 'probe', source: apps.probe };
  const torn = { name: 'torn', source: path.join(shelf, 'torn') };
  write(kept, torn, { name: 'gone', source: apps.probe });
  await using server = await TestServer.start({ runners: true, apps: [list], flags: ['--cpu-slots', '1'] });
  const { api } = server;
  const { gate } = await server.heldJob();
  const queued = await Promise.all(
    ['gone', 'torn'].map(async (app) => (await api.accepted('infer', least.infer, { app })).job_id),
  );
  write(kept, torn);
  server.reload();
  await serves(server, 'probe', 'torn');
  writeFileSync(path.join(shelf, 'torn', 'app.json'), '{');
  gate.open();
  const [gone = '', broken = ''] = queued;
  const sentence = "App 'gone' is no longer on this server's allowlist";
  expect((await api.reaches(gone, 'error')).error).toBe(sentence);
  expect((await api.reaches(broken, 'error')).error).toMatch(/^app\.json of this app /);
  expect(server.stderr).toMatch(new RegExp(`^\\S+Z Job ${gone} failed: ${sentence}$`, 'm'));
  expect(server.stderr).toMatch(new RegExp(`^\\S+Z Job ${broken} failed: app\\.json of this app .*$`, 'm'));
  expect(server.stderr).not.toMatch(/^\s+at /m);
});

test('SIGHUP reloads the list of apps, and affects no job', async () => {
  await using root = await temporary();
  mkdirSync(path.join(root.path, 'x'));
  const list = path.join(root.path, 'apps.json');
  const write = (...entries: unknown[]) => writeFileSync(list, JSON.stringify({ apps: entries }));
  const probe = { name: 'probe', source: apps.probe };
  const second = { name: 'second', source: apps.shell };
  write(probe);
  await using server = await TestServer.start({ ownProcess: true, apps: [list] });
  const { id, gate } = await server.heldJob();

  write(probe, second);
  expect(await idsOf(server)).toEqual(['probe']);
  server.signal('SIGHUP');
  await serves(server, 'probe', 'second');
  const said = /^\S+Z SIGHUP: reloaded: 2 apps\. The jobs go on\.$/m;
  await until('it is said', () => said.test(server.stderr));

  writeFileSync(list, '{');
  server.signal('SIGHUP');
  await until('it is said', () => server.stderr.includes('SIGHUP: the apps stay as they were: --apps '));
  expect(await idsOf(server)).toEqual(['probe', 'second']);

  write(second);
  server.signal('SIGHUP');
  await serves(server, 'second');
  expect((await server.api.refused('infer', least.infer))[0]).toBe(404);
  gate.open();
  expect((await server.api.ended(id)).view.status).toBe('done');
});
