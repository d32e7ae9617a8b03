import {
  appendFileSync,
  cpSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { AppView } from '../../../src/contract/app-manifest.js';
import { AppVersions } from '../../../src/server/apps/app-version.js';
import { least, steps } from '../../support/form.js';
import { apps, TestServer } from '../../support/server.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';

const root = await temporary();
afterAll(() => root[Symbol.asyncDispose]());

let copies = 0;

/** A copy of the probe that the test may change. */
function copy(name = `app-${copies}`): string {
  copies += 1;
  const directory = path.join(root.path, `place-${copies}`, name);
  cpSync(apps.probe, directory, { recursive: true });
  return directory;
}

/** The version of an app that a server serves. */
async function versionOf({ api }: TestServer, app: string): Promise<string | null | undefined> {
  const view = await api.json<AppView>(`/repo_apps/${app}`);
  return view.available ? view.version : undefined;
}

const sha256 = /^sha256:[0-9a-f]{64}$/;

/** Bytes that this process, which the server runs in, has read so far, from files and sockets. */
const bytesRead = () => Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);

test('The version of an app changes exactly when something that a job can read changes', async () => {
  const directory = copy('app');
  const same = copy('same');
  await using server = await TestServer.start({ runners: true, apps: [directory, same], app: 'app' });
  const first = await versionOf(server, 'app');
  expect(first).toMatch(sha256);
  expect(await versionOf(server, 'same')).toBe(first);

  const weights = path.join(directory, 'CV_0.pt');
  utimesSync(weights, 1e9, 1e9);
  await plant(directory, {
    '__pycache__/main.pyc': 'x',
    '.git/index': 'x',
    'node_modules/zod/index.js': 'x',
    '.venv/pyvenv.cfg': 'home = /usr/bin',
    '.venv/lib/site.py': 'x',
    'empty/': '',
  });
  expect(await versionOf(server, 'app')).toBe(first);

  const seen = [first];
  const isNew = async () => {
    const version = await versionOf(server, 'app');
    expect(version).toMatch(sha256);
    expect(seen).not.toContain(version);
    seen.push(version);
  };
  appendFileSync(weights, 'changed');
  await isNew();
  writeFileSync(path.join(directory, '.settings'), 'hidden');
  await isNew();
  // The content moves to another name.
  rmSync(path.join(directory, '.settings'));
  writeFileSync(path.join(directory, 'settings'), 'hidden');
  await isNew();
  // Weights on another disk.
  const elsewhere = path.join(root.path, 'weights.pt');
  writeFileSync(elsewhere, 'far');
  symlinkSync(elsewhere, path.join(directory, 'far.pt'));
  await isNew();
  writeFileSync(elsewhere, 'newer');
  await isNew();
  // Back to what it was, the version is that of then.
  for (const name of ['far.pt', 'settings']) rmSync(path.join(directory, name));
  cpSync(path.join(apps.probe, 'CV_0.pt'), weights);
  expect(await versionOf(server, 'app')).toBe(first);
});

test('A known version is returned again without reading a file', async () => {
  const directory = copy('app');
  const size = 64 * 1024 ** 2;
  truncateSync(path.join(directory, 'CV_0.pt'), size);
  await using server = await TestServer.start({ apps: [directory], app: 'app' });
  const before = bytesRead();
  const version = await until('the version is known', () => versionOf(server, 'app'));
  const between = bytesRead();
  expect(between - before).toBeGreaterThan(size);
  for (let time = 0; time < 5; time += 1) expect(await versionOf(server, 'app')).toBe(version);
  expect(bytesRead() - between).toBeLessThan(size / 16);

  // One other file is new, and only that one is read.
  writeFileSync(path.join(directory, 'notes.txt'), 'small');
  expect(await versionOf(server, 'app')).not.toBe(version);
  expect(bytesRead() - between).toBeLessThan(size / 16);
});

test('A job has the version of its app, and none if the app changed while it ran', async () => {
  const directory = copy('app');
  await using server = await TestServer.start({
    apps: [directory],
    app: 'app',
    flags: ['--cpu-slots', '1'],
  });
  const { api } = server;
  const [gate, nextGate] = [server.gate(), server.gate()];
  const until = (gate: { path: string }) => ({ ...least.infer, ...steps('print=x', `wait=${gate.path}`) });
  const id = await api.running('infer', until(gate), 'x');
  const { job_id: next } = await api.accepted('infer', until(nextGate));
  const first = await versionOf(server, 'app');
  expect(first).toMatch(sha256);
  await server.stop();
  await server.start();
  expect((await api.job(next)).version).toBeNull();
  gate.open();
  expect((await api.ended(id)).view).toMatchObject({ status: 'done', version: first });

  await using log = await api.follow(next);
  await log.until('x');
  expect((await api.job(next)).version).toBe(first);
  appendFileSync(path.join(directory, 'CV_0.pt'), 'changed');
  nextGate.open();
  expect((await api.ended(next)).view).toMatchObject({ status: 'done', version: null });
  const { id: last, view } = await api.run('infer', least.infer);
  expect(view.version).toBe(await versionOf(server, 'app'));
  expect(view.version).not.toBe(first);
  await server.stop();
  await server.start();
  expect([(await api.job(next)).version, (await api.job(last)).version]).toEqual([null, view.version]);
});

test('An app that is too large has no version, and still runs', async () => {
  const directory = copy('app');
  truncateSync(path.join(directory, 'CV_0.pt'), 300 * 1024 ** 3);
  // What an author calls the version is no digest.
  const manifest = path.join(directory, 'app.json');
  const ofAuthor = { ...JSON.parse(readFileSync(manifest, 'utf8')), version: '1.0' };
  writeFileSync(manifest, JSON.stringify(ofAuthor));
  await using server = await TestServer.start({ runners: true, apps: [directory], app: 'app' });
  expect(await server.api.json('/repo_apps/app')).not.toHaveProperty('version');
  expect((await server.api.run('infer', least.infer)).view).toMatchObject({ status: 'done', version: null });
});

test('An app that changes while it is read gets its version at the next attempt', async () => {
  const directory = copy();
  const weights = path.join(directory, 'CV_0.pt');
  truncateSync(weights, 8 * 1024 ** 2);
  const versions = new AppVersions();
  const asked = await versions.of(directory);
  appendFileSync(weights, 'more');
  expect(await asked?.known).toBeNull();
  const again = await versions.of(directory);
  const version = await again?.known;
  expect(version).toMatch(sha256);
  // Files that belong together are read once, however many ask at once.
  const [one, other] = await Promise.all([versions.of(directory), versions.of(directory)]);
  expect([await one?.known, await other?.known]).toEqual([version, version]);
});

test('An unreadable file does not prevent a version', async () => {
  const directory = copy();
  const versions = new AppVersions();
  const before = await (await versions.of(directory))?.known;
  // Not even root may read this one.
  symlinkSync('/proc/sys/vm/compact_memory', path.join(directory, 'closed'));
  const version = await (await versions.of(directory))?.known;
  expect(version).toMatch(sha256);
  expect(version).not.toBe(before);
});

test('Circular and dangling links do not prevent a version', async () => {
  const directory = copy();
  const versions = new AppVersions();
  const version = await (await versions.of(directory))?.known;
  symlinkSync('nowhere', path.join(directory, 'broken'));
  expect(await (await versions.of(directory))?.known).toBe(version);
  symlinkSync('.', path.join(directory, 'circle'));
  expect(await (await versions.of(directory))?.known).toBe(version);
});
