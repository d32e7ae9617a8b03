import { afterEach, beforeEach, expect, test } from 'vitest';
import { hubSettings, Repositories } from '../../../src/server/hub/index.js';
import { FakeHub } from '../../support/fake-hub.js';
import { files, repository } from '../../support/hub-app.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';

const name = { repository, revision: 'main', folder: 'MR' };
const long = 3600_000;
const lines: string[] = [];
let hub: FakeHub;
let directory: Awaited<ReturnType<typeof temporary>>;
beforeEach(async () => {
  hub = await FakeHub.start();
  directory = await temporary();
  hub.commit(repository, files);
  lines.length = 0;
});
afterEach(async () => {
  await hub[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
});

const looking = (times: { between: number; retry: number; maxRetry: number; asked: number }) =>
  new Repositories({
    settings: hubSettings({ HOME: directory.path, HF_ENDPOINT: hub.url }),
    download: false,
    say: (line) => lines.push(line),
    times,
  });

test('A check that failed is retried until the hub answers', async () => {
  hub.fail(() => ({ status: 503 }));
  const repositories = looking({ between: long, retry: 10, maxRetry: 20, asked: 0 });
  const tracked = repositories.track(name);
  repositories.start();
  await until('it was asked again', () => hub.requests.length >= 4);
  expect(tracked.hubStatus).toMatchObject({ checkedAt: null, problem: expect.stringContaining('503') });
  hub.fail(() => null);
  await until('the hub has answered', () => tracked.hubStatus.checkedAt);
  expect(tracked.hubStatus.problem).toBe(null);
  await until('the admin is told', () => lines.length > 1);
  // The admin hears of it once, however often it fails.
  expect(lines).toEqual([
    expect.stringMatching(/VBoussot\/ImpactSynth: .* answered 503/),
    expect.stringMatching(/VBoussot\/ImpactSynth: at commit [0-9a-f]{12} in the cache/),
  ]);
  await repositories.close();
});

test('The message about a cache that cannot be written does not name its path', async () => {
  await plant(directory.path, { '.cache': 'a file' });
  const repositories = looking({ between: long, retry: long, maxRetry: long, asked: 0 });
  const tracked = repositories.track(name);
  repositories.start();
  await until('it was looked at', () => tracked.hubStatus.problem);
  expect(tracked.hubStatus.problem).toBe(
    'The cache of repositories cannot be used: not a directory (ENOTDIR)',
  );
  await repositories.close();
});

test('A repository is checked again after the interval, and its new commit appears', async () => {
  const repositories = looking({ between: 20, retry: long, maxRetry: long, asked: 0 });
  const tracked = repositories.track(name);
  repositories.start();
  await until('it was looked at', () => tracked.hubStatus.checkedAt);
  const next = hub.commit(repository, { ...files, 'MR/Prediction.yml': 'new: 1\n' });
  await until('the new commit is there', () => tracked.cache.commitOf('main') === next);
  await repositories.close();
});

test('Two apps of one repository need one request, and repositories are checked one after the other', async () => {
  hub.commit('lab/other', files);
  const repositories = looking({ between: long, retry: long, maxRetry: long, asked: 0 });
  const [one, two] = [repositories.track(name), repositories.track({ ...name, folder: 'CBCT' })];
  expect(two).toBe(one);
  const other = repositories.track({ ...name, repository: 'lab/other' });
  hub.fail(() => 'hold');
  repositories.start();
  await until('the hub is asked', () => hub.requests.length > 0);
  repositories.ask();
  expect(hub.requests).toEqual([`GET /api/models/${repository}/revision/main`]);
  expect([one.isUnderWay, other.isUnderWay, repositories.isUnderWay]).toEqual([true, true, true]);
  // A close ends what is asked.
  await repositories.close();
  expect(hub.requests).toHaveLength(1);
  expect(lines).toEqual([]);
});

test('A repository whose apps are no longer on the list is not checked again', async () => {
  hub.commit('lab/other', files);
  const repositories = looking({ between: 10, retry: long, maxRetry: long, asked: 0 });
  const other = { ...name, repository: 'lab/other' };
  const tracked = repositories.track(name);
  repositories.track(other);
  repositories.keepOnly([other]);
  repositories.start();
  const asked = () => hub.requests.filter((each) => each.includes('/revision/'));
  await until('the other was looked at again', () => asked().length > 3);
  expect(new Set(asked())).toEqual(new Set(['GET /api/models/lab/other/revision/main']));
  expect(tracked.hubStatus.checkedAt).toBe(null);
  await repositories.close();
});

test('A hub that sends Retry-After is not asked earlier, not even for a client', async () => {
  hub.fail(() => ({ status: 429, headers: { 'retry-after': '3000' } }));
  const repositories = looking({ between: 0, retry: 0, maxRetry: 0, asked: 0 });
  const tracked = repositories.track(name);
  repositories.start();
  await until('it was looked at', () => tracked.hubStatus.problem);
  await until('the admin is told', () => lines.length > 0);
  const untilNext = () => Math.round((tracked.due - performance.now()) / 1e6);
  expect(untilNext()).toBe(3);
  repositories.ask();
  expect(untilNext()).toBe(3);
  await repositories.close();
});

test('An app that is no longer on the list is not fetched with another one of its repository', async () => {
  const repositories = looking({ between: long, retry: long, maxRetry: long, asked: 0 });
  const tracked = repositories.track(name);
  const other = { ...name, folder: 'CBCT' };
  expect(repositories.track(other)).toBe(tracked);
  repositories.keepOnly([other]);
  repositories.start();
  await until('the admin is told', () => lines.length > 0);
  expect(lines).toEqual([
    expect.stringMatching(/^VBoussot\/ImpactSynth: at commit [0-9a-f]{12} in the cache$/),
  ]);
  const namesOf = async (folder: string) =>
    (await tracked.cache.files(tracked.cache.commitOf('main') ?? '', folder)).map((file) => file.name);
  expect(await namesOf('CBCT')).toContain('app.json');
  expect(await namesOf('MR')).toEqual([]);
  await repositories.close();
});

test('The intervals between retries grow up to a maximum', async () => {
  hub.fail(() => ({ status: 503 }));
  const repositories = looking({ between: 0, retry: 1e6, maxRetry: 3e6, asked: 0 });
  const tracked = repositories.track(name);
  const waits: number[] = [];
  for (let time = 0; time < 4; time += 1) {
    tracked.due = 0;
    await repositories.fetchAll(new AbortController().signal);
    waits.push(Math.round((tracked.due - performance.now()) / 1e5));
  }
  expect(waits).toEqual([10, 20, 30, 30]);
  await repositories.close();
});

test('Clients cannot make the server ask a hub more often than allowed, or ask it at all when offline', async () => {
  const repositories = looking({ between: 2 * long, retry: long, maxRetry: long, asked: long });
  const tracked = repositories.track(name);
  await repositories.fetchAll(new AbortController().signal);
  for (let time = 0; time < 2; time += 1) repositories.ask();
  expect([tracked.due - tracked.begun, repositories.isUnderWay]).toEqual([long, true]);
  await repositories.close();

  const settings = hubSettings({ HOME: directory.path, HF_ENDPOINT: hub.url, HF_HUB_OFFLINE: '1' });
  const offline = new Repositories({ settings, download: true, say: (line) => lines.push(line) });
  const alone = offline.track(name);
  const before = hub.requests.length;
  offline.ask();
  await offline.fetchAll(new AbortController().signal);
  expect([alone.due, offline.isUnderWay, hub.requests.length]).toEqual([
    Number.POSITIVE_INFINITY,
    false,
    before,
  ]);
  await offline.close();
});
