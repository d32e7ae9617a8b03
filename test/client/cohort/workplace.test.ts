import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { computationOf, hashOutputs, makeRecord, writeRecord } from '../../../src/client/cohort/record.js';
import { Workplace } from '../../../src/client/cohort/workplace.js';
import { operationOf } from '../../../src/contract/operations.js';
import { plant, temporary } from '../../support/temporary.js';

const submission = {
  operation: operationOf('infer'),
  app: 'x',
  fields: {},
  options: {},
  files: [],
  archive: null,
};

/** Puts a result of these files in the place of the case. */
async function place(
  workplace: Workplace,
  files: Readonly<Record<string, string>>,
  isForced = false,
): Promise<void> {
  const complete = path.join(await workplace.privateDirectory(), 'files');
  await plant(complete, files);
  const facts = {
    computation: computationOf(submission, null),
    app: null,
    job: null,
    jobId: 'x',
    server: { address: 'x', version: null, devices: new Map() },
    clientVersion: '1',
  };
  const outputs = await hashOutputs(complete);
  writeRecord(complete, makeRecord({ ...facts, inputs: [], outputs, numbers: {} }));
  await workplace.place('case', complete, isForced);
}

/** The files of the case and their contents, without the record. */
async function filesOf(workplace: Workplace): Promise<Record<string, string>> {
  const directory = workplace.placeOf('case');
  const names = (await readdir(directory)).filter((name) => name !== 'remote-app-record.json');
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await readFile(path.join(directory, name), 'utf8')])),
  );
}

describe('a result', () => {
  test('replaces an earlier one, and leaves what that did not know', async () => {
    await using root = await temporary();
    using workplace = await Workplace.open(root.path);
    await place(workplace, { 'mask.nii': 'first', 'old.txt': 'old' });
    await writeFile(path.join(workplace.placeOf('case'), 'notes.txt'), 'mine');
    await place(workplace, { 'mask.nii': 'second', 'notes.txt': "the app's" });
    expect(await filesOf(workplace)).toEqual({
      'mask.nii': 'second',
      'notes.txt': "the app's",
      'notes_1.txt': 'mine',
    });
  });

  test('keeps a mask that a person has corrected beside the new one, unless --force replaces it', async () => {
    await using root = await temporary();
    using workplace = await Workplace.open(root.path);
    await place(workplace, { 'mask.nii.gz': 'first' });
    await writeFile(path.join(workplace.placeOf('case'), 'mask.nii.gz'), 'drawn');
    await place(workplace, { 'mask.nii.gz': 'second' });
    expect(await filesOf(workplace)).toEqual({ 'mask.nii.gz': 'second', 'mask_1.nii.gz': 'drawn' });
    await writeFile(path.join(workplace.placeOf('case'), 'mask.nii.gz'), 'drawn again');
    await place(workplace, { 'mask.nii.gz': 'third' }, true);
    expect(await filesOf(workplace)).toEqual({ 'mask.nii.gz': 'third', 'mask_1.nii.gz': 'drawn' });
  });

  test('is put back if the command was killed while it replaced it', async () => {
    await using root = await temporary();
    {
      using workplace = await Workplace.open(root.path);
      await place(workplace, { 'mask.nii': 'first' });
      const old = path.join(workplace.own, 'old');
      await mkdir(old);
      await mkdir(path.join(workplace.own, 'new-abc'));
      await rename(workplace.placeOf('case'), path.join(old, 'case'));
    }
    using workplace = await Workplace.open(root.path);
    expect(await filesOf(workplace)).toEqual({ 'mask.nii': 'first' });
    expect(await readdir(workplace.own)).toEqual([]);
  });
});

test('files that a command was writing when it was killed are removed', async () => {
  await using root = await temporary();
  await plant(root.path, {
    'cases.csv': 'case',
    'cases.csv.12.partial': 'ca',
    'cases.csv.partial': 'mine',
    '.remote-app/seen.json.12.partial': '{',
    '.remote-app/jobs.jsonl.12.partial': '',
  });
  using workplace = await Workplace.open(root.path);
  expect(await readdir(workplace.own)).toEqual([]);
  expect((await readdir(root.path)).sort()).toEqual(['.remote-app', 'cases.csv', 'cases.csv.partial']);
});

test('files that no record names are refused a result without --force', async () => {
  await using root = await temporary();
  await plant(root.path, { 'case/mask.nii': 'mine', 'empty/': '' });
  using workplace = await Workplace.open(root.path);
  expect(() => workplace.checkPlace('case', false)).toThrow('has files that no record names');
  workplace.checkPlace('case', true);
  workplace.checkPlace('empty', false);
  workplace.checkPlace('new', false);
});

test('outputs are known again by their times, and read where these are others', async () => {
  await using root = await temporary();
  {
    using workplace = await Workplace.open(root.path);
    await place(workplace, { 'mask.nii': 'first' });
    workplace.saveSeen(['case']);
  }
  using workplace = await Workplace.open(root.path);
  const record = workplace.record('case');
  if (!record) throw new Error('there is no record');
  expect(await workplace.hasOutputs('case', record, 'seen')).toBe(true);
  const mask = path.join(workplace.placeOf('case'), 'mask.nii');
  await writeFile(mask, 'first');
  expect(await workplace.hasOutputs('case', record, 'seen')).toBe(false);
  expect(await workplace.hasOutputs('case', record, 'read')).toBe(true);
  await writeFile(mask, 'other');
  expect(await workplace.hasOutputs('case', record, 'read')).toBe(false);
});

test('a directory has one command at a time', async () => {
  await using root = await temporary();
  using _first = await Workplace.open(root.path);
  await expect(Workplace.open(root.path)).rejects.toThrow('Another command writes results to');
});
