import { mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { hashOutputs, writeRecord } from '../../../src/client/case/record.js';
import { BidsLayout } from '../../../src/client/cohort/bids-layout.js';
import { checkPlace, directoryPlace } from '../../../src/client/cohort/case-place.js';
import { ResultsDirectory } from '../../../src/client/cohort/results-directory.js';
import { filesBelow } from '../../../src/files/index.js';
import { silentRecord } from '../../support/record-facts.js';
import { plant, temporary } from '../../support/temporary.js';

const placeIn = (results: ResultsDirectory) => directoryPlace(results.directory, 'A/t1');

/** Puts a result of these files into the place of a case. @param key of the case */
async function receive(
  results: ResultsDirectory,
  files: Readonly<Record<string, string>>,
  { key = 'k1', isForced = false } = {},
) {
  await using own = await results.privateDirectory();
  const directory = path.join(own.path, 'files');
  await plant(directory, files);
  const outputs = await hashOutputs(directory);
  writeRecord(directory, silentRecord({ outputs, key }));
  const place = placeIn(results);
  await results.prepareForPlace('A/t1', place, directory, { inputs: null, isForced });
  await results.putInPlace(place, directory);
  return results.readRecord(place);
}

/** The files of the case and their contents, without the record. */
async function filesOf(results: ResultsDirectory): Promise<Record<string, string>> {
  const { directory } = placeIn(results);
  const files = filesBelow(directory).map((each) => path.join(each.parentPath, each.name));
  const named = files.map(async (file) => [path.relative(directory, file), await readFile(file, 'utf8')]);
  const entries: string[][] = await Promise.all(named);
  return Object.fromEntries(entries.filter(([name]) => name !== 'remote-app-record.json').sort());
}

describe('files changed by a person', () => {
  test('A file that a person has changed is kept next to a new result under a name that says so, even a second time', async () => {
    await using root = await temporary();
    using results = await ResultsDirectory.open(root.path);
    const mask = path.join(placeIn(results).directory, 'mask.nii');
    await receive(results, { 'mask.nii': 'first', 'old.txt': 'old' });
    await writeFile(mask, 'drawn once');
    await receive(results, { 'mask.nii': 'second' }, { key: 'k2' });
    expect(await filesOf(results)).toEqual({ 'mask.nii': 'second', 'mask_edited.nii': 'drawn once' });
    await writeFile(mask, 'drawn twice');
    const record = await receive(results, { 'mask.nii': 'third' }, { key: 'k3' });
    expect(await filesOf(results)).toEqual({
      'mask.nii': 'third',
      'mask_edited.nii': 'drawn once',
      'mask_edited_1.nii': 'drawn twice',
    });
    expect(record?.edited.toReversed()).toEqual([
      { name: 'mask_edited.nii', from: 'mask.nii', key: 'k1' },
      { name: 'mask_edited_1.nii', from: 'mask.nii', key: 'k2' },
    ]);
    // The first input is back.
    await receive(results, { 'mask.nii': 'first' });
    expect(await filesOf(results)).toMatchObject({
      'mask.nii': 'drawn once',
      'mask_edited.nii': 'drawn once',
    });
  });

  test('A changed file keeps its name if the same result is completed, and gets another if it is forced again', async () => {
    await using root = await temporary();
    using results = await ResultsDirectory.open(root.path);
    const made = { 'mask.nii': 'first', 'x.zarr/0': 'a', 'x.zarr/1': 'b' };
    await receive(results, made);
    await plant(placeIn(results).directory, { 'mask.nii': 'drawn', 'x.zarr/1': 'drawn' });
    await receive(results, made);
    expect(await filesOf(results)).toEqual({ 'mask.nii': 'drawn', 'x.zarr/0': 'a', 'x.zarr/1': 'drawn' });
    await receive(results, made, { isForced: true });
    // A store that was changed is kept whole.
    expect(await filesOf(results)).toEqual({
      ...made,
      'mask_edited.nii': 'drawn',
      'x_edited.zarr/0': 'a',
      'x_edited.zarr/1': 'drawn',
    });
  });

  test("A person's file is kept if the new result needs its name for a directory, or its directory's name for a file", async () => {
    await using root = await temporary();
    using results = await ResultsDirectory.open(root.path);
    await receive(results, { 'mask.nii': 'first' });
    await plant(placeIn(results).directory, { notes: 'mine', 'more/a.txt': 'mine' });
    await receive(results, { 'notes/x.txt': 'x', more: 'y' }, { key: 'k2' });
    expect(Object.entries(await filesOf(results)).filter(([, text]) => text === 'mine')).toEqual([
      ['a_edited.txt', 'mine'],
      ['notes_edited', 'mine'],
    ]);
  });
});

test('A result that a killed command was replacing is restored', async () => {
  await using root = await temporary();
  {
    using results = await ResultsDirectory.open(root.path);
    await receive(results, { 'mask.nii': 'first' });
    const place = placeIn(results);
    await plant(results.own, {
      'old-abc/place.json': JSON.stringify({ ...place, directory: 'A/t1' }),
      'old-abc/files/': '',
      'old-xyz/files/mask.nii': 'of an unknown place',
      'new-abc/files/': '',
    });
    await rename(place.directory, path.join(results.own, 'old-abc/files/t1'));
  }
  using results = await ResultsDirectory.open(root.path);
  expect(await filesOf(results)).toEqual({ 'mask.nii': 'first' });
  expect(await readdir(results.own)).toEqual(['old-xyz']);
});

test('Files that a command was writing when it was killed are removed', async () => {
  await using root = await temporary();
  await plant(root.path, {
    'cases.csv': 'case',
    'cases.csv.12.partial': 'ca',
    'cases.csv.partial': 'mine',
    '.remote-app/jobs.jsonl.12.partial': '',
  });
  using results = await ResultsDirectory.open(root.path);
  expect(await readdir(results.own)).toEqual([]);
  expect((await readdir(root.path)).sort()).toEqual(['.remote-app', 'cases.csv', 'cases.csv.partial']);
});

test.each([
  ['unknown', 'has files that no record names; move them, or give --force'],
  ['file', 'is a file where the result would go'],
  ['result/inside', 'has the result of another case'],
  ['outer', 'has results of other cases'],
])("A result is not put into '%s', which %s", async (name, why) => {
  await using root = await temporary();
  await plant(root.path, {
    'unknown/mask.nii': 'mine',
    file: 'mine',
    'empty/': '',
    'result/': '',
    'outer/a/': '',
  });
  for (const each of ['result', 'outer/a']) writeRecord(path.join(root.path, each), silentRecord());
  const check = (each: string, isForced: boolean) =>
    checkPlace(root.path, directoryPlace(root.path, each), isForced);
  expect(() => check(name, false)).toThrow(why);
  if (name === 'unknown') check(name, true);
  else expect(() => check(name, true)).toThrow(why);
  for (const free of ['empty', 'new', 'new/inside']) check(free, false);
});

test('An unreadable description of a data set is not mistaken for that of our derivatives', async () => {
  await using root = await temporary();
  const layout = new BidsLayout(root.path, 'x');
  layout.checkDirectory();
  await plant(root.path, { 'dataset_description.json': '{' });
  expect(() => layout.checkDirectory()).toThrow('is that of another data set: name a directory');
});

describe('a link in place of our own file', () => {
  test.each(['.remote-app', '.remote-app/old-abc', '.remote-app/jobs.jsonl', 'cases.csv'])(
    'A link in place of something that we write is refused, and its target is left alone: %s',
    async (name) => {
      await using root = await temporary();
      await using other = await temporary();
      await plant(other.path, { 'new-work/thesis.txt': 'mine', 'files/t1': 'mine' });
      if (name.includes('/')) await mkdir(path.join(root.path, '.remote-app'));
      await symlink(other.path, path.join(root.path, name));
      await expect(ResultsDirectory.open(root.path)).rejects.toThrow(
        `'${path.join(root.path, name)}' is a link, and results are not written through links; remove it`,
      );
      expect((await readdir(other.path, { recursive: true })).sort()).toEqual([
        ...['files', 'files/t1', 'new-work', 'new-work/thesis.txt'],
      ]);
    },
  );
});
