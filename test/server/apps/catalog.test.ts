import { chmodSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { AllowedApps } from '../../../src/server/apps/allowlist.js';
import { AppCatalog } from '../../../src/server/apps/catalog.js';
import { hubSettings, Repositories } from '../../../src/server/hub/index.js';
import type { JobRequest } from '../../../src/server/jobs/index.js';
import { plantCache } from '../../support/hub-cache.js';
import { plant, temporary } from '../../support/temporary.js';

const root = await temporary();
afterAll(() => root[Symbol.asyncDispose]());
const at = (name: string) => path.join(root.path, name);

const manifest = { display_name: 'x', description: 'x', short_description: 'x', tta: 0, mc_dropout: 0 };
const app = (more: object = {}) => JSON.stringify({ ...manifest, ...more });
await plant(root.path, {
  'apps/own/app.json': app({ command: ['./run', '-q'], resident: true }),
  'apps/own/run': '',
  'apps/once/app.json': app({ command: ['true'] }),
  'engine/first/app.json': app(),
  'engine/second/app.json': app(),
  'engine/third/app.json': app(),
  'apps.json': JSON.stringify({
    apps: [
      { name: 'first', source: 'engine/first', network: true },
      { name: '/srv/apps/second', source: 'engine/second' },
      { name: 'third', source: 'engine/third', network: true },
    ],
  }),
  'bin/konfai': '',
});
for (const name of ['apps/own/run', 'bin/konfai']) chmodSync(at(name), 0o755);

const changes: unknown[] = [];
/** None of them is from a repository. */
const repositories = { keepOnly: () => {}, start: () => {} } as unknown as Repositories;
const allowed = new AllowedApps([at('apps'), at('apps.json')], {
  changed: (change) => changes.push(change),
  failed: (problem, cause) => expect.fail(`${problem}: ${cause}`),
});
const catalog = new AppCatalog(
  allowed,
  ['konfai', 'run'],
  repositories,
  { PATH: at('bin') },
  { network: ['once'], 'share-workers': [] },
  ['python', at('worker.py'), 'konfai'],
);

const request = { app: 'own', operation: 'infer', values: { tta: 2 } } as unknown as JobRequest;
const grant = { gpus: [1, 3], gpuUuids: [], cpuSlots: 0 };

test('An app whose slashes a proxy has merged is found, but only by those who may use it', () => {
  expect(catalog.get('srv/apps//second', null).id).toBe('/srv/apps/second');
  expect(() => catalog.get('srv/apps/second', ['own'])).toThrow('Unknown app');
  expect(catalog.get('srv/apps/second', ['/srv/apps/second']).id).toBe('/srv/apps/second');
});

test('A job may access only its own app, and the network only if the list or the flag allows it', () => {
  const access = (network: boolean, ...names: string[]) => ({
    network,
    directories: names.map(at),
    environment: {},
  });
  expect(['own', 'once', 'first', '/srv/apps/second', 'gone'].map((id) => catalog.accessOf(id))).toEqual([
    access(false, 'apps/own'),
    access(true, 'apps/once'),
    access(true, 'engine/first'),
    access(false, 'engine/second'),
    access(false),
  ]);
});

test("An app's own program stays loaded only for that app, and the engine for all of its apps with the same network access", () => {
  expect(['own', 'once', 'first', '/srv/apps/second', 'gone'].map((id) => catalog.residentName(id))).toEqual([
    'own',
    null,
    'konfai',
    'konfai',
    null,
  ]);
  const resident = (id: string) => {
    const found = catalog.residentFor({ ...request, app: id }, grant);
    return found && { ...found, access: found.access() };
  };
  expect(resident('own')).toEqual({
    name: 'own',
    command: [at('apps/own/run'), '-q', 'resident', at('apps/own'), '--gpu', '1', '3'],
    programWords: 2,
    watched: [at('apps/own')],
    isShared: false,
    access: catalog.accessOf('own'),
  });
  expect(resident('first')).toEqual({
    name: 'konfai',
    command: ['python', at('worker.py'), 'konfai', 'resident', '--gpu', '1', '3'],
    programWords: 2,
    // What is found on PATH, and what is named by its path.
    watched: [at('worker.py'), at('bin/konfai')],
    isShared: false,
    // All that the engine may be given while it is loaded.
    access: { network: true, directories: [at('engine/first'), at('engine/third')], environment: {} },
  });
  expect(resident('/srv/apps/second')?.access).toEqual({
    network: false,
    directories: [at('engine/second')],
    environment: {},
  });
  expect([resident('once'), resident('gone')]).toEqual([null, null]);
});

test('The admin sees where apps are, what runs them, and what they lack', async () => {
  const places = ['apps/once', 'apps/own', 'engine/first', 'engine/second', 'engine/third'];
  expect(catalog.directories()).toEqual(places.map(at));
  expect(['apps/own', 'engine/first', 'nowhere'].map((name) => catalog.programIn(at(name)))).toEqual([
    at('apps/own/run'),
    'konfai',
    '',
  ]);
  expect([await catalog.problems(['own']), catalog.offlineRepositories()]).toEqual([[], []]);
  const [problem, ...others] = await catalog.problems(['once']);
  expect([problem, others]).toEqual([
    `app 'once' cannot be run: ${at('apps/once')}/app.json, line 1: command.0: there is no program 'true' that can be run`,
    [],
  ]);
});

test('A reload applies added and removed apps, and an app that is not served has no version', async () => {
  expect((await (await catalog.versionOf('own'))?.known)?.slice(0, 7)).toBe('sha256:');
  await plant(root.path, { 'apps/new/app.json': app() });
  rmSync(at('apps/once'), { recursive: true });
  expect(() => catalog.reload()).not.toThrow();
  expect(changes).toEqual([{ added: ['new'], removed: ['once'] }]);
  expect(await catalog.versionOf('once')).toBeNull();
  rmSync(at('apps.json'));
  expect(() => catalog.reload()).toThrow('App ');
  expect(catalog.ids()).toEqual(['new', 'own', 'first', '/srv/apps/second', 'third']);
});

test('--network accepts only ids of existing apps', () => {
  const make = () =>
    new AppCatalog(allowed, ['konfai'], repositories, {}, { network: ['own', 'gone'], 'share-workers': [] });
  expect(make).toThrow(
    '--network gone: there is no such app; there are: new, own, first, /srv/apps/second, third',
  );
});

test("The version of a repository's app is its commit, and its jobs see only its repository in the cache", async () => {
  const cache = at('cache');
  const commit = await plantCache(cache, 'lab/app', { 'X/app.json': app(), 'X/w.pt': 'w' });
  const settings = hubSettings({ HOME: root.path, HF_HUB_CACHE: cache });
  const tracking = new Repositories({ settings, download: false, say: () => {} });
  const sources = new AllowedApps(['lab/app:X', 'lab/app:Y'], { changed: () => {}, failed: () => {} });
  const ids = ['lab/app:X', 'lab/app:Y'] as const;
  const access = (network: readonly string[]) => {
    const served = new AppCatalog(sources, ['konfai'], tracking, {}, { network, 'share-workers': [] });
    return {
      served,
      environment: served.accessOf(ids[0]).environment,
      offline: served.offlineRepositories(),
    };
  };
  const { served, ...alone } = access([]);
  expect(alone).toEqual({ environment: { HF_HUB_CACHE: cache, HF_HUB_OFFLINE: '1' }, offline: ids });
  const { served: _, ...connected } = access(ids.slice(0, 1));
  expect(connected).toEqual({ environment: { HF_HUB_CACHE: cache }, offline: ids.slice(1) });
  expect(served.accessOf(ids[0])).toMatchObject({
    network: false,
    directories: [path.join(cache, 'models--lab--app')],
  });
  expect(await (await served.versionOf(ids[0]))?.known).toBe(commit);
  const files = await served.repositoryFiles(served.get(ids[0], null));
  expect(files.map(({ name }) => name)).toEqual(['app.json', 'w.pt']);
  await expect(served.repositoryFiles(served.get(ids[1], null))).rejects.toThrow(
    "Repository 'lab/app' has no app in 'Y'; it has: lab/app:X",
  );
  const { refreshing, apps } = await served.refreshView(ids.slice(1));
  expect([refreshing, apps.map(({ app: id, available }) => [id, available])]).toEqual([
    true,
    [['lab/app:Y', false]],
  ]);
  await tracking.close();
});
