import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readRecord } from '../../../src/client/case/record.js';
import {
  BidsLayout,
  checkDerivatives,
  checkSubjects,
  describeDerivatives,
  layoutOf,
} from '../../../src/client/cohort/bids-layout.js';
import { CaseDirectories } from '../../../src/client/cohort/layout.js';
import type { AppAnswer } from '../../../src/client/connection/index.js';
import { plant, temporary } from '../../support/temporary.js';
import { caseOf, complete, namesBelow } from '../support/results.js';

/** The place of the result for this scan. */
function placeOf(file: string, layout = new BidsLayout('/out'), subject = '01'): string {
  layout.plan([caseOf(file, subject)], 'brain');
  const { directory = '', prefix = '' } = layout.placeOf(file) ?? {};
  return path.join(path.relative('/out', directory), prefix);
}

test('the kinds of data that BIDS knows are kept, others are taken for images of the anatomy', () => {
  const known = ['anat', 'beh', 'ct', 'dwi', 'eeg', 'fmap', 'func', 'ieeg', 'meg', 'micr', 'motion'];
  for (const kind of [...known, 'mrs', 'nirs', 'perf', 'pet'])
    expect(placeOf(`/in/${kind}/sub-01_T1w.nii`)).toBe(`sub-01/${kind}/sub-01_desc-brain_`);
  for (const kind of ['myanat', 'pets', 'PET', 'in'])
    expect(placeOf(`/in/${kind}/sub-01_T1w.nii`)).toBe('sub-01/anat/sub-01_desc-brain_');
});

test.each([
  ['sub-01_acq-a+b_T1w', 'sub-01_acq-a+b_desc-brain_'],
  ['sub-01_acq-1_run-ä_T1w', 'sub-01_acq-1_run-ä_desc-brain_'],
  // None of these is an entity.
  ['sub-01_1x-2_run-1.5_acq-_-y_T1w', 'sub-01_desc-brain_'],
  // Only the name of the entity says that it is another one.
  ['sub-01_mysub-2_xses-3_ses-4_desc-x_T1w', 'sub-01_mysub-2_xses-3_desc-brain_'],
])('the result of %s begins with %s', (name, prefix) => {
  expect(placeOf(`/in/anat/${name}.nii`)).toBe(`sub-01/anat/${prefix}`);
});

test('two results have different places, also where a file system takes both names for one', () => {
  const layout = new BidsLayout('/out');
  expect(placeOf('/a/sub-0a_my long scan.nii', layout, '0a')).toBe('sub-0a/anat/sub-0a_desc-brain_');
  expect(placeOf('/b/sub-0A_my long scan.nii', layout, '0A')).toBe(
    'sub-0A/anat/sub-0A_desc-brainmyLongScan_',
  );
});

test('outputs keep their formats, and get names that no other file of the result has', async () => {
  await using root = await temporary();
  const layout = new BidsLayout(root.path);
  layout.plan([caseOf('/in/sub-01_T1w.nii', '01', null, 'case')], 'seg-liver');
  const directory = path.join(root.path, 'new');
  const outputs = {
    ...{ 'a.labelmap.dcm': 'a.labelmap.dcm', 'a.rtstruct.dcm': 'a.rtstruct.dcm', 'a.seg.nrrd': 'a.seg.nrrd' },
    ...{ 'b.SEG.DCM': 'b.SEG.DCM', 'b.nrrd': 'b.nrrd', 'b.tar.gz': 'b.tar.gz', 'c.csv': 'c.csv' },
    ...{ 'log.txt': 'log_1.txt', 'record.json': 'record_1.json', 'series_lung.nii': 'lung.nii' },
    ...{ 'mask.nii': 'mask.nii', 'v/mask.nii': 'mask_1.nii', 'w/MASK.nii': 'MASK_2.nii' },
  };
  const given = Object.keys(outputs);
  const log = 'remote-app-log.txt';
  await complete(directory, Object.fromEntries([...given, log].map((name) => [name, name])), {
    inputs: ['series/1.dcm'],
    log,
  });
  layout.rename('case', directory);
  const prefix = 'sub-01_desc-segLiver_';
  const kept = namesBelow(directory).filter((name) => name !== `${prefix}record.json`);
  const now = Object.fromEntries(
    kept.map((name) => [readFileSync(path.join(directory, name), 'utf8'), name.slice(prefix.length)]),
  );
  expect(now).toEqual({ ...outputs, [log]: 'log.txt' });
  expect(readRecord(directory, `${prefix}record.json`)?.outputs.length).toBe(given.length);
  expect(() => layout.rename('case', path.join(root.path, 'none'))).toThrow(
    expect.objectContaining({
      message: 'Its record cannot be read, by which its files are named',
      exitCode: 1,
    }),
  );
});

/** A result for this case, as the text of a record. */
async function recordOf(root: string, name: string, more: object = {}): Promise<string> {
  const made = path.join(root, '.made');
  await complete(made, {});
  const text = readFileSync(path.join(made, 'remote-app-record.json'), 'utf8');
  return JSON.stringify({ ...JSON.parse(text), case: name, ...more });
}

test('a result is what has a record of its name among derivatives, and the first of a case counts', async () => {
  await using root = await temporary();
  const text = (name: string, job = 'x') => recordOf(root.path, name, { job_id: job });
  await plant(root.path, {
    'a/sub-01_desc-x_record.json': await text('case', 'first'),
    'b/sub-02_desc-x_record.json': await text('case', 'second'),
    'b/mine_record.json': await text('mine'),
    'b/sub-03_desc-x_out.zarr/sub-03_desc-x_record.json': await text('inside'),
  });
  const layout = new BidsLayout(root.path);
  expect([...layout.records()].map(([name, record]) => [name, record.job_id])).toEqual([['case', 'first']]);
  layout.plan([caseOf('/in/sub-01_T1w.nii', '01', null, 'case')], 'x');
  expect(layout.placeOf('case')).toEqual({
    directory: path.join(root.path, 'a'),
    prefix: 'sub-01_desc-x_',
    record: 'sub-01_desc-x_record.json',
  });
  // What nobody has planned is neither moved nor there.
  const aside = path.join(root.path, '.aside');
  layout.moveIn('nobody', path.join(root.path, 'a'));
  layout.moveAway('nobody', aside);
  expect([layout.isThere('nobody'), layout.recordAside('nobody', aside), readdirSync(root.path)]).toEqual([
    false,
    null,
    ['.made', 'a', 'b'],
  ]);
});

const own = 'sub-01/anat/sub-01_desc-x';

/** A data set with a result of the case, which is moved away, and what it has then. */
async function movedAway(there: Readonly<Record<string, string>> = {}) {
  const root = await temporary();
  const data = path.join(root.path, 'data');
  const aside = path.join(root.path, 'aside');
  await plant(data, { [`${own}_record.json`]: await recordOf(root.path, 'case'), ...there });
  const layout = new BidsLayout(data);
  layout.plan([caseOf('/in/sub-01_T1w.nii', '01', null, 'case')], 'x');
  layout.moveAway('case', aside);
  const contents = () =>
    Object.fromEntries(namesBelow(data).map((name) => [name, readFileSync(path.join(data, name), 'utf8')]));
  return { root, data, aside, layout, contents, [Symbol.asyncDispose]: () => root[Symbol.asyncDispose]() };
}

test('a result that is moved away leaves others beside it, and the data set itself', async () => {
  const others = { 'sub-01/anat/sub-01_desc-xT2w_mask.nii': 'other', 'sub-01/anat/notes.txt': 'mine' };
  await using beside = await movedAway({ ...others, [`${own}_mask.nii`]: 'mask' });
  expect(beside.contents()).toEqual(others);
  expect([namesBelow(beside.aside), beside.layout.isThere('case')]).toEqual([
    [`${own}_mask.nii`, `${own}_record.json`],
    false,
  ]);
  await using alone = await movedAway();
  expect(readdirSync(alone.data)).toEqual([]);
});

test('a result that is moved back replaces what has its place, and directories as a whole', async () => {
  const there = { [`${own}_mask.nii`]: 'old', [`${own}_out.zarr/a`]: 'old', [`${own}_z.zarr/a`]: 'old' };
  await using moved = await movedAway(there);
  const half = { [`${own}_mask.nii`]: 'half', [`${own}_out.zarr/b`]: 'half', [`${own}_z.zarr`]: 'half' };
  await plant(moved.data, half);
  moved.layout.moveBack('case', moved.aside);
  expect(moved.contents()).toEqual({ ...there, [`${own}_record.json`]: expect.any(String) });
});

test('a result is moved back with its record last', async () => {
  await using moved = await movedAway();
  // A directory that is no result, and a file where it goes.
  await plant(moved.aside, { 'sub-01/anat/z/a': 'old' });
  await plant(moved.data, { 'sub-01/anat/z': 'mine' });
  expect(() => moved.layout.moveBack('case', moved.aside)).toThrow('EEXIST');
  expect(moved.contents()).toEqual({ 'sub-01/anat/z': 'mine' });
});

test('what is left of an old result is put back beside the new one, and replaces what is left of a broken one', async () => {
  const old = { [`${own}_mask.nii`]: 'old', [`${own}_notes.txt`]: 'old' };
  for (const name of ['case', 'another']) {
    await using moved = await movedAway(old);
    // It was being removed, its record first.
    rmSync(path.join(moved.aside, `${own}_record.json`));
    const text = await recordOf(moved.root.path, name);
    await plant(moved.data, { [`${own}_mask.nii`]: 'new', 'b/sub-09_desc-x_record.json': text });
    moved.layout.restore('case', moved.aside);
    expect(moved.contents()).toEqual({
      ...{ ...old, [`${own}_mask.nii`]: name === 'case' ? 'new' : 'old' },
      'b/sub-09_desc-x_record.json': text,
    });
  }
});

test('all cases without a subject are named', () => {
  const check = () => checkSubjects([caseOf('/in/a.nii', null), caseOf('/in/b.nii', null)]);
  expect(check).toThrow(
    "--layout bids needs a subject, as in 'sub-01', in each path; there is none in '/in/a.nii', '/in/b.nii'",
  );
});

test('a data set is only that of an app if its description says so', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'dataset_description.json');
  // A directory without a description can become one, of either layout.
  checkDerivatives(root.path, 'brain');
  expect(layoutOf(root.path, 'cases')).toBeInstanceOf(CaseDirectories);
  expect(layoutOf(root.path, 'bids')).toBeInstanceOf(BidsLayout);
  const made = (...names: unknown[]) => JSON.stringify({ GeneratedBy: names.map((Name) => ({ Name })) });
  const others = ['{', '[1]', 'null', '"brain"', '{"GeneratedBy": "brain"}', '{"GeneratedBy": [null]}'];
  for (const text of [...others, made('other', 'brain', 'remote-app'), made('brain', 'other')]) {
    writeFileSync(file, text);
    expect(() => checkDerivatives(root.path, 'brain'), text).toThrow(/is that of another data set/);
  }
  for (const text of others) {
    writeFileSync(file, text);
    expect(layoutOf(root.path, 'cases'), text).toBeInstanceOf(CaseDirectories);
  }
  writeFileSync(file, made('other', 'remote-app'));
  expect(() => layoutOf(root.path, 'cases')).toThrow(
    `'${root.path}' has results in the layout of BIDS: give --layout bids, or name another directory`,
  );
  await complete(path.join(root.path, 'case'), {});
  expect(() => layoutOf(root.path, 'bids')).toThrow(
    `'${root.path}' has a directory for each case: name another one with -o, or leave out --layout bids`,
  );
});

test('a description is written for all who may read its directory, and only if it changes', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'dataset_description.json');
  const describe = (view: Partial<AppAnswer> | null) =>
    describeDerivatives(root.path, 'brain', view as AppAnswer | null, { clientVersion: '1.2.3' });
  const makers = () => JSON.parse(readFileSync(file, 'utf8')).GeneratedBy;
  describe({ available: false, version: '7' } as Partial<AppAnswer>);
  expect(makers()).toEqual([{ Name: 'brain' }, { Name: 'remote-app', Version: '1.2.3' }]);
  const { mode, ino } = statSync(file);
  expect(mode & 0o777).toBe(0o666 & ~process.umask());
  describe(null);
  expect(statSync(file).ino).toBe(ino);
  describe({ available: true, version: '7' } as Partial<AppAnswer>);
  expect(makers()[0]).toEqual({ Name: 'brain', Version: '7' });
});
