import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readRecord, writeRecord } from '../../../src/client/case/record.js';
import {
  BidsLayout,
  checkDerivatives,
  checkSubjects,
  describeDerivatives,
  layoutOf,
} from '../../../src/client/cohort/bids-layout.js';
import { CaseDirectories, checkPlace } from '../../../src/client/cohort/layout.js';
import type { AppAnswer } from '../../../src/client/connection/index.js';
import { plant, temporary } from '../../support/temporary.js';
import { caseOf, complete, namesBelow } from '../support/results.js';

describe('derivatives of BIDS', () => {
  test('lie where their scans do, with the entities of these and the name of the app', () => {
    const layout = new BidsLayout('/out');
    const placeOf = (file: string, session: string | null = null) => {
      const name = `${file} ${session}`;
      layout.plan([caseOf(file, '01', session, name)], 'seg_liver-v2');
      const { directory = '', prefix, record } = layout.placeOf(name) ?? {};
      expect(record).toBe(`${prefix}record.json`);
      return path.join(path.relative('/out', directory), prefix ?? '');
    };
    expect(placeOf('/in/sub-01/ses-2/dwi/sub-01_ses-2_acq-fast_run-1_dwi.nii.gz', '2')).toBe(
      'sub-01/ses-2/dwi/sub-01_ses-2_acq-fast_run-1_desc-segLiverV2_',
    );
    // What an earlier app has made of it says so; that is said of this one.
    expect(placeOf('/in/sub-01/pet/sub-01_desc-preproc_pet.nii')).toBe('sub-01/pet/sub-01_desc-segLiverV2_');
    expect(placeOf('/in/sub-01/scans/sub-01_T1w.nii')).toBe('sub-01/anat/sub-01_desc-segLiverV2_');
    expect(placeOf('/in/sub-01/anat/sub-01_T2w.nii')).toBe('sub-01/anat/sub-01_desc-segLiverV2T2w_');
    expect(placeOf('/in/2/sub-01/anat/sub-01_T2w.nii')).toBe('sub-01/anat/sub-01_desc-segLiverV2T2w2_');
    expect(placeOf('/in/sub-01/sub-01_run-1')).toBe('sub-01/anat/sub-01_run-1_desc-segLiverV2_');
    expect(placeOf('/in/3/sub-01/sub-01_run-1')).toBe('sub-01/anat/sub-01_run-1_desc-segLiverV21_');
    expect(layout.placeOf('nobody')).toBeNull();
    layout.plan([caseOf('/a/sub-08_T1w.nii', '08'), caseOf('/b/sub-08_T1w.nii', '08')], 'brain');
    expect(layout.placeOf('/b/sub-08_T1w.nii')?.prefix).toBe('sub-08_desc-brainT1w_');
    layout.plan([caseOf('/in/sub-09_T1w.nii', '09')], '///');
    expect(layout.placeOf('/in/sub-09_T1w.nii')?.prefix).toBe('sub-09_desc-app_');
  });

  test('have the names of the outputs without those of their scans', async () => {
    await using root = await temporary();
    const layout = new BidsLayout(root.path);
    layout.plan([caseOf('/in/sub-01_T1w.nii', '01', null, 'case')], 'brain');
    const directory = path.join(root.path, 'new');
    await complete(
      directory,
      {
        'sub-01_T1w_mask.nii.gz': 'mask',
        'sub-01_T1w.nii.gz': 'scan',
        'sub-01_T1w_liver.seg.dcm': 'seg',
        'wrapping/liver_left.nii': 'left',
        'many/a.nii': 'a',
        'many/b.nii': 'b',
        'sub-01_T1w_out.ome.zarr/.zgroup': '{}',
        'record.json': '{}',
        'remote-app-log.txt': 'one',
      },
      { inputs: ['sub-01.nii', 'sub-01_T1w.nii'], log: 'remote-app-log.txt' },
    );
    const given = readRecord(directory);
    const as = 'dicom' as const;
    const conversion = {
      as: [as],
      outputs: [{ from: 'wrapping/liver_left.nii', as, name: 'many' }],
      problems: [],
    };
    if (given) writeRecord(directory, { ...given, conversion });
    layout.rename('case', directory);
    const names = [
      'liver.seg.dcm',
      'liverLeft.nii',
      'log.txt',
      'many/a.nii',
      'many/b.nii',
      'mask.nii.gz',
      'out.ome.zarr/.zgroup',
      'record.json',
      'record_1.json',
      'result.nii.gz',
    ].map((name) => `sub-01_desc-brain_${name}`);
    expect(namesBelow(directory)).toEqual(names);
    layout.moveIn('case', directory);
    const record = layout.records().get('case');
    expect(record).toMatchObject({
      case: 'case',
      log: 'sub-01_desc-brain_log.txt',
      conversion: { outputs: [{ from: 'sub-01_desc-brain_liverLeft.nii', name: 'sub-01_desc-brain_many' }] },
    });
    expect(record?.outputs.map(({ name }) => name).toSorted()).toEqual(
      names.filter((name) => !/_(log\.txt|record\.json)$/.test(name)),
    );
    expect([layout.records(new Set(['case'])).size, layout.isThere('case')]).toEqual([0, true]);
    await plant(root.path, { 'broken/x': '' });
    expect(() => layout.rename('case', path.join(root.path, 'broken'))).toThrow('Its record cannot be read');
  });

  test('are moved away with all that is theirs, and back, and no empty directory stays', async () => {
    await using root = await temporary();
    const layout = new BidsLayout(root.path);
    layout.plan([caseOf('/in/sub-01_T1w.nii', '01', '1', 'case')], 'brain');
    const directory = path.join(root.path, '.new');
    await complete(directory, { 'mask.nii': 'mask' });
    layout.rename('case', directory);
    layout.moveIn('case', directory);
    const own = 'sub-01/ses-1/anat/sub-01_ses-1_desc-brain';
    await plant(root.path, { [`${own}_notes.txt`]: 'mine', 'sub-01/other.txt': 'mine' });
    const aside = path.join(root.path, '.remote-app', 'stale', 'case');
    layout.moveAway('case', aside);
    expect(namesBelow(aside)).toEqual(['mask.nii', 'notes.txt', 'record.json'].map((end) => `${own}_${end}`));
    expect([existsSync(path.join(root.path, 'sub-01/ses-1')), layout.isThere('case')]).toEqual([
      false,
      false,
    ]);
    expect(existsSync(path.join(root.path, 'sub-01/other.txt'))).toBe(true);
    expect(layout.recordAside('case', aside)?.case).toBe('case');
    layout.moveBack('case', aside);
    expect([layout.isThere('case'), existsSync(aside)]).toEqual([true, false]);
    expect(readFileSync(path.join(root.path, `${own}_notes.txt`), 'utf8')).toBe('mine');
    // Another command finds the place again.
    const next = new BidsLayout(root.path);
    next.plan(
      [caseOf('/elsewhere/x.nii', '07', null, 'case'), caseOf('/in/sub-01_T2w.nii', '01', '1')],
      'brain',
    );
    expect(next.placeOf('case')?.prefix).toBe('sub-01_ses-1_desc-brain_');
    expect(next.placeOf('/in/sub-01_T2w.nii')?.prefix).toBe('sub-01_ses-1_desc-brainT2w_');
  });

  test('have their records moved last, into their place and back: without one a result is not whole', async () => {
    await using root = await temporary();
    const layout = new BidsLayout(root.path);
    layout.plan([caseOf('/in/sub-01_T1w.nii', '01', null, 'case')], 'x');
    const names = ['a', 'b', 's', 't', 'u', 'v', 'z'].map((name) => `${name}.nii`);
    const own = 'sub-01/anat/sub-01_desc-x';
    await complete(path.join(root.path, 'new'), Object.fromEntries(names.map((name) => [name, name])));
    layout.rename('case', path.join(root.path, 'new'));
    // Nothing can take the place of this.
    const obstacle = `${own}_record.json`;
    await plant(root.path, { [`${obstacle}/mine`]: '' });
    expect(() => layout.moveIn('case', path.join(root.path, 'new'))).toThrow();
    const there = names.map((name) => `${own}_${name}`);
    const below = () => namesBelow(path.join(root.path, 'sub-01')).map((name) => `sub-01/${name}`);
    expect(below()).toEqual([...there, `${obstacle}/mine`].toSorted());
    await rm(path.join(root.path, obstacle), { recursive: true });
    layout.moveIn('case', path.join(root.path, 'new'));
    const aside = path.join(root.path, '.remote-app', 'old', 'case');
    layout.moveAway('case', aside);
    expect(namesBelow(aside)).toEqual([...there, obstacle].toSorted());
    // The new result is whole in its place: what was moved away was to be removed.
    await plant(root.path, Object.fromEntries([...there, obstacle].map((name) => [name, 'new'])));
    layout.restore('case', aside);
    expect([readFileSync(path.join(root.path, there[0] ?? ''), 'utf8'), existsSync(aside)]).toEqual([
      'new',
      true,
    ]);
    // A directory has the place of one of its files.
    await rm(path.join(root.path, 'sub-01'), { recursive: true });
    await plant(root.path, { [`${there[0]}/x`]: 'half', [there[1] ?? '']: 'half' });
    layout.restore('case', aside);
    expect([below(), existsSync(aside)]).toEqual([[...there, obstacle].toSorted(), false]);
    expect(there.slice(0, 2).map((name) => readFileSync(path.join(root.path, name), 'utf8'))).toEqual(
      names.slice(0, 2),
    );
  });

  test('are found neither behind links, nor in hidden directories, nor too deep', async () => {
    await using root = await temporary();
    const result = path.join(root.path, 'elsewhere');
    await complete(result, {});
    const text = JSON.stringify({
      ...JSON.parse(readFileSync(path.join(result, 'remote-app-record.json'), 'utf8')),
      case: 'case',
    });
    const name = 'sub-01_desc-x_record.json';
    await plant(root.path, {
      [`out/.hidden/${name}`]: text,
      [`out/a/b/c/d/${name}`]: text,
      [`real/${name}`]: text,
    });
    symlinkSync(path.join(root.path, 'real'), path.join(root.path, 'out', 'sub-01'));
    symlinkSync(path.join(root.path, 'real', name), path.join(root.path, 'out', name));
    const layout = new BidsLayout(path.join(root.path, 'out'));
    expect([...layout.records().keys()]).toEqual([]);
    const outside = JSON.stringify({ ...JSON.parse(text), case: '../x' });
    await plant(root.path, { [`out/a/b/c/${name}`]: text, [`out/b/${name}`]: outside });
    expect([...layout.records().keys()]).toEqual(['case']);
  });
});

test('cases without a subject are named', () => {
  checkSubjects([caseOf('/in/a.nii')]);
  expect(() => checkSubjects([caseOf('/in/a.nii'), caseOf('/in/b.nii', null)])).toThrow(
    "--layout bids needs a subject, as in 'sub-01', in each path; there is none in '/in/b.nii'",
  );
});

test('a data set of derivatives is that of one app, and says so', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'dataset_description.json');
  const view = { available: true, version: 'sha256:1' } as AppAnswer;
  describeDerivatives(root.path, 'brain', view, { clientVersion: '1.2.3' });
  const read = () => JSON.parse(readFileSync(file, 'utf8'));
  expect(read()).toEqual({
    Name: 'Results of brain',
    BIDSVersion: '1.10.0',
    DatasetType: 'derivative',
    GeneratedBy: [
      { Name: 'brain', Version: 'sha256:1' },
      { Name: 'remote-app', Version: '1.2.3' },
    ],
  });
  checkDerivatives(root.path, 'brain');
  expect(() => checkDerivatives(root.path, 'seg liver')).toThrow(
    `'${file}' is that of another data set: name a directory of the app's own with -o, such as derivatives/remote-app-segLiver`,
  );
  writeFileSync(file, JSON.stringify({ ...read(), Name: 'Ours', Authors: ['Ada'] }));
  describeDerivatives(root.path, 'brain', null, { clientVersion: '2.0.0' });
  expect(read()).toMatchObject({
    Name: 'Ours',
    Authors: ['Ada'],
    GeneratedBy: [{ Name: 'brain' }, { Name: 'remote-app', Version: '2.0.0' }],
  });
  expect(layoutOf(root.path, 'bids')).toBeInstanceOf(BidsLayout);
  expect(() => layoutOf(root.path, 'cases')).toThrow('has results in the layout of BIDS: give --layout bids');
  writeFileSync(file, '{"GeneratedBy": [{"Name": "brain"}]}');
  expect(layoutOf(root.path, 'cases')).toBeInstanceOf(CaseDirectories);
  expect(() => checkDerivatives(root.path, 'brain')).toThrow('is that of another data set');
});

describe('a directory for each case', () => {
  test('is found by its record, and is never ours or a link', async () => {
    await using root = await temporary();
    for (const name of ['a', 'b', '.remote-app']) await complete(path.join(root.path, name), {});
    mkdirSync(path.join(root.path, 'empty'));
    symlinkSync(path.join(root.path, 'a'), path.join(root.path, 'link'));
    const layout = new CaseDirectories(root.path);
    expect([...layout.records(new Set(['b'])).keys()]).toEqual(['a']);
    expect(() => layoutOf(root.path, 'bids')).toThrow('has a directory for each case');
    const away = path.join(root.path, 'deep', 'old', 'a');
    layout.moveAway('a', away);
    expect([layout.isThere('a'), layout.recordAside('a', away)?.job_id]).toEqual([false, 'x']);
    layout.restore('a', away);
    expect([layout.isThere('a'), existsSync(away)]).toEqual([true, false]);
    // The new result is there already.
    await complete(away, {});
    layout.restore('a', away);
    expect(existsSync(away)).toBe(true);
  });
});

test('files that no record names are not mixed with a result', async () => {
  await using root = await temporary();
  await plant(root.path, { 'mine/a.txt': 'x', 'bids/sub-01_desc-x_a.txt': 'x', 'empty/': '', 'a file': 'x' });
  await complete(path.join(root.path, 'result'), {});
  const check =
    (name: string, prefix = '', isForced = false) =>
    () =>
      checkPlace(
        root.path,
        { directory: path.join(root.path, name), prefix, record: 'remote-app-record.json' },
        isForced,
      );
  for (const name of ['empty', 'result', 'new']) check(name)();
  check('bids', 'sub-02_desc-x_')();
  check('mine', '', true)();
  const at = (name: string) => path.join(root.path, name);
  const why = 'that no record names; move them, or give --force to write the result beside them';
  expect(check('mine')).toThrow(`'${at('mine')}' has files ${why}`);
  expect(check('a file')).toThrow(`'${at('a file')}' has files ${why}`);
  expect(check('a file', 'sub-01_')).toThrow(`'${at('a file')}' has files ${why}`);
  expect(check('bids', 'sub-01_desc-x_')).toThrow(
    `'${at('bids')}' has files such as 'sub-01_desc-x_a.txt' ${why}`,
  );
  symlinkSync(at('mine'), at('link'));
  expect(check('link/below', '', true)).toThrow(`'${at('link')}' is a link`);
});
