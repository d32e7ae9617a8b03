import { lstatSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { hubSettings } from '../../../src/server/hub/hub-settings.js';
import { placeInSnapshot, RepositoryCache } from '../../../src/server/hub/repository-cache.js';
import { TrackedRepository } from '../../../src/server/hub/tracked-repository.js';
import {
  checkNames,
  filesOfApp,
  formatTree,
  parseTree,
  type TreeFile,
} from '../../../src/server/hub/tree.js';
import { plantCache } from '../../support/hub-cache.js';
import { plant, temporary } from '../../support/temporary.js';

const commit = 'a'.repeat(40);
const [oid, sha256] = ['b'.repeat(40), 'c'.repeat(64)];

/** A file of a repository. */
const listed = (name: string, more: Partial<TreeFile> = {}): TreeFile => ({
  path: name,
  size: 3,
  blobId: oid,
  sha256: null,
  xetHash: null,
  ...more,
});

async function place(): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  return root.path;
}

/** A cache with one repository, in which these files are planted. */
async function cacheWith(files: Readonly<Record<string, string>> = {}) {
  const root = await place();
  const cache = new RepositoryCache(root, 'lab/app');
  await plant(cache.directory, files);
  return { root, cache };
}

test('a list of files is written as Python writes it, and read again', () => {
  const files = [listed('app.json'), listed('x/w.pt', { size: 9, sha256, xetHash: 'd'.repeat(64) })];
  const text = formatTree(files);
  expect(JSON.parse(text)).toEqual({
    format_version: 1,
    files: {
      'app.json': { size: 3, blob_id: oid },
      'x/w.pt': { size: 9, blob_id: oid, lfs_sha256: sha256, lfs_size: 9, xet_hash: 'd'.repeat(64) },
    },
  });
  expect(parseTree(text)).toEqual(files);
  // Of a file outside Git, `size` is that of its pointer.
  const pointer = { size: 130, blob_id: oid, lfs_sha256: sha256, lfs_size: 9 };
  expect(parseTree(JSON.stringify({ format_version: 1, files: { w: pointer } }))).toEqual([
    listed('w', { size: 9, sha256 }),
  ]);
  for (const wrong of [
    { format_version: 2, files: {} },
    { format_version: 1, files: { a: { size: -1, blob_id: oid } } },
  ])
    expect(() => parseTree(JSON.stringify(wrong))).toThrow();
});

test.each(['a', 'x/a.json', `${'d/'.repeat(31)}a`, '.hidden', `${'n'.repeat(200)}/a`])(
  '%j is a name in a cache',
  (name) => {
    const files = [listed('app.json'), listed(name)];
    expect(checkNames(files, 'lab/app')).toBe(files);
  },
);

test.each([
  '../a',
  '/a',
  'a//b',
  'x/..',
  'c:/a',
  'x/C:',
  'a\\b',
  '',
  `${'d/'.repeat(32)}a`,
  `${'d/'.repeat(9)}${'n'.repeat(1100)}`,
])('%j is refused as the name of a cached file', (name) => {
  expect(() => checkNames([listed('app.json'), listed(name)], 'lab/app')).toThrow(
    /^Repository 'lab\/app' has a file named .*, which is no name for a file of the cache$/,
  );
});

test('the files of an app are those below its folder, with names relative to it', () => {
  const files = ['app.json', 'X/app.json', 'X/w/a.pt', 'XY/app.json'].map((name) => listed(name));
  expect([...filesOfApp(files, 'X').keys()]).toEqual(['app.json', 'w/a.pt']);
  expect(filesOfApp(files, 'X').get('w/a.pt')?.path).toBe('X/w/a.pt');
  expect([...filesOfApp(files, null).keys()]).toEqual(['app.json', 'X/app.json', 'X/w/a.pt', 'XY/app.json']);
});

test('a revision is at the commit that its file names, and a commit at itself', async () => {
  const { cache } = await cacheWith({ 'refs/main': `${commit}\n`, 'refs/odd': 'abc', 'refs/pr/1': commit });
  expect(['main', 'pr/1', 'odd', 'none', oid].map((revision) => cache.commitOf(revision))).toEqual([
    commit,
    commit,
    null,
    null,
    oid,
  ]);
});

test('an unusable list of files counts as missing', async () => {
  const files = [listed('app.json')];
  const { cache } = await cacheWith({
    [`trees/${commit}.json`]: formatTree(files),
    [`trees/${oid}.json`]: formatTree([listed('../app.json')]),
    [`trees/${'e'.repeat(40)}.json`]: '{',
  });
  // It is kept, and not taken for that of another commit.
  expect([cache.tree(commit), cache.tree(commit)]).toEqual([files, files]);
  for (const other of [oid, 'e'.repeat(40), 'f'.repeat(40)]) expect(cache.tree(other)).toBeNull();
});

test('a file counts as present only if it is complete', async () => {
  const { cache } = await cacheWith({
    [`snapshots/${commit}/whole`]: 'abc',
    [`snapshots/${commit}/part`]: 'ab',
    [`snapshots/${commit}/directory/x`]: '',
    [`blobs/${oid}`]: 'abc',
    [`blobs/${sha256}`]: 'ab',
  });
  const has = (name: string) => cache.has(commit, listed(name));
  expect(await Promise.all(['whole', 'part', 'directory', 'none'].map(has))).toEqual([
    true,
    false,
    false,
    false,
  ]);
  expect([await cache.hasBlob(listed('x')), await cache.hasBlob(listed('x', { sha256 }))]).toEqual([
    true,
    false,
  ]);
});

test('the files of a snapshot are sorted, without dangling links and links elsewhere', async () => {
  const { root, cache } = await cacheWith({
    [`snapshots/${commit}/X/b`]: 'b',
    [`snapshots/${commit}/X/a/z`]: 'z',
    [`snapshots/${commit}/other`]: '',
    'blobs/content': 'c',
  });
  writeFileSync(path.join(root, 'secret'), '');
  const inSnapshot = path.join(cache.snapshot(commit), 'X');
  for (const [name, target] of [
    ['c', '../../../blobs/content'],
    ['gone', '../../../blobs/none'],
    ['secret', path.join(root, 'secret')],
    ['directory', '../../../blobs'],
  ] as const)
    symlinkSync(target, path.join(inSnapshot, name));
  const found = await cache.files(commit, 'X');
  expect(found.map(({ name, path: at }) => [name, path.relative(cache.directory, at)])).toEqual([
    ['a/z', `snapshots/${commit}/X/a/z`],
    ['b', `snapshots/${commit}/X/b`],
    ['c', 'blobs/content'],
  ]);
  expect((await cache.files(commit, null)).map(({ name }) => name)).toEqual(['X/a/z', 'X/b', 'X/c', 'other']);
  expect(await cache.files(oid, null)).toEqual([]);
});

test('the sandbox gets the content that repositories share, and no other target of a link', async () => {
  const root = await place();
  await plantCache(root, 'lab/app', { 'app.json': '{}', 'w.pt': 'weights' }, 'shared');
  const cache = new RepositoryCache(root, 'lab/app');
  const [shared] = cache.sharedBlobs();
  expect(cache.sharedBlobs()).toHaveLength(1);
  expect(readFileSync(shared ?? '', 'utf8')).toBe('weights');
  symlinkSync('/etc/hostname', path.join(cache.directory, 'blobs', 'planted'));
  expect(cache.sharedBlobs()).toEqual([shared]);
  expect(new RepositoryCache(root, 'lab/other').sharedBlobs()).toEqual([]);
});

test.each([true, false])('a file is put into a snapshot as a link, or as a copy: %j', async (hasLinks) => {
  const { cache } = await cacheWith({
    [`blobs/${oid}`]: 'abc',
    [`blobs/${sha256}`]: 'new',
    'snapshots/': '',
  });
  const target = path.join(cache.snapshot(commit), 'X/w.pt');
  const content = () => [readFileSync(target, 'utf8'), lstatSync(target).isSymbolicLink()];
  for (let time = 0; time < 2; time += 1) {
    await placeInSnapshot(cache, commit, listed('X/w.pt'), hasLinks);
    expect(content()).toEqual(['abc', hasLinks]);
  }
  await placeInSnapshot(cache, commit, listed('X/w.pt', { sha256 }), hasLinks);
  expect(content()).toEqual(['new', hasLinks]);
  expect(readdirSync(path.join(cache.directory, 'blobs')).sort()).toEqual([oid, sha256]);
});

test('no file is written into a snapshot that leads out of the cache', async () => {
  const { root, cache } = await cacheWith({ [`blobs/${oid}`]: 'abc', 'snapshots/': '' });
  // The second one begins like the directory of the snapshots.
  for (const elsewhere of [path.join(root, 'elsewhere'), path.join(cache.directory, 'snapshots-of-others')]) {
    await plant(elsewhere, { './': '' });
    rmSync(cache.snapshot(commit), { force: true });
    symlinkSync(elsewhere, cache.snapshot(commit));
    await expect(placeInSnapshot(cache, commit, listed('w.pt'), true)).rejects.toThrow(
      "The snapshot of 'lab/app' leads out of the cache; remove it there",
    );
    expect(readdirSync(elsewhere)).toEqual([]);
  }
});

/** What a server says of an app that the cache does not have. */
async function missing(files: Readonly<Record<string, string>>, folder: string | null, offline = false) {
  const { root, cache } = await cacheWith(files);
  const settings = hubSettings({ HOME: root, HF_HUB_CACHE: root, HF_HUB_OFFLINE: offline ? '1' : '' });
  const tracked = new TrackedRepository({ repository: 'lab/app', revision: 'v2' }, settings);
  tracked.add(folder);
  const [sentence] = await tracked.lacks();
  await expect(tracked.files(folder)).rejects.toThrow(sentence);
  expect([tracked.label, tracked.due, cache.directory]).toEqual([
    'lab/app@v2',
    offline ? Number.POSITIVE_INFINITY : 0,
    tracked.cache.directory,
  ]);
  return sentence;
}

test('the message about a missing app lists the apps of its repository, or says why they are unknown', async () => {
  const soon =
    "The description of 'lab/app@v2' is being fetched from https://huggingface.co; ask again in a moment";
  expect(await missing({}, 'X')).toBe(soon);
  // Which apps there are is known from the list of files alone.
  expect(await missing({ 'refs/v2': commit }, 'X')).toBe(soon);
  expect(await missing({}, 'X', true)).toBe(
    "'lab/app@v2' is not in the cache, and HF_HUB_OFFLINE keeps it from being fetched",
  );
  const at = (...names: string[]) => ({
    'refs/v2': commit,
    [`trees/${commit}.json`]: formatTree(names.map((name) => listed(name))),
  });
  const several = at('app.json', 'X/app.json', 'X/Z/app.json', 'Y/readme');
  expect(await missing(several, 'Y')).toBe(
    "Repository 'lab/app@v2' has no app in 'Y'; it has: lab/app@v2, lab/app@v2:X",
  );
  expect(await missing(at('a/b'), null)).toBe("Repository 'lab/app@v2' has no app at its top; it has: none");
  // It is listed, and still to come.
  expect(await missing(several, 'X')).toBe(soon);
});

test('an available app has the files of the cache, and the names of those not yet downloaded', async () => {
  const { root, cache } = await cacheWith({
    'refs/main': commit,
    [`snapshots/${commit}/X/app.json`]: '{}',
    [`snapshots/${commit}/X/own`]: '',
    [`trees/${commit}.json`]: formatTree(['X/app.json', 'X/w.pt', 'Y/app.json'].map((name) => listed(name))),
  });
  const settings = hubSettings({ HOME: root, HF_HUB_CACHE: root });
  const tracked = new TrackedRepository({ repository: 'lab/app', revision: 'main' }, settings);
  tracked.add('X');
  const { present, ...found } = await tracked.files('X');
  expect(found).toEqual({
    commit,
    directory: path.join(cache.snapshot(commit), 'X'),
    listed: ['app.json', 'own', 'w.pt'],
  });
  expect(present.map(({ name }) => name)).toEqual(['app.json', 'own']);
  expect([tracked.label, await tracked.lacks(), tracked.hubStatus]).toEqual([
    'lab/app',
    [],
    { checkedAt: null, problem: null },
  ]);
});
