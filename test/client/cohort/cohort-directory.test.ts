import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { computationOf, hashOutputs, makeRecord, writeRecord } from '../../../src/client/case/record.js';
import { CohortDirectory } from '../../../src/client/cohort/cohort-directory.js';
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
  cohort: CohortDirectory,
  files: Readonly<Record<string, string>>,
  isForced = false,
): Promise<void> {
  await cohort.receive('case', isForced, async (directory) => {
    await plant(directory, files);
    const facts = {
      computation: computationOf(submission, null),
      app: null,
      job: null,
      jobId: 'x',
      server: { address: 'x', version: null, devices: new Map() },
      clientVersion: '1',
      inputs: [],
    };
    const outputs = await hashOutputs(directory);
    writeRecord(directory, makeRecord(facts, outputs, {}));
    await plant(directory, { 'result.zip': 'packed' });
  });
}

/** The files of the case and their contents, without the record. */
async function filesOf(cohort: CohortDirectory): Promise<Record<string, string>> {
  const directory = cohort.directoryOf('case');
  const names = (await readdir(directory)).filter((name) => name !== 'remote-app-record.json');
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await readFile(path.join(directory, name), 'utf8')])),
  );
}

describe('a result', () => {
  test('replaces an earlier one, and leaves what that did not know', async () => {
    await using root = await temporary();
    using cohort = await CohortDirectory.open(root.path);
    await place(cohort, { 'mask.nii': 'first', 'old.txt': 'old' });
    await writeFile(path.join(cohort.directoryOf('case'), 'notes.txt'), 'mine');
    await place(cohort, { 'mask.nii': 'second', 'notes.txt': "the app's" });
    expect(await filesOf(cohort)).toEqual({
      'mask.nii': 'second',
      'notes.txt': "the app's",
      'notes_1.txt': 'mine',
    });
  });

  test('keeps a mask that a person has corrected beside the new one, unless --force replaces it', async () => {
    await using root = await temporary();
    using cohort = await CohortDirectory.open(root.path);
    await place(cohort, { 'mask.nii.gz': 'first' });
    await writeFile(path.join(cohort.directoryOf('case'), 'mask.nii.gz'), 'drawn');
    await place(cohort, { 'mask.nii.gz': 'second' });
    expect(await filesOf(cohort)).toEqual({ 'mask.nii.gz': 'second', 'mask_1.nii.gz': 'drawn' });
    await writeFile(path.join(cohort.directoryOf('case'), 'mask.nii.gz'), 'drawn again');
    await place(cohort, { 'mask.nii.gz': 'third' }, true);
    expect(await filesOf(cohort)).toEqual({ 'mask.nii.gz': 'third', 'mask_1.nii.gz': 'drawn' });
  });

  test('is put back if the command was killed while it replaced it', async () => {
    await using root = await temporary();
    {
      using cohort = await CohortDirectory.open(root.path);
      await place(cohort, { 'mask.nii': 'first' });
      const old = path.join(cohort.own, 'old');
      await mkdir(old);
      await mkdir(path.join(cohort.own, 'new-abc'));
      await rename(cohort.directoryOf('case'), path.join(old, 'case'));
    }
    using cohort = await CohortDirectory.open(root.path);
    expect(await filesOf(cohort)).toEqual({ 'mask.nii': 'first' });
    expect(await readdir(cohort.own)).toEqual([]);
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
  using cohort = await CohortDirectory.open(root.path);
  expect(await readdir(cohort.own)).toEqual([]);
  expect((await readdir(root.path)).sort()).toEqual(['.remote-app', 'cases.csv', 'cases.csv.partial']);
});

test('files that no record names are refused a result without --force', async () => {
  await using root = await temporary();
  await plant(root.path, { 'case/mask.nii': 'mine', 'empty/': '' });
  using cohort = await CohortDirectory.open(root.path);
  expect(() => cohort.checkReplaceable('case', false)).toThrow('has files that no record names');
  cohort.checkReplaceable('case', true);
  cohort.checkReplaceable('empty', false);
  cohort.checkReplaceable('new', false);
});

test('outputs are known again by their times, and read where these are others', async () => {
  await using root = await temporary();
  {
    using cohort = await CohortDirectory.open(root.path);
    await place(cohort, { 'mask.nii': 'first' });
    cohort.saveSeen(['case']);
  }
  using cohort = await CohortDirectory.open(root.path);
  const record = cohort.record('case');
  if (!record) throw new Error('there is no record');
  expect(await cohort.hasOutputs('case', record, 'seen')).toBe(true);
  const mask = path.join(cohort.directoryOf('case'), 'mask.nii');
  await writeFile(mask, 'first');
  expect(await cohort.hasOutputs('case', record, 'seen')).toBe(false);
  expect(await cohort.hasOutputs('case', record, 'read')).toBe(true);
  await writeFile(mask, 'other');
  expect(await cohort.hasOutputs('case', record, 'read')).toBe(false);
});

test('a directory has one command at a time', async () => {
  await using root = await temporary();
  using _first = await CohortDirectory.open(root.path);
  await expect(CohortDirectory.open(root.path)).rejects.toThrow('Another command writes results to');
});
