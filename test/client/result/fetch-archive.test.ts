import { statfsSync, statSync } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ArchiveFetch } from '../../../src/client/result/fetch-archive.js';
import type { OutputDirectory } from '../../../src/client/result/index.js';
import { formatBytes } from '../../../src/contract/index.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { type Entry, zip } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';

/**
 * What comes of an archive that is saved in `Output`.
 * @param there files that are there before
 * @returns with `SERVER` for its address, `ROOT` for the directory above `Output`, and `SIZE` for what the disk has free
 */
async function save(
  bytes: Buffer,
  taken: OutputDirectory['taken'] = 'number',
  { there = {}, name = 'all.zip', size = bytes.length, isInterrupted = false, isOwned = false } = {},
) {
  await using root = await temporary();
  await plant(root.path, there);
  await using server = await ScriptedServer.start((_, response) => {
    response.writeHead(200, { 'content-length': size }).write(bytes);
    if (size === bytes.length) response.end();
  });
  const controller = new AbortController();
  await using connection = connectTo(server.url, { signal: controller.signal });
  const told = memoryReporter();
  const progress: (typeof told)['progress'] = (...move) => {
    told.progress(...move);
    if (isInterrupted && move[0] === 'Extracting') controller.abort(new Error('interrupted'));
  };
  const reporter = { ...told, progress };
  const plainly = (text: string): string =>
    text
      .replaceAll(root.path, 'ROOT')
      .replaceAll(server.url, 'SERVER')
      .replaceAll(/\b\d+\.\d [GT]iB that are free|\b\d+\.\d [GT]iB are free/g, (found) =>
        found.replace(/.*iB/, 'SIZE'),
      );
  const directory = path.join(root.path, 'Output');
  if (isOwned) await mkdir(directory);
  const save = async () => {
    const request = (headers = {}) => connection.send('/', { headers });
    const answer = await request();
    const output = isOwned
      ? { owned: directory, place: directory, next: "run 'app again'" }
      : { directory, taken };
    await using archive = await ArchiveFetch.open({ reporter, name, output, again: 'app again' });
    const extracted = await archive.downloadAndExtract(connection, answer, request);
    return isOwned ? extracted : await archive.save();
  };
  const result: unknown = await save().then(
    (saved) => JSON.parse(plainly(JSON.stringify(saved))),
    (error: Error) => {
      const { fault, details } = error as { fault?: string; details?: unknown };
      return [plainly(error.message), fault ?? details];
    },
  );
  const entries = await readdir(root.path, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .toSorted();
  const read = async (file: string) => {
    const content = await readFile(file);
    const text = content.equals(bytes) ? 'all' : content.toString();
    return [path.relative(root.path, file), text] as const;
  };
  const modes = files.map((file) => statSync(file).mode & 0o777);
  const { notes, moves } = reporter;
  const contents = Object.fromEntries(await Promise.all(files.map(read)));
  return { result, names: (await readdir(root.path)).sort(), files: contents, modes, notes, moves };
}

const good: Entry = { name: 'good.nii', content: 'good' };
const damaged = zip([good, { name: 'bad.nii', content: 'bad', crc: 1 }]);
/** Some 20 TiB of files, as it says. */
const huge = zip(Array.from({ length: 5000 }, (_, at) => ({ name: `${at}`, statedSize: 2 ** 32 - 2 })));
/** One of its files has the place of the directory of another. */
const contradictory = zip([good, { name: 'a/b', content: 'b' }, { name: 'a', content: 'a' }]);
const saves = "'app again' saves it as it is";

test('An archive is saved and extracted with the usual file permissions, and its size is reported', async () => {
  const bytes = zip([good, { name: 'aux/all.zip', content: 'inner' }, { name: 'all.zip', content: 'own' }]);
  const { modes, ...rest } = await save(bytes);
  const renamed = "'all.zip' was extracted as 'all_1.zip': its own name cannot be used here";
  expect(rest).toEqual({
    result: {
      ...{ archive: 'ROOT/Output/all.zip', output: 'ROOT/Output' },
      ...{ files: 3, bytes: 12, notes: [renamed] },
    },
    names: ['Output'],
    files: {
      'Output/all.zip': 'all',
      'Output/all_1.zip': 'own',
      'Output/aux/all.zip': 'inner',
      'Output/good.nii': 'good',
    },
    notes: [renamed],
    moves: [
      ['Downloading', bytes.length, bytes.length],
      ...[4, 9, 12].map((done) => ['Extracting', done, 12]),
    ],
  });
  expect(modes).toEqual(modes.map(() => 0o666 & ~process.umask()));
});

test.each([
  ['damaged', damaged, 'corrupt', "its entry 'bad.nii' is damaged"],
  [
    'too large',
    huge,
    'tooLarge',
    'it needs more than the SIZE that are free there; free some space, then unzip it',
  ],
  ['unsafe', zip([good, { name: '../x' }]), 'unsafe', "its entry '../x' has a name that cannot be extracted"],
])(
  'An archive that is %s is saved but not extracted, and the error says why',
  async (_, bytes, fault, why) => {
    const { result, files } = await save(bytes);
    const [message, kind] = result as [string, string];
    const begin = "'ROOT/Output/all.zip' is saved, but it is not extracted: ";
    expect([message.slice(0, begin.length), message.slice(begin.length), kind]).toEqual([begin, why, fault]);
    expect(files).toEqual({ 'Output/all.zip': 'all' });
  },
);

test('An archive in a directory of the caller is extracted there, and the caller removes it', async () => {
  expect(await save(zip([good]), 'number', { isOwned: true })).toMatchObject({
    result: 'ROOT/Output/files',
    files: { 'Output/all.zip': 'all', 'Output/files/good.nii': 'good' },
  });
  expect(await save(damaged, 'number', { isOwned: true })).toMatchObject({
    result: [`The result is not extracted: its entry 'bad.nii' is damaged; ${saves}`, 'corrupt'],
  });
  expect(await save(huge, 'number', { isOwned: true })).toMatchObject({
    result: [
      "The result needs more than the SIZE that are free in 'ROOT/Output'; free some space, then run 'app again'",
      { code: 'ENOSPC' },
    ],
  });
});

test('An archive with an entry that has no place is saved with the rest, and refused in a directory of the caller', async () => {
  const rest = { 'Output/a/b': 'b', 'Output/all.zip': 'all', 'Output/good.nii': 'good' };
  const why = 'only a part of it is extracted: something else is in the place of';
  const lost = "'a' was not extracted: something else is in its place";
  const other = 'unzip it in another directory';
  expect(await save(contradictory)).toMatchObject({
    result: [`'ROOT/Output/all.zip' is saved, but ${why} 1 file; ${other}`, 'unplaced'],
    files: rest,
    notes: [lost],
  });
  expect(await save(contradictory, 'number', { isOwned: true })).toMatchObject({
    result: [`The result is incomplete: ${why} 1 file; ${saves}`, 'unplaced'],
  });
});

test.each([
  ['<html>', "'<html>'"],
  [`${'PK and more '.repeat(5)}`, "'PK and more PK and more PK and more PK a'"],
  ['', null],
])('%j is not an archive, and is not kept', async (text, shown) => {
  const { result, files } = await save(Buffer.from(text));
  const what =
    shown === null ? 'an archive of 0 bytes' : `something that is not a zip archive: it begins with ${shown}`;
  expect([(result as string[])[0], files]).toEqual([`SERVER sent ${what}; is it a remote-app server?`, {}]);
});

test('An archive that the disk has no room for is refused before its first byte is kept', async () => {
  const { bavail, bsize } = statfsSync(tmpdir());
  const size = 2 * bavail * bsize;
  const { result, names, moves } = await save(zip([good]), 'number', { size });
  expect([result, names, moves]).toEqual([
    [
      `'ROOT/Output/all.zip' would take ${formatBytes(size)}, and SIZE are free there; free some space, then run 'app again'`,
      { code: 'ENOSPC' },
    ],
    [],
    [],
  ]);
});

test('An archive that was not extracted because of an interruption leaves nothing', async () => {
  const two = zip([good, { name: 'b.nii', content: 'b' }]);
  const { result, names } = await save(two, 'number', { isInterrupted: true });
  expect([result, names]).toEqual([['interrupted', undefined], []]);
});

test('A file that cannot be created leaves nothing behind', async () => {
  const { result, names } = await save(zip([good]), 'number', {
    name: 'none/all.zip',
    there: { mine: 'mine' },
  });
  expect([result, names]).toEqual([
    [
      "Cannot write 'ROOT/Output/none/all.zip': no such file or directory (ENOENT); check that path, then run 'app again'",
      { code: 'ENOENT' },
    ],
    ['mine'],
  ]);
});
