import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  computationOf,
  digestOf,
  hashInputs,
  hashOutputs,
  makeRecord,
  writeRecord,
} from '../../../src/client/case/record.js';
import { checkDerivatives } from '../../../src/client/cohort/bids-layout.js';
import { CohortDirectory } from '../../../src/client/cohort/cohort-directory.js';
import { aboutEarlierResult, otherCases, stateOfResult } from '../../../src/client/cohort/earlier-results.js';
import { findCasesToSend } from '../../../src/client/cohort/index.js';
import { WriteError } from '../../../src/client/errors.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import { silentFacts } from '../../support/record-facts.js';
import { plant, temporary } from '../../support/temporary.js';
import { memoryReporter } from '../support/connect.js';
import { complete } from '../support/results.js';

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
  digest = digestOf([]),
): Promise<void> {
  await cohort.receive('case', { digest, isForced }, async (directory) => {
    await plant(directory, files);
    const outputs = await hashOutputs(directory);
    writeRecord(directory, makeRecord(silentFacts(submission), outputs, { numbers: {}, unread: [] }));
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
      'notes.txt': 'mine',
      'notes_1.txt': "the app's",
    });
    expect(cohort.record('case')?.outputs.map(({ name }) => name)).toEqual(['mask.nii', 'notes_1.txt']);
  });

  test('has another name beside a mask that a person has corrected, unless --force replaces that', async () => {
    await using root = await temporary();
    using cohort = await CohortDirectory.open(root.path);
    await place(cohort, { 'mask.nii.gz': 'first' });
    await writeFile(path.join(cohort.directoryOf('case'), 'mask.nii.gz'), 'drawn');
    await place(cohort, { 'mask.nii.gz': 'second' });
    expect(await filesOf(cohort)).toEqual({ 'mask.nii.gz': 'drawn', 'mask_1.nii.gz': 'second' });
    expect(cohort.record('case')).toMatchObject({
      kept: ['mask.nii.gz'],
      outputs: [{ name: 'mask_1.nii.gz' }],
    });
    await place(cohort, { 'mask.nii.gz': 'third' });
    expect(await filesOf(cohort)).toEqual({ 'mask.nii.gz': 'drawn', 'mask_1.nii.gz': 'third' });
    await writeFile(path.join(cohort.directoryOf('case'), 'mask.nii.gz'), 'drawn again');
    await place(cohort, { 'mask.nii.gz': 'fourth' }, true);
    expect(await filesOf(cohort)).toEqual({ 'mask.nii.gz': 'fourth' });
    expect(cohort.record('case')?.kept).toEqual([]);
  });

  test('makes way for files of a person whose directories have the names of its files, and the other way round', async () => {
    await using root = await temporary();
    using cohort = await CohortDirectory.open(root.path);
    await place(cohort, { 'mask.nii': 'first' });
    const mine = { 'tables/a.txt': 'mine', masks: 'mine', 'remote-app-record.json.d/x': 'mine' };
    await plant(cohort.directoryOf('case'), mine);
    await place(cohort, { tables: 'second', 'masks/left.nii': 'second' });
    const directory = cohort.directoryOf('case');
    const read = (name: string) => readFile(path.join(directory, name), 'utf8');
    expect(await Promise.all(Object.keys(mine).map(read))).toEqual(['mine', 'mine', 'mine']);
    expect(
      cohort
        .record('case')
        ?.outputs.map(({ name }) => name)
        .sort(),
    ).toEqual(['masks_1/left.nii', 'tables_1']);
    expect(await read('tables_1')).toBe('second');
  });

  test('of another input replaces no mask that a person has corrected: all of that is set aside', async () => {
    await using root = await temporary();
    using cohort = await CohortDirectory.open(root.path);
    await place(cohort, { 'mask.nii': 'first' });
    await writeFile(path.join(cohort.directoryOf('case'), 'mask.nii'), 'drawn');
    await place(cohort, { 'mask.nii': 'second' }, false, 'digest of another scan');
    expect(await filesOf(cohort)).toEqual({ 'mask.nii': 'second' });
    const aside = path.join(cohort.own, 'stale', 'case', 'mask.nii');
    expect(await readFile(aside, 'utf8')).toBe('drawn');
  });

  test('has files of a person beside it whose directory has the name of the record', async () => {
    await using root = await temporary();
    using cohort = await CohortDirectory.open(root.path);
    await plant(cohort.directoryOf('case'), { 'remote-app-record.json/x.txt': 'mine' });
    await place(cohort, { 'mask.nii': 'mask' }, true);
    const kept = path.join(cohort.directoryOf('case'), 'remote-app-record_1.json', 'x.txt');
    expect([await readFile(kept, 'utf8'), cohort.record('case')?.outputs.map(({ name }) => name)]).toEqual([
      ...['mine', ['mask.nii']],
    ]);
  });

  test('has the place of a file that --force replaces', async () => {
    await using root = await temporary();
    await plant(root.path, { case: 'mine' });
    using cohort = await CohortDirectory.open(root.path);
    expect(() => cohort.checkReplaceable('case', false)).toThrow('has files that no record names');
    await place(cohort, { 'mask.nii': 'mask' }, true);
    expect(await filesOf(cohort)).toEqual({ 'mask.nii': 'mask' });
    expect(await readdir(cohort.own)).toEqual(['old']);
  });

  test('is set aside beside others of its case, of which that of the key is taken back', async () => {
    await using root = await temporary();
    using cohort = await CohortDirectory.open(root.path);
    for (const [at, aside] of ['case', 'case_1', 'case_2'].entries()) {
      await place(cohort, { 'mask.nii': String(at) });
      const record = cohort.record('case');
      if (record) writeRecord(cohort.directoryOf('case'), { ...record, key: `k${at}` });
      expect(cohort.setAside('case')).toBe(path.join('.remote-app', 'stale', aside));
    }
    expect(cohort.takeBack('case', 'k1')?.key).toBe('k1');
    expect(await filesOf(cohort)).toEqual({ 'mask.nii': '1' });
    expect(cohort.takeBack('case', 'k2')).toBeNull();
    expect(await filesOf(cohort)).toEqual({ 'mask.nii': '1' });
    expect((await readdir(path.join(cohort.own, 'stale'))).sort()).toEqual(['case', 'case_2']);
  });

  test('that was set aside is put back when its input is there again', async () => {
    await using root = await temporary();
    using cohort = await CohortDirectory.open(root.path);
    await place(cohort, { 'mask.nii': 'first' });
    const key = cohort.record('case')?.key ?? '';
    expect(cohort.setAside('case')).toBe(path.join('.remote-app', 'stale', 'case'));
    expect(cohort.takeBack('case', 'another')).toBeNull();
    expect(cohort.takeBack('case', key)).not.toBeNull();
    expect(await filesOf(cohort)).toEqual({ 'mask.nii': 'first' });
    expect(cohort.takeBack('case', key)).toBeNull();
  });

  test('stays where it is while one of the two files of its case has only a pointer of Git LFS', async () => {
    await using root = await temporary();
    await plant(root.path, { 'scans/ct.nii': 'ct', 'scans/pet.nii': 'pet' });
    const pet = path.join(root.path, 'scans/pet.nii');
    const groups = [[path.join(root.path, 'scans/ct.nii')], [pet]];
    const field = fieldWithRole(submission.operation, 'paths');
    const files = await findFiles({ ...submission, files: [{ field, groups }] });
    using cohort = await CohortDirectory.open(path.join(root.path, 'Out'));
    await place(cohort, { 'mask.nii': 'mask' });
    const oid = 'a'.repeat(64);
    await writeFile(pet, `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize 9437184\n`);
    const computation = computationOf(submission, null, null);
    const found = { ...{ name: 'case', subject: null, session: null, fault: null }, files, isAway: true };
    expect(await aboutEarlierResult(cohort, found, computation, undefined)).toBe(
      '; whether the result that is there belongs to it cannot be told',
    );
    expect(await filesOf(cohort)).toEqual({ 'mask.nii': 'mask' });
  });

  test('of one of two equal scans stays that of this scan when the other one is gone', async () => {
    await using root = await temporary();
    const output = path.join(root.path, 'Out');
    const field = fieldWithRole(submission.operation, 'paths');
    const find = async (...names: readonly string[]) => {
      await plant(root.path, Object.fromEntries(names.map((name) => [`scans/${name}/ct.nii`, 'equal'])));
      const files = [{ field, groups: [[path.join(root.path, 'scans')]] }];
      const options = {
        imaging,
        output,
        reporter: memoryReporter(),
        layout: 'cases',
        skipsIncomplete: false,
      } as const;
      return (await findCasesToSend({ ...submission, files }, options)).cases;
    };
    for (const { name, files } of await find('p1', 'p2')) {
      const facts = { ...silentFacts(submission), inputs: await hashInputs(files) };
      await plant(output, { [`${name}/`]: '' });
      writeRecord(path.join(output, name), makeRecord(facts, [], { numbers: {}, unread: [] }));
    }
    await rm(path.join(root.path, 'scans/p1'), { recursive: true });
    expect((await find('p2', 'p3')).map(({ name }) => name)).toEqual(['p2_ct', 'p1_ct']);
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
    cohort.saveSeen(new Set(['case']));
  }
  using cohort = await CohortDirectory.open(root.path);
  const record = cohort.record('case');
  if (!record) throw new Error('there is no record');
  expect(await cohort.stateOfOutputs('case', record, 'seen')).toBe('intact');
  const mask = path.join(cohort.directoryOf('case'), 'mask.nii');
  await writeFile(mask, 'first');
  expect(await cohort.stateOfOutputs('case', record, 'seen')).toBe('unknown');
  expect(await cohort.stateOfOutputs('case', record, 'read')).toBe('intact');
  await writeFile(mask, 'other');
  expect(await cohort.stateOfOutputs('case', record, 'read')).toBe('edited');
});

test('cases without a result keep the rows of earlier commands, which say why, and those of this command do not', async () => {
  await using root = await temporary();
  const rows = ['a,failed,too small,j1', 'b,waiting,disk full,j2', 'c,done,,j3', 'd,failed,gone,j4'];
  await plant(root.path, { 'cases.csv': ['case,status,reason,job', ...rows].join('\r\n') });
  using cohort = await CohortDirectory.open(root.path);
  const others = await otherCases(cohort, new Set(['d']));
  expect(others.map(({ name, status, reason, jobId }) => [name, status, reason, jobId])).toEqual([
    ['a', 'failed', 'too small', 'j1'],
    ['b', 'waiting', 'disk full', 'j2'],
  ]);
});

test('cases of earlier commands have their entities from the table, otherwise from their names', async () => {
  await using root = await temporary();
  const rows = ['sub-01_ses-2_T1w,failed,too small,,,', 'x,waiting,,j2,07,3', 'y,running,,j3,,'];
  await plant(root.path, {
    'cases.csv': ['case,status,reason,job,subject,session', ...rows].join('\r\n'),
  });
  using cohort = await CohortDirectory.open(root.path);
  await place(cohort, { 'mask.nii': 'mask' });
  const none = { seconds: null, isNew: false, numbers: {} };
  expect(await otherCases(cohort, new Set())).toEqual([
    { ...none, name: 'case', subject: null, session: null, status: 'done', reason: null, jobId: 'x' },
    {
      ...none,
      name: 'sub-01_ses-2_T1w',
      subject: '01',
      session: '2',
      status: 'failed',
      reason: 'too small',
      jobId: null,
    },
    { ...none, name: 'x', subject: '07', session: '3', status: 'waiting', reason: null, jobId: 'j2' },
  ]);
  expect((await otherCases(cohort, new Set(['case', 'x']))).map(({ name }) => name)).toEqual([
    'sub-01_ses-2_T1w',
  ]);
});

test('a result says what a person has changed of it, what is not read of its numbers, and what was not converted', async () => {
  await using root = await temporary();
  using cohort = await CohortDirectory.open(root.path);
  await place(cohort, { 'a.nii': 'a', 'b.nii': 'b', 'c.nii': 'c' });
  const record = cohort.record('case');
  if (!record) throw new Error('there is no record');
  const conversion = { as: ['nrrd' as const], outputs: [], problems: ['a.nii is not converted'] };
  const told = {
    ...record,
    seconds: 7,
    numbers: { dice: 1 },
    numbers_unread: ['One is not read'],
    conversion,
  };
  const remarks = 'One is not read; a.nii is not converted';
  expect(await stateOfResult(cohort, 'case', told)).toEqual({
    ...{ status: 'done', reason: remarks, seconds: 7, jobId: 'x', numbers: { dice: 1 } },
  });
  expect(await stateOfResult(cohort, 'case', record)).toMatchObject({ status: 'done', reason: null });
  const edit = (name: string) => writeFile(path.join(cohort.directoryOf('case'), name), 'mine');
  await edit('b.nii');
  expect(await stateOfResult(cohort, 'case', told)).toMatchObject({
    ...{ status: 'edited', reason: `A person has changed 'b.nii'; ${remarks}` },
  });
  await edit('c.nii');
  await edit('notes.txt');
  const kept = { ...record, kept: ['notes.txt', 'gone.txt'] };
  expect(await stateOfResult(cohort, 'case', kept)).toMatchObject({
    reason: "A person has changed 'notes.txt' and 2 other files",
  });
});

test('a failed case says what the result is that is there', async () => {
  await using root = await temporary();
  await plant(root.path, { 'scans/ct.nii': 'ct' });
  const scan = path.join(root.path, 'scans/ct.nii');
  const field = fieldWithRole(submission.operation, 'paths');
  const files = await findFiles({ ...submission, files: [{ field, groups: [[scan]] }] });
  using cohort = await CohortDirectory.open(path.join(root.path, 'Out'));
  const computation = computationOf(submission, null, null);
  const found = { ...{ name: 'case', subject: null, session: null, fault: null }, files, isAway: false };
  const about = (more: object = {}) =>
    aboutEarlierResult(cohort, found, { ...computation, ...more }, undefined);
  expect(await about()).toBe('');
  const inputs = await hashInputs(files);
  await cohort.receive('case', { digest: digestOf(inputs), isForced: false }, async (directory) => {
    await plant(directory, { 'mask.nii': 'mask', 'result.zip': 'packed' });
    writeRecord(
      directory,
      makeRecord({ ...silentFacts(submission), inputs }, [], { numbers: {}, unread: [] }),
    );
  });
  expect(await about()).toBe('');
  expect(await about({ version: 'sha256:2' })).toBe(
    '; the result that is there was made with other options or another version',
  );
  await writeFile(scan, 'another');
  expect(await about()).toBe('; the result of its earlier input was moved to .remote-app/stale/case');
  expect(cohort.record('case')).toBeNull();
});

test('what a command cannot write through is refused', async () => {
  await using root = await temporary();
  await plant(root.path, { '.remote-app': 'a file' });
  await expect(CohortDirectory.open(root.path)).rejects.toThrow(
    `'${path.join(root.path, '.remote-app')}' is not a directory; move it`,
  );
});

test('outputs that are gone are missing, and all are read where that is asked for', async () => {
  await using root = await temporary();
  using cohort = await CohortDirectory.open(root.path);
  await place(cohort, { 'a.nii': 'aa', 'b.nii': 'b' });
  const record = cohort.record('case');
  if (!record) throw new Error('there is no record');
  const state = (how: 'seen' | 'read' | 'verify') => cohort.stateOfOutputs('case', record, how);
  const lying = { ...record, outputs: record.outputs.map((each) => ({ ...each, sha256: '0'.repeat(64) })) };
  // By its times it is what it was.
  expect([
    await cohort.stateOfOutputs('case', lying, 'read'),
    await cohort.stateOfOutputs('case', lying, 'verify'),
  ]).toEqual(['intact', 'edited']);
  await rm(path.join(cohort.directoryOf('case'), 'b.nii'));
  expect([await state('seen'), await state('read'), await cohort.editedFiles('case', record)]).toEqual([
    'unknown',
    'missing',
    [],
  ]);
  expect([cohort.seenDigest('case', 's'), cohort.looks.note('case', { stamp: 's', digest: 'd' })]).toEqual([
    null,
    undefined,
  ]);
  expect([cohort.seenDigest('case', 's'), cohort.seenDigest('case', 't')]).toEqual(['d', null]);
});

test('a result that cannot be written says that the same command goes on, and leaves nothing', async () => {
  await using root = await temporary();
  using cohort = await CohortDirectory.open(root.path);
  const full = Object.assign(new Error('x'), { code: 'ENOSPC', errno: -28 });
  const fails = cohort.receive('case', { digest: '', isForced: false }, () =>
    Promise.reject(new WriteError('/private', full, 'x')),
  );
  await expect(fails).rejects.toThrow(
    `Cannot write '${cohort.directoryOf('case')}': no space left on device (ENOSPC); free some space, then give the same command again: finished cases are kept`,
  );
  expect(await readdir(cohort.own)).toEqual([]);
});

test('a description of a data set that cannot be read is not taken for that of our derivatives', async () => {
  await using root = await temporary();
  checkDerivatives(root.path, 'x');
  await plant(root.path, { 'dataset_description.json': '{' });
  expect(() => checkDerivatives(root.path, 'x')).toThrow('is that of another data set: name a directory');
});

test('a directory has one command at a time', async () => {
  await using root = await temporary();
  using _first = await CohortDirectory.open(root.path);
  await expect(CohortDirectory.open(root.path)).rejects.toThrow('Another command writes results to');
});

describe('a link in the place of what is written here', () => {
  test.each(['.remote-app', '.remote-app/old', '.remote-app/stale', '.remote-app/jobs.jsonl', 'cases.csv'])(
    '%s is refused, and nothing is moved or removed where it leads',
    async (name) => {
      await using root = await temporary();
      await using other = await temporary();
      await plant(other.path, { 'new-work/thesis.txt': 'mine', old: 'mine', 'case/a.nii': 'mine' });
      if (name.includes('/')) await mkdir(path.join(root.path, '.remote-app'));
      await symlink(other.path, path.join(root.path, name));
      await expect(CohortDirectory.open(root.path)).rejects.toThrow(
        `'${path.join(root.path, name)}' is a link, and results are not written through links; remove it`,
      );
      expect((await readdir(other.path, { recursive: true })).sort()).toEqual([
        'case',
        'case/a.nii',
        'new-work',
        'new-work/thesis.txt',
        'old',
      ]);
    },
  );

  test('of a case is refused for that case', async () => {
    await using root = await temporary();
    await using other = await temporary();
    await complete(other.path, {});
    await symlink(other.path, path.join(root.path, 'case'));
    using cohort = await CohortDirectory.open(root.path);
    expect(() => cohort.checkReplaceable('case', true)).toThrow('is a link');
    expect(cohort.record('case')).toBeNull();
  });
});
