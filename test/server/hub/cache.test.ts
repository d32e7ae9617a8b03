import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { RepositoryCache } from '../../../src/server/hub/repository-cache.js';
import { formatTree, parseTree, type TreeFile } from '../../../src/server/hub/tree.js';
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

test('A list of files is written as Python writes it, and read again', () => {
  const files = [listed('app.json'), listed('x/w.pt', { size: 9, sha256 })];
  const text = formatTree(files);
  expect(JSON.parse(text)).toEqual({
    format_version: 1,
    files: {
      'app.json': { size: 3, blob_id: oid },
      'x/w.pt': { size: 9, blob_id: oid, lfs_sha256: sha256, lfs_size: 9 },
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

test('The files of a snapshot are sorted, without dangling links and links elsewhere', async () => {
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

test('The sandbox gets the content that repositories share, and no other target of a link', async () => {
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
