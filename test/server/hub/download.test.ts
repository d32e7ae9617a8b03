import { mkdir, readdir, readFile, readlink, symlink, utimes } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Hub } from '../../../src/server/hub/hub.js';
import { placeInSnapshot, placeText, RepositoryCache } from '../../../src/server/hub/repository-cache.js';
import { blobName, formatTree, type TreeFile } from '../../../src/server/hub/tree.js';
import { downloadBlob, type UpdateOptions, update } from '../../../src/server/hub/update.js';
import { FakeHub } from '../../support/fake-hub.js';
import { files, repository, weights } from '../../support/hub-app.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { smallDisk } from '../../support/small-disk.js';
import { temporary } from '../../support/temporary.js';

const { signal } = new AbortController();
let fake: FakeHub;
let directory: Awaited<ReturnType<typeof temporary>>;
let cache: RepositoryCache;
let hub: Hub;
let commit: string;
beforeEach(async () => {
  fake = await FakeHub.start();
  directory = await temporary();
  cache = new RepositoryCache(directory.path, repository);
  hub = new Hub({ endpoint: fake.url, token: () => null });
  commit = fake.commit(repository, files);
});
afterEach(async () => {
  await fake[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
});

const named = async (name: string): Promise<TreeFile> => {
  const found = (await hub.files(repository, commit, signal)).find((file) => file.path === name);
  if (!found) throw new Error(`There is no ${name}`);
  return found;
};

const download = (file: TreeFile, onBytes?: (count: number) => void) =>
  downloadBlob(file, { hub, cache, commit, signal, pause: 1, ...(onBytes ? { onBytes } : {}) });

const blobs = () => readdir(path.join(cache.directory, 'blobs'));

const options = (more: Partial<UpdateOptions> = {}): UpdateOptions => ({
  hub,
  cache,
  folders: ['MR'],
  extent: 'everything',
  signal,
  ...more,
});
const main = { repository, revision: 'main' };

describe('a download', () => {
  test('A download resumes where its connection broke', async () => {
    const file = await named('MR/CV_0.pt');
    fake.cuts.push(100_000, 50_000);
    await download(file);
    expect(await readFile(cache.blobFile(file))).toEqual(weights);
    expect(fake.stored.map(({ headers }) => headers.range)).toEqual([
      undefined,
      expect.stringMatching(/^bytes=\d+-299999$/),
      expect.stringMatching(/^bytes=\d+-299999$/),
    ]);
    expect(await blobs()).toEqual([blobName(file)]);
  });

  test('A download that breaks often is resumed as long as new bytes arrive', async () => {
    const file = await named('MR/CV_0.pt');
    fake.cuts.push(...Array.from({ length: 8 }, () => 30_000));
    await download(file);
    expect(await readFile(cache.blobFile(file))).toEqual(weights);
  });

  test('A download that breaks repeatedly without receiving a byte fails, and leaves no file', async () => {
    const file = await named('MR/CV_0.pt');
    fake.cuts.push(...Array.from({ length: 20 }, () => 0));
    await expect(download(file)).rejects.toThrow(/was not reached|ended too early/);
    expect(await blobs()).toEqual([]);
  });

  test.each([
    [
      'other content of the same length',
      Buffer.alloc(weights.length),
      /is not the one that the repository lists/,
    ],
    ['more than was listed', Buffer.concat([weights, Buffer.from('more')]), /longer than the 300000 bytes/],
  ])('A download of %s is refused, and leaves nothing', async (_, swapped, reason) => {
    const file = await named('MR/CV_0.pt');
    fake.swapped = swapped;
    await expect(download(file)).rejects.toThrow(reason);
    expect(await blobs()).toEqual([]);
  });

  test('A download of a file in Git is checked as well', async () => {
    const file = await named('MR/Prediction.yml');
    await download(file);
    await expect(download({ ...file, blobId: '0'.repeat(40) })).rejects.toThrow(
      /is not the one that the repository lists/,
    );
    expect(await blobs()).toEqual([file.blobId]);
  });

  test('A download is abandoned when the server stops', async () => {
    const file = await named('MR/CV_0.pt');
    const stop = new AbortController();
    const reason = new Error('stopped');
    const begun = downloadBlob(file, {
      hub,
      cache,
      commit,
      signal: stop.signal,
      onBytes: () => stop.abort(reason),
    });
    await expect(begun).rejects.toBe(reason);
    expect(await blobs()).toEqual([]);
  });

  test('A download of one file by several clients at once gives each the whole file', async () => {
    await Promise.all(Array.from({ length: 4 }, () => update(main, options())));
    const snapshot = cache.snapshot(commit);
    expect(await readFile(path.join(snapshot, 'MR/CV_0.pt'))).toEqual(weights);
    expect((await blobs()).filter((name) => name.endsWith('.incomplete'))).toEqual([]);
    expect(await readFile(cache.refFile('main'), 'utf8')).toBe(commit);
  });
});

describe('an update', () => {
  test('An update moves the revision when all files are there, and not before', async () => {
    await update(main, options());
    const next = fake.commit(repository, {
      ...files,
      'MR/CV_0.pt': 'third',
      'MR/Prediction.yml': 'new: 1\n',
    });
    fake.swapped = Buffer.from('wrong');
    await expect(update(main, options())).rejects.toThrow(/is not the one that the repository lists/);
    expect(cache.commitOf('main')).toBe(commit);
    fake.swapped = null;
    await update(main, options());
    expect(cache.commitOf('main')).toBe(next);
  });

  test('An update of a commit whose files are already present contacts no server', async () => {
    await update({ repository, revision: commit }, options());
    fake.forget();
    await update({ repository, revision: commit }, options());
    expect(fake.requests).toEqual([]);
  });

  test.each([
    '../../outside',
    'MR/../../../../outside',
    '/etc/outside',
    'MR/a\\..\\b',
    'MR/C:x',
    'MR//x',
    `MR/${'x/'.repeat(40)}x`,
    'MR/line\nbreak',
  ])('An update refuses a repository with a file named %j', async (name) => {
    fake.commit(repository, { ...files, [name]: 'planted' });
    await expect(update(main, options())).rejects.toThrow(/no name for a file of the cache/);
    expect(await readdir(directory.path)).toEqual([]);
  });

  test('An update refuses a description of too many files, which --download may fetch', async () => {
    const many = Array.from({ length: 2001 }, (_, index) => [`MR/${index}.txt`, 'x'] as const);
    fake.commit(repository, { ...files, ...Object.fromEntries(many) });
    await expect(update(main, options({ extent: 'description' }))).rejects.toThrow(/more than 2000 files/);
    expect(fake.requests.filter((each) => each.includes('/resolve/'))).toEqual([]);
  });

  test('An update refuses to follow a list of files to another server', async () => {
    // Its next page is at an address that is not the one that was named.
    fake.pageSize = 1;
    const elsewhere = new Hub({ endpoint: fake.url.replace('127.0.0.1', 'localhost'), token: () => 'hf_x' });
    await expect(elsewhere.files(repository, commit, signal)).rejects.toThrow(/which is not followed/);
  });

  test('An update writes nothing through a link that leads out of the cache', async () => {
    const outside = path.join(directory.path, 'outside');
    await mkdir(outside);
    await mkdir(cache.snapshot(commit), { recursive: true });
    await symlink(outside, path.join(cache.snapshot(commit), 'MR'));
    await expect(update(main, options())).rejects.toThrow(/leads out of the cache/);
    expect(await readdir(outside)).toEqual([]);
  });

  test('An update replaces a link whose content is gone', async () => {
    const file = await named('MR/Prediction.yml');
    const target = path.join(cache.snapshot(commit), file.path);
    await mkdir(path.dirname(target), { recursive: true });
    await symlink('../../../blobs/gone', target);
    await download(file);
    await placeInSnapshot(cache, commit, file);
    expect(await readlink(target)).toBe(`../../../blobs/${file.blobId}`);
  });

  test('An update deletes what a download killed over a day ago left behind, and nothing else', async () => {
    const old = path.join(cache.directory, 'blobs', `${'a'.repeat(40)}.0123abcd.incomplete`);
    const fresh = path.join(cache.directory, 'blobs', `${'b'.repeat(40)}.0123abcd.incomplete`);
    await placeText(old, 'x');
    await placeText(fresh, 'x');
    const yesterday = Date.now() / 1000 - 25 * 3600;
    // A complete file stays, however old it is.
    const complete = path.join(cache.directory, 'blobs', 'c'.repeat(40));
    await placeText(complete, 'x');
    for (const each of [old, complete]) await utimes(each, yesterday, yesterday);
    await update(main, options());
    const left = await blobs();
    expect(left.filter((name) => name.endsWith('.incomplete'))).toEqual([path.basename(fresh)]);
    expect(left).toContain(path.basename(complete));
  });
});

const disk = smallDisk(4);
test.skipIf(disk === null)(
  'A download that does not fit on the disk does not begin, but the description is available',
  async () => {
    const small = new RepositoryCache(path.join(disk ?? '', 'cache'), repository);
    fake.commit(repository, { ...files, 'MR/CV_0.pt': Buffer.alloc(2_500_000) });
    // It would fit, and leave almost nothing.
    const refused = update(main, options({ cache: small }));
    await expect(refused).rejects.toThrow(
      /needs 2\.4 MiB more, and [\d.]+ (KiB|MiB) are free where the cache is/,
    );
    expect(fake.stored).toEqual([]);
    const commit = small.commitOf('main') ?? '';
    expect((await small.files(commit, 'MR')).map(({ name }) => name)).toContain('app.json');
  },
);

test.each([
  [8, false],
  [9, true],
])('A description of %i files of 32 MiB is too large: %j', async (count, isTooMuch) => {
  const large = Array.from({ length: count }, (_, at) => ({
    ...{ path: `table-${at}.json`, size: 32 << 20, blobId: `${at}`.repeat(40), sha256: null },
  }));
  await placeText(cache.treeFile(commit), formatTree(large));
  const updating = update(
    { repository, revision: commit },
    options({ folders: [null], extent: 'description' }),
  );
  await expect(updating).rejects.toThrow(
    isTooMuch
      ? `The description of '${repository}' is more than 2000 files or 256 MiB, which is not fetched unasked: start the server ` +
          "with '--download', or download it with 'hf download'"
      : 'is not there',
  );
});

test('A file of more than 32 MiB, such as a scan to try an app with, is not fetched with its description', async () => {
  const scan = { path: 'example.nii', size: (32 << 20) + 1, blobId: 'a'.repeat(40), sha256: null };
  await placeText(cache.treeFile(commit), formatTree([scan]));
  await update({ repository, revision: commit }, options({ folders: [null], extent: 'description' }));
  expect(await cache.files(commit, null)).toEqual([]);
});

test('A hub that answers a range request with the whole file is refused', async () => {
  await using server = await ScriptedServer.start((_, response) => void response.end('0123456789'));
  const whole = { path: 'w', size: 10, blobId: 'a'.repeat(40), sha256: null };
  const read = async (from: number) => {
    const other = new Hub({ endpoint: server.url, token: () => null });
    let text = '';
    for await (const chunk of other.content('lab/app', commit, whole, from, signal))
      text += Buffer.from(chunk);
    return text;
  };
  expect(await read(0)).toBe('0123456789');
  await expect(read(4)).rejects.toThrow(`${server.url} does not send the rest of a file`);
  expect(server.received.map(({ headers }) => headers.range)).toEqual([undefined, 'bytes=4-9']);
});
