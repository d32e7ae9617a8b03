import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AppView, RefreshView } from '../../../src/contract/app-manifest.js';
import { refusal } from '../../support/api.js';
import { FakeHub } from '../../support/fake-hub.js';
import { least } from '../../support/form.js';
import { files, manifest, repository, weights } from '../../support/hub-app.js';
import { apps, TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { unzip } from '../../support/unzip.mjs';

const app = `${repository}:MR`;
let hub: FakeHub;
let commit: string;
beforeAll(async () => {
  hub = await FakeHub.start();
});
afterAll(() => hub[Symbol.asyncDispose]());

/** A server that asks the hub of the test. */
function serving(sources: readonly string[], environment: Record<string, string> = {}, flags: string[] = []) {
  return TestServer.start({
    runners: true,
    apps: sources,
    flags: ['--engine', `${process.execPath} -e console.log(process.argv)`, ...flags],
    environment: { HF_HUB_OFFLINE: '', HF_ENDPOINT: hub.url, ...environment },
  });
}

const view = (server: TestServer, id: string) =>
  server.api.json<AppView>(`/repo_apps/${encodeURIComponent(id)}`);

const settled = (server: TestServer) =>
  until('the repositories were looked at', async (): Promise<RefreshView | null> => {
    const found = await server.api.json<RefreshView>('/repo_apps_refresh');
    const isOver = found.apps.every(({ checked_at, problem }) => checked_at ?? problem) && !found.refreshing;
    return isOver ? found : null;
  });

const refresh = async (server: TestServer) => {
  await server.api.json('/repo_apps_refresh', { method: 'POST' });
  return settled(server);
};

const cacheOf = (server: TestServer, name = repository) =>
  path.join(server.scratch, '.cache/huggingface/hub', `models--${name.replace('/', '--')}`);

const commitOf = (server: TestServer, name: string) =>
  readFileSync(path.join(cacheOf(server, name), 'refs/main'), 'utf8');

describe('an app of a repository', () => {
  const named = `${repository}@main:MR`;
  const planting = { 'a command': ['sh', '-c', 'touch planted'], 'what is no command': 'touch planted' };
  const single = 'lab/single';
  const versions: string[] = [];
  let server: TestServer;

  beforeAll(async () => {
    commit = hub.commit(repository, files);
    for (const [index, command] of Object.values(planting).entries()) {
      hub.commit(`mallory/app${index}`, {
        'X/app.json': manifest({ command }),
        'X/main.sh': 'touch planted',
      });
    }
    const version = (name: string, revision?: string) =>
      hub.commit('lab/versions', { 'X/app.json': manifest({ display_name: name }) }, revision);
    const branch = 'refs/pr/1';
    const old = version('Old', 'v1.0');
    version('New');
    version('Proposed', branch);
    versions.push(...['@v1.0', `@${old}`, '', `@${branch}`].map((revision) => `lab/versions${revision}:X`));
    hub.commit(single, { 'app.json': manifest({ display_name: 'Single', models: undefined }), 'a.pt': 'x' });
    const others = ['mallory/app0:X', 'mallory/app1:X', single, repository, `${single}:X`];
    server = await serving([app, named, ...versions, ...others]);
    await settled(server);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test('An app of a repository is described from the hub, without its weights', async () => {
    await using alone = await serving([app]);
    hub.forget();
    await settled(alone);
    expect(await view(alone, app)).toEqual({
      app,
      available: true,
      display_name: 'Synthetic CT',
      description: 'Makes a CT of an MR',
      short_description: 'MR to CT',
      mc_dropout: 0,
      maximum_tta: 2,
      inputs: { Volume_0: { display_name: 'MR', volume_type: 'VOLUME', required: true, default: null } },
      outputs: {},
      inputs_evaluations: {},
      patch_size: [1, 256, 256],
      checkpoints_name: ['CV_0.pt', 'CV_1.pt'],
      checkpoints_name_available: [],
      has_capabilities: [true, false, true],
      finetunable: false,
      repository: {
        name: repository,
        revision: 'main',
        commit,
        checked_at: expect.any(String),
        problem: null,
      },
      version: commit,
    });
    expect(hub.requests.filter((each) => /\.pt$|CBCT|README/.test(each))).toEqual([]);
  });

  test('An app of a repository has a configuration to download', async () => {
    const response = await server.api.fetch(`/repo_apps_config/${encodeURIComponent(app)}`);
    const found = await unzip(Buffer.from(await response.arrayBuffer()));
    expect([...found.keys()].sort()).toEqual([
      'Model/net.py',
      'Prediction.yml',
      'Uncertainty.yml',
      'app.json',
      'net.py',
    ]);
    expect(String(found.get('app.json'))).toBe(manifest());
  });

  test('An app of a repository is run by the engine, under its name on the allowlist', async () => {
    const { log } = await server.api.run('infer', least.infer, { app: named });
    expect(log).toContain(`'infer',`);
    expect(log).toContain(`'${named}',`);
  });

  test.for(Object.keys(planting).map((what, index) => [what, `mallory/app${index}`] as const))(
    'An app of a repository that contains %s is available, and is still run by the engine',
    async ([, other]) => {
      const shown = await view(server, `${other}:X`);
      expect(shown).toMatchObject({ available: true });
      expect(shown).not.toHaveProperty('command');
      const { log, view: job } = await server.api.run('infer', least.infer, { app: `${other}:X` });
      expect([job.status, log]).toEqual(['done', expect.stringContaining(`'${other}:X',`)]);
      expect(existsSync(path.join(server.jobDirectory(job.job_id), 'Workspace/planted'))).toBe(false);
    },
  );

  test('An app of a repository comes from the named revision: a branch, a tag, or a commit', async () => {
    const shown = await Promise.all(versions.map((id) => view(server, id)));
    expect(shown.map((each) => each.available && each.display_name)).toEqual([
      'Old',
      'Old',
      'New',
      'Proposed',
    ]);
  });

  test('An app of a repository may be at the top of its repository, and a missing one is reported with those that exist', async () => {
    expect(await view(server, single)).toMatchObject({ display_name: 'Single', checkpoints_name: ['a.pt'] });
    expect(await view(server, repository)).toEqual({
      app: repository,
      available: false,
      reason: `Repository '${repository}' has no app at its top; it has: ${repository}:MR, ${repository}:CBCT`,
    });
    const missing = `has no app in 'X'; it has: ${single}`;
    expect(await view(server, `${single}:X`)).toMatchObject({ reason: expect.stringContaining(missing) });
    expect(server.stderr).toContain(missing);
  });

  test('An app of a repository is found even if the hub lists the files in pages', async () => {
    hub.pageSize = 2;
    await using paged = await serving([app]);
    await settled(paged);
    hub.pageSize = 1000;
    expect(await view(paged, app)).toMatchObject({ patch_size: [1, 256, 256] });
  });
});

describe('a hub', () => {
  test.each([
    [
      'that is not reached',
      { HF_ENDPOINT: 'http://127.0.0.1:9' },
      /^http:\/\/127\.0\.0\.1:9 was not reached/,
    ],
    ['without the repository', {}, /shows this server no repository 'VBoussot\/Nope' \(401\).*HF_TOKEN/],
    ['that must not be asked', { HF_HUB_OFFLINE: '1' }, /not in the cache, and HF_HUB_OFFLINE/],
  ])('A hub %s lets the server start, which says why the app is missing', async (_, environment, reason) => {
    const id = 'VBoussot/Nope:MR';
    await using server = await serving([id], environment as Record<string, string>);
    if (!('HF_HUB_OFFLINE' in environment)) await settled(server);
    expect(await view(server, id)).toEqual({
      app: id,
      available: false,
      reason: expect.stringMatching(reason),
    });
    const response = await server.api.fetch(`/repo_apps_config/${encodeURIComponent(id)}`);
    expect(await refusal(response)).toEqual([404, expect.stringMatching(reason)]);
    if (!('HF_HUB_OFFLINE' in environment)) expect(server.stderr).toMatch(/VBoussot\/Nope: http/);
  });

  test('A hub that asks the server to wait is not contacted sooner, whoever requests a refresh', async () => {
    hub.commit('lab/busy', { 'X/app.json': manifest() });
    hub.fail(() => ({ status: 429, headers: { 'retry-after': '40' } }));
    await using server = await serving(['lab/busy:X']);
    await settled(server);
    hub.fail(() => null);
    hub.forget();
    expect(await view(server, 'lab/busy:X')).toMatchObject({
      reason: expect.stringMatching(/too often \(429\)/),
    });
    // Nobody who asks this server can have it ask the hub any sooner.
    const { refreshing } = await server.api.json<RefreshView>('/repo_apps_refresh', { method: 'POST' });
    expect([refreshing, hub.requests]).toEqual([true, []]);
  });

  test('A hub without the named revision is reported', async () => {
    await using server = await serving([`${repository}@v9:MR`]);
    await settled(server);
    expect(await view(server, `${repository}@v9:MR`)).toMatchObject({
      reason: expect.stringContaining("has no revision 'v9'"),
    });
  });

  test('A hub that fails later leaves what is in the cache, and the routes say so', async () => {
    await using server = await serving([app]);
    await settled(server);
    hub.fail(() => ({ status: 503 }));
    const { apps } = await refresh(server);
    hub.fail(() => null);
    expect(apps).toEqual([
      {
        app,
        available: true,
        commit,
        checked_at: expect.any(String),
        problem: expect.stringContaining('answered 503'),
      },
    ]);
    expect(await view(server, app)).toMatchObject({
      available: true,
      repository: { problem: expect.stringContaining('503') },
    });
    expect((await refresh(server)).apps[0]?.problem).toBe(null);
  });

  test('A hub gets the token for private and gated repositories, and the storage of files does not', async () => {
    hub.commit('lab/private', { 'X/app.json': manifest(), 'X/CV_0.pt': weights });
    hub.guard('lab/private', 'hf_secret');
    hub.commit('lab/gated', { 'X/app.json': manifest() });
    hub.guard('lab/gated', 'hf_secret', true);
    const ids = ['lab/private:X', 'lab/gated:X'];
    hub.forget();
    await using server = await serving(ids, { HF_TOKEN: 'hf_secret' }, ['--download']);
    for (const id of ids) expect(await view(server, id)).toMatchObject({ available: true });
    expect(hub.stored.length).toBe(1);
    expect(hub.stored[0]?.headers.authorization).toBe(undefined);
    await using without = await serving(ids, { HF_TOKEN: 'hf_wrong' });
    await settled(without);
    expect(await view(without, 'lab/private:X')).toMatchObject({
      reason: expect.stringMatching(/\(404\): the token of this server may not read it/),
    });
    expect(await view(without, 'lab/gated:X')).toMatchObject({ reason: expect.stringMatching(/is gated/) });
    expect(server.stderr + without.stderr).not.toMatch(/hf_secret|hf_wrong/);
  });
});

describe('serve --download', () => {
  test('serve --download fetches only the files of its apps before it listens, and reports progress', async () => {
    const other = 'lab/large';
    const content = Buffer.alloc(3_000_000, 7);
    hub.commit(other, { 'X/app.json': manifest(), 'X/CV_0.pt': content, 'X/.hidden': '', 'Y/CV_0.pt': 'y' });
    hub.forget();
    await using server = await serving([`${other}:X`], {}, ['--download']);
    expect(await view(server, `${other}:X`)).toMatchObject({ checkpoints_name_available: ['CV_0.pt'] });
    expect(server.stderr).toMatch(/lab\/large: looking for it at http/);
    expect(server.stderr).toMatch(/lab\/large: [\d.]+ (B|KiB|MiB) of 2\.9 MiB \(\d+%\)/);
    expect(server.stderr).toMatch(/lab\/large: at commit [0-9a-f]{12} in the cache/);
    expect(hub.requests.filter((each) => each.includes('/resolve/')).length).toBe(2);
    // An empty file needs no request.
    expect(
      existsSync(path.join(cacheOf(server, other), 'snapshots', commitOf(server, other), 'X/.hidden')),
    ).toBe(true);
  });

  test('serve --download leaves an app described if its weights cannot be fetched, and reports why', async () => {
    const other = 'lab/halved';
    hub.commit(other, { 'X/app.json': manifest(), 'X/CV_0.pt': weights });
    hub.swapped = Buffer.alloc(weights.length);
    await using server = await serving([`${other}:X`], {}, ['--download']);
    hub.swapped = null;
    expect(await view(server, `${other}:X`)).toMatchObject({
      available: true,
      checkpoints_name_available: [],
      repository: { problem: expect.stringMatching(/The content of 'X\/CV_0\.pt' is not the one/) },
    });
  });

  test('serve --download is interrupted when the server is stopped', async () => {
    hub.forget();
    hub.fail(() => 'hold');
    await using server = new TestServer({
      ownProcess: true,
      apps: [app],
      flags: ['--download'],
      environment: { HF_HUB_OFFLINE: '', HF_ENDPOINT: hub.url },
    });
    const started = expect(server.start()).rejects.toThrow('serve ended with 0');
    await until('the hub is asked', () => hub.requests.length > 0);
    server.signal('SIGTERM');
    await started;
    hub.fail(() => null);
  });
});

describe('a refresh', () => {
  test('A refresh brings a new commit, whose unchanged weights are not fetched again', async () => {
    const other = 'lab/moving';
    const id = `${other}:X`;
    hub.commit(other, { 'X/app.json': manifest(), 'X/CV_0.pt': weights });
    await using server = await serving([id], {}, ['--download']);
    hub.forget();
    await refresh(server);
    // One small question where nothing has changed.
    expect(hub.requests).toEqual([`GET /api/models/${other}/revision/main`]);
    const next = hub.commit(other, {
      'X/app.json': manifest({ display_name: 'Renamed' }),
      'X/CV_0.pt': weights,
    });
    const { apps } = await refresh(server);
    expect(apps[0]).toMatchObject({ app: id, available: true, commit: next, problem: null });
    expect(await view(server, id)).toMatchObject({
      display_name: 'Renamed',
      checkpoints_name_available: ['CV_0.pt'],
    });
    expect(hub.stored).toEqual([]);
  });

  test('A refresh that is requested many times happens once', async () => {
    await using server = await serving([app]);
    await settled(server);
    hub.forget();
    const asked = Array.from({ length: 20 }, () => server.api.json('/repo_apps_refresh', { method: 'POST' }));
    await Promise.all(asked);
    await settled(server);
    expect(hub.requests).toEqual([`GET /api/models/${repository}/revision/main`]);
  });
});

test('The cache of a server contains everything that an offline server needs', async () => {
  await using first = await serving([app], {}, ['--download']);
  const cache = path.dirname(cacheOf(first));
  await using second = await serving([app], { HF_HUB_OFFLINE: '1', HF_HUB_CACHE: cache });
  expect(await view(second, app)).toMatchObject({ checkpoints_name_available: ['CV_0.pt', 'CV_1.pt'] });
});

test('An app of a repository that is put on the list later is fetched when the server reads the list again', async () => {
  hub.commit(repository, files);
  await using root = await temporary();
  const list = path.join(root.path, 'apps.json');
  const write = (...entries: unknown[]) => writeFileSync(list, JSON.stringify({ apps: entries }));
  const probe = { name: 'probe', source: apps.probe };
  write(probe);
  await using server = await serving([list]);
  write(probe, app);
  server.reload();
  const fetched = await until('it is fetched', async () => {
    const shown = await view(server, app);
    return shown.available ? shown : null;
  });
  expect(fetched.app).toBe(app);
  expect(existsSync(path.join(cacheOf(server), 'refs/main'))).toBe(true);
});
