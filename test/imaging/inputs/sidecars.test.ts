import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/client/errors.js';
import { stageInputs } from '../../client/support/stage-inputs.js';
import { dicomFile } from '../../support/dicom-files.js';
import { list } from '../../support/list.mjs';
import { dicom, plant, temporary } from '../../support/temporary.js';

const study = {
  'in/README': '',
  'in/participants.tsv': 'x',
  'in/sub-01/T1w.json': '{}',
  'in/sub-01/T1w.nii.gz': '1',
  'in/sub-02/T1w.nii.gz': '2',
  'in/sub-02/dwi.bval': '0',
  'in/sub-02/dwi.bvec': '0',
  'in/sub-02/series/1.dcm': dicom,
  'in/sub-02/series/notes.txt': '',
  'notes/a.txt': 'a',
  'notes/b.txt': 'b',
  'empty.txt': '',
};

/** What is sent of groups of inputs of the study. */
async function send(groups: string[][], allFiles = false) {
  await using root = await temporary();
  await plant(root.path, study);
  const { staged, reporter } = await stageInputs(root.path, groups, allFiles);
  const short = (text: string) => text.replaceAll(`${root.path}${path.sep}`, '');
  return {
    names: staged.parts.map(({ filename }) => filename),
    groups: staged.fields.inputs_groups,
    skipped: staged.sending.skipped.map(short),
    sent: staged.sending.sent.inputs?.map((group) => group.map((each) => `${short(each.path)} ${each.name}`)),
    notes: reporter.notes.map(short),
  };
}

describe('files that go with volumes', () => {
  const volumes = ['sub-01_T1w.nii.gz', 'series.konfaidir.zip', 'sub-02_T1w.nii.gz'].sort();

  test('Files that go with volumes are recognised in BIDS and FreeSurfer data sets, and next to files that people write themselves', async () => {
    await using root = await temporary();
    const others = list`sub-01_physio.tsv.gz sub-01_stim.tsv.gz convert.py a.nii.md5 notes.docx aseg.lut`;
    await plant(root.path, {
      'in/a.nii': '1',
      ...Object.fromEntries(others.map((name) => [`in/${name}`, 'x'])),
    });
    const { staged } = await stageInputs(root.path, [['in']]);
    expect(staged.parts.map(({ filename }) => filename)).toEqual(['a.nii']);
    expect(staged.sending.skipped.map((each) => path.basename(each)).toSorted()).toEqual(others.toSorted());
  });

  test('Files that go with volumes are left out of a directory, and listed on one line', async () => {
    const { names, skipped, notes, sent } = await send([['in']]);
    expect(names.toSorted()).toEqual(volumes);
    expect(skipped).toEqual(list`in/README in/participants.tsv in/sub-01/T1w.json in/sub-02/dwi.bval
      in/sub-02/dwi.bvec in/sub-02/series/notes.txt`);
    expect(notes).toEqual([
      `6 files that are not volumes were not sent (${skipped.slice(0, 5).join(', ')} and 1 more); --all-files sends them`,
      'in/sub-01/T1w.nii.gz -> sub-01_T1w.nii.gz',
      'in/sub-02/T1w.nii.gz -> sub-02_T1w.nii.gz',
    ]);
    expect(sent?.flat()).toContain('in/sub-02/series series');
  });

  test.each([
    ['a shell', ['in/README', 'in/participants.tsv', 'in/sub-01', 'in/sub-02']],
    ['the command', ['in/*']],
  ])('Files that go with volumes are left out when %s expands a pattern', async (_, paths) => {
    const { names, skipped } = await send([paths]);
    expect(names.toSorted()).toEqual(volumes);
    expect(skipped).toEqual(
      expect.arrayContaining(['in/README', 'in/participants.tsv', 'in/sub-01/T1w.json']),
    );
  });

  test('Files that go with volumes are sent with --all-files, even if they are empty', async () => {
    const { names, skipped, notes } = await send([['in']], true);
    expect(names).toEqual(
      expect.arrayContaining(['README', 'dwi.bval', 'sub-01_T1w.json', 'sub-01_T1w.nii.gz']),
    );
    expect([names.length, skipped]).toEqual([9, []]);
    expect(notes.some((note) => note.startsWith('Not sent'))).toBe(false);
  });

  test('Files that go with volumes are sent if a group names nothing else', async () => {
    expect(await send([['notes/a.txt']])).toMatchObject({ names: ['a.txt'], skipped: [], notes: [] });
    expect((await send([['notes/*.txt']])).names).toEqual(['a.txt', 'b.txt']);
    const beside = await send([['in/sub-01/T1w.nii.gz'], ['in/sub-01/T1w.json']]);
    expect(beside).toMatchObject({ groups: '1,1', names: ['T1w.nii.gz', 'T1w.json'], notes: [] });
  });

  test('Files that go with volumes are refused if a directory has nothing else, and an empty one if a path names it', async () => {
    await expect(send([['notes']])).rejects.toThrow(UsageError);
    await expect(send([['notes']])).rejects.toThrow(
      /notes\/a\.txt' is not a volume, nor are 1 more.*--all-files/,
    );
    expect((await send([['notes']], true)).names).toEqual(['a.txt', 'b.txt']);
    await expect(send([['empty.txt']])).rejects.toThrow("empty.txt' is empty (0 bytes)");
  });
});

test('Of many renamed files, a few are shown and the others are counted', async () => {
  await using root = await temporary();
  const names = Array.from({ length: 12 }, (_, index) => `in/sub-${10 + index}/T1w.nii`);
  await plant(root.path, Object.fromEntries(names.map((name) => [name, 'x'])));
  const { staged, reporter } = await stageInputs(root.path, [['in']]);
  expect(reporter.notes).toHaveLength(6);
  expect(reporter.notes[5]).toBe('7 more are renamed in the same way; --json lists them all');
  expect(staged.sending.sent.inputs?.[0]).toHaveLength(12);
});

test('Slices that a pattern names one by one are said to be volumes of their own', async () => {
  await using root = await temporary();
  const slice = (z: number) => dicomFile({ pixels: new Int16Array(4), size: [2, 2], position: [0, 0, z] });
  await plant(root.path, {
    'in/1.dcm': slice(1),
    'in/2.dcm': slice(2),
    'in/a.nii': 'x',
    'mr/1': slice(1),
    'mr/2': slice(2),
  });
  const hint = '2 DICOM files are sent as 2 volumes; name their directory to send them as one series';
  expect((await stageInputs(root.path, [['in/*.dcm']])).reporter.notes).toEqual([hint]);
  expect((await stageInputs(root.path, [['mr/*']])).reporter.notes).toEqual([hint]);
  expect((await stageInputs(root.path, [['in/1.dcm', 'in/a.nii']])).reporter.notes).toEqual([]);
  expect((await stageInputs(root.path, [['in']])).reporter.notes).toEqual([]);
});

test('A header that names its data file is not renamed', async () => {
  await using root = await temporary();
  await plant(root.path, { 'a/v.mhd': 'x', 'a/v.raw': 'x', 'b/v.mhd': 'x', 'b/v.raw': 'x' });
  await expect(stageInputs(root.path, [['a', 'b']])).rejects.toThrow(
    /a\/v\.mhd' shares its name.*1 more cannot be sent either/,
  );
  const { staged } = await stageInputs(root.path, [['a'], ['b']]);
  expect(staged.parts.map(({ filename }) => filename)).toEqual(['v.mhd', 'v.raw', 'v.mhd', 'v.raw']);
});
