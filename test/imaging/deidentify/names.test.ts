import { readFileSync, truncateSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { FoundFiles } from '../../../src/client/found-files.js';
import { withOriginals } from '../../../src/client/outgoing.js';
import { operationOf } from '../../../src/contract/index.js';
import { translateResult } from '../../../src/imaging/deidentify/index.js';
import { NeutralNames, namesLikeNeutral } from '../../../src/imaging/deidentify/names.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import { list } from '../../support/list.mjs';
import { plant, temporary } from '../../support/temporary.js';

/** The neutral names of the files of an evaluation, by group, and what they stand for. */
async function namesOf(
  files: Readonly<Record<string, string | Buffer>>,
  groups: Readonly<Partial<Record<'inputs' | 'gt' | 'mask', readonly (readonly string[])[]>>>,
  allFiles = false,
) {
  await using directory = await temporary();
  await plant(directory.path, files);
  const { fields } = operationOf('evaluate');
  const chosen = fields.flatMap((field) => {
    const paths = groups[field.name as 'inputs'];
    const absolute = paths?.map((each) => each.map((name) => path.join(directory.path, name)));
    return absolute ? [{ field, groups: absolute }] : [];
  });
  const found = await findFiles({ files: chosen, archive: null, allFiles });
  const names = new NeutralNames(found, true, namesLikeNeutral([found]));
  const given = names.applied(found).volumes.flatMap((each) => each.groups);
  return { names: given.map((units) => units.map(({ name }) => name)), originals: names.originals };
}

describe('neutral names', () => {
  test('Neutral names are the same for the files of one case in all groups', async () => {
    const files = { 'p/b.nii': 'x', 'p/a.nii': 'x', 'g/a_gt.mha': 'x', 'g/b_gt.mha': 'x', 'all.nii.gz': 'x' };
    const { names, originals } = await namesOf(files, {
      inputs: [['p']],
      gt: [['g']],
      mask: [['all.nii.gz']],
    });
    expect(names).toEqual([
      ['case-0001.nii', 'case-0002.nii'],
      ['case-0001.mha', 'case-0002.mha'],
      ['case-0000.nii.gz'],
    ]);
    expect(originals).toEqual({ 'case-0001': 'a', 'case-0002': 'b', 'case-0000': 'all' });
  });

  test('Neutral names keep files with the same stem together, and voxel files with their headers', async () => {
    const files = {
      'in/ada+orig.HEAD': 'x',
      'in/ada+orig.BRIK.gz': 'x',
      'in/dwi.nii.gz': 'x',
      'in/dwi.bval': '0',
      'in/bo.par': 'x',
      'in/bo.rec': 'x',
    };
    const { names } = await namesOf(files, { inputs: [Object.keys(files)] }, true);
    expect(names[0]?.toSorted()).toEqual(list`case-0001+orig.BRIK.gz case-0001+orig.HEAD case-0002.bval
      case-0002.nii.gz case-0003.par case-0003.rec`);
  });

  test('Neutral names are never shared by two files, even if extensions are unknown or differ only in case', async () => {
    const files = { 'ada.smith': '1', 'ada.jones': '2', 'Ada.nii': '3', 'ada.nii': '4' };
    const { names } = await namesOf(files, { inputs: [Object.keys(files)] });
    expect(new Set(names[0]).size).toBe(4);
    expect(names[0]?.join()).not.toMatch(/ada|smith|jones/i);
  });
});

test.for([
  ['reading case-0001.nii.gz', 'reading ada.nii.gz'],
  ['/work/g0/case-0001_seg.nii: ok', '/work/g0/ada_seg.nii: ok'],
  ['case-0001/case-0002', 'ada/bo'],
  ['case-00012 showcase-0001 case-0003', 'case-00012 showcase-0001 case-0003'],
  ['Schädelcase-0001 ßcase-0002_x', 'Schädelcase-0001 ßcase-0002_x'],
])('Neutral names in a text are replaced by the original names: %s', ([text = '', expected]) => {
  expect(withOriginals(text, { 'case-0001': 'ada', 'case-0002': 'bo' })).toBe(expected);
});

test('A result gets the original names where possible', async () => {
  await using directory = await temporary();
  const binary = Buffer.from([0xff, 0xfe, ...Buffer.from('case-0001')]);
  await plant(directory.path, {
    'case-0001/case-0001_mask.nii': binary,
    'scores.json': '{"case": "case-0002"}',
    'scores.csv': 'case-0001,1\ncase-0002,2\n',
    'latin.txt': Buffer.from('caf\xe9 case-0001', 'latin1'),
    'case-0003.txt': 'unsafe',
    'case-0004.txt': 'taken',
    'taken.txt': 'mine',
  });
  const notes: string[] = [];
  const note = (text: string) => notes.push(text);
  await translateResult(
    directory.path,
    { 'case-0001': 'zoë', 'case-0002': 'a"b,c', 'case-0003': 'x/../../y', 'case-0004': 'taken' },
    note,
  );
  expect(notes).toEqual([
    'Kept under neutral names, since the names of your files are taken or cannot be used here: case-0003.txt, case-0004.txt',
  ]);
  expect((await readdir(directory.path, { recursive: true })).sort()).toEqual(list`case-0003.txt
    case-0004.txt latin.txt scores.csv scores.json taken.txt zoë zoë/zoë_mask.nii`);
  const read = (name: string) => readFileSync(path.join(directory.path, name));
  expect(read('zoë/zoë_mask.nii')).toEqual(binary);
  expect(JSON.parse(read('scores.json').toString())).toEqual({ case: 'a"b,c' });
  expect(read('scores.csv').toString()).toBe('zoë,1\ncase-0002,2\n');
  expect(read('latin.txt')).toEqual(Buffer.concat([Buffer.from('caf\xe9 ', 'latin1'), Buffer.from('zoë')]));
  expect(read('taken.txt').toString()).toBe('mine');
});

test('Files of a result are renamed together, so that none gets the name of another patient', async () => {
  await using directory = await temporary();
  // The person's own files have names like neutral ones: those of an old job, since new ones are given no such names.
  const originals = {
    'case-0001': 'case-0002',
    'case-0002': 'case-0003',
    'case-0003': 'case-0001',
    'case-0004': 'x',
    'case-0005': 'X',
  };
  const names = Object.keys(originals);
  await plant(
    directory.path,
    Object.fromEntries(names.map((name) => [`${name}.nii`, originals[name as 'case-0001']])),
  );
  const notes: string[] = [];
  await translateResult(directory.path, originals, (text) => notes.push(text));
  const read = (name: string) => readFileSync(path.join(directory.path, name), 'utf8');
  expect((await readdir(directory.path)).sort()).toEqual(names.map((name) => `${name}.nii`));
  for (const name of names.slice(0, 3)) expect(read(`${name}.nii`)).toBe(name);
  // Two that would have one name keep their own.
  expect([read('case-0004.nii'), read('case-0005.nii'), notes.length]).toEqual(['x', 'X', 1]);
});

test('Neutral names never occur among the original names', async () => {
  const files = { 'Case-0001/scan.nii': 'x', 'b/case-0003_T1.nii': 'x', 'c.nii': 'x' };
  const { names, originals } = await namesOf(files, { inputs: [Object.keys(files)] });
  expect(names).toEqual([['case-1000001.nii', 'case-0002.nii', 'case-1000003.nii']]);
  expect(originals).toEqual({ 'case-1000001': 'scan', 'case-0002': 'case-0003_T1', 'case-1000003': 'c' });
});

test('A header in a result gets the new names of its voxel files, and is left unchanged if they keep their names', async () => {
  await using directory = await temporary();
  const meta = (...names: string[]) =>
    `NDims = 3\nDimSize = 1 1 ${names.length || 1}\nElementType = MET_UCHAR\nElementDataFile = ${names.join('\n')}\n`;
  const nrrd = (name: string) =>
    `NRRD0004\n# case-0001\ntype: uchar\ndimension: 3\nsizes: 1 1 1\nencoding: raw\ndata file: ${name}\n`;
  await plant(directory.path, {
    ...{ 'case-0001.mhd': meta('case-0001.raw'), 'case-0001.raw': '1' },
    ...{ 'case-0002.mhd': meta('LIST', 'case-0002_1.raw', 'case-0002_2.raw') },
    ...{ 'case-0002_1.raw': '1', 'case-0002_2.raw': '2' },
    ...{ 'mask.nhdr': nrrd('case-0001_mask.raw'), 'case-0001_mask.raw': '3' },
    ...{ 'case-0003.mhd': meta('case-0003.raw'), 'case-0003.raw': '4', 'taken.raw': '5' },
  });
  const originals = { 'case-0001': 'Zoë Ä.', 'case-0002': 'bo', 'case-0003': 'taken' };
  await translateResult(directory.path, originals, () => {});
  const read = (name: string) => readFileSync(path.join(directory.path, name), 'utf8');
  expect(read('Zoë Ä..mhd')).toBe(meta('Zoë Ä..raw'));
  expect(read('bo.mhd')).toBe(meta('LIST', 'bo_1.raw', 'bo_2.raw'));
  expect(read('mask.nhdr')).toBe(nrrd('Zoë Ä._mask.raw'));
  expect([read('taken.mhd'), read('taken.raw')]).toEqual([meta('case-0003.raw'), '5']);
});

test('A table is left unchanged if a name would shift its columns', async () => {
  await using directory = await temporary();
  await plant(directory.path, { 'a.tsv': 'case-0001' });
  for (const mark of [';', ',', '"', '\n', '\r', '\t']) {
    await translateResult(directory.path, { 'case-0001': `ada${mark}x` }, () => {});
    expect(readFileSync(path.join(directory.path, 'a.tsv'), 'utf8')).toBe('case-0001');
  }
});

test('Original names are restored only in text files that are not too large, whatever the case of their extension', async () => {
  await using directory = await temporary();
  const names = ['a.JSON', 'a.tsv', 'a.log', 'a.html', 'a.nii', 'json'];
  const most = 16 << 20;
  await plant(directory.path, {
    ...Object.fromEntries(names.map((name) => [name, 'case-0001'])),
    'large.txt': 'case-0001',
    'largest.txt': 'case-0001',
  });
  const at = (name: string) => path.join(directory.path, name);
  truncateSync(at('large.txt'), most + 1);
  truncateSync(at('largest.txt'), most);
  const text = (name: string) => readFileSync(at(name)).toString('utf8', 0, 4);
  await translateResult(directory.path, {}, () => {});
  expect(names.map(text)).toEqual(names.map(() => 'case'));
  await translateResult(directory.path, { 'case-0001': 'ada\tx', 'case-0002': 'x' }, () => {});
  expect([...names, 'large.txt', 'largest.txt'].map(text)).toEqual([
    ...['ada\\', 'case', 'case', 'case', 'case', 'case', 'case', 'case'],
  ]);
  await translateResult(directory.path, { 'case-0001': 'ada!' }, () => {});
  expect([...names, 'large.txt', 'largest.txt'].map(text)).toEqual([
    ...['ada\\', 'ada!', 'ada!', 'case', 'case', 'case', 'case', 'ada!'],
  ]);
});

describe('a neutral name', () => {
  /** Names of files that are not there. */
  const given = (
    groups: readonly (readonly (string | { name: string; format?: string; kind?: string; of?: string })[])[],
    unpacksDicom = true,
    first?: number,
  ) => {
    const units = groups.map((group) =>
      group.map((each) => {
        const { name, format = null, kind = 'file', of } = typeof each === 'string' ? { name: each } : each;
        const half =
          of === undefined ? { isHalf: false, headers: [] } : { isHalf: true, headers: [`/in/${of}`] };
        return { name, path: `/in/${name}`, kind, format, ...half };
      }),
    );
    const found = { volumes: [{ field: {}, groups: units }] } as unknown as FoundFiles;
    const names = new NeutralNames(found, unpacksDicom, namesLikeNeutral([found]), first);
    const applied = names.applied(found).volumes.flatMap((each) => each.groups);
    return { names: applied.map((group) => group.map(({ name }) => name)), neutral: names };
  };

  test.each([
    ['a.nii.gz', 'case-0001.nii.gz'],
    ['a.smith', 'case-0001'],
    ['a+acpc.BRIK.bz2', 'case-0001+acpc.BRIK.bz2'],
    ['a+orig.HEAD', 'case-0001+orig.HEAD'],
    ['a.bval', 'case-0001.bval'],
    ['a_events.tsv.gz', 'case-0001.tsv.gz'],
    ['a.smith.json', 'case-0001.json'],
  ])('A neutral name has the extension of a known format, and nothing else: %s', (name, neutral) => {
    expect(given([[name]]).names).toEqual([[neutral]]);
  });

  test.each([
    ['IM0001', true, 'case-0001.dcm'],
    ['a.dcm', true, 'case-0001.dcm'],
    ['a.dcm.gz', true, 'case-0001.dcm'],
    ['A.DCM.GZ', true, 'case-0001.DCM'],
    ['a.dcm.gz', false, 'case-0001.dcm.gz'],
  ])('A neutral name of DICOM has the extension of what is sent: %s, %j', (name, unpacks, neutral) => {
    expect(given([[{ name, format: 'DICOM' }]], unpacks).names).toEqual([[neutral]]);
  });

  test('A neutral name of a series has no extension', () => {
    expect(given([[{ name: 's.dcm', kind: 'series', format: 'DICOM' }]]).names).toEqual([['case-0001']]);
    // Nor has a store without one.
    const stores = ['ada', 'bo.ZARR'].map((name) => ({ name, kind: 'store' }));
    expect(given([stores]).names).toEqual([['case-0001', 'case-0002.zarr']]);
  });

  test('A neutral name has the number of its case, and 0 if it belongs to all cases', () => {
    const { names, neutral } = given([['a.nii', 'b.nii'], ['all.nii'], ['c.nii', 'd.nii']], true, 41);
    expect(names).toEqual([
      ['case-0041.nii', 'case-0042.nii'],
      ['case-0000.nii'],
      ['case-0041.nii', 'case-0042.nii'],
    ]);
    // Of the first group.
    expect(neutral.originals).toEqual({ 'case-0041': 'a', 'case-0042': 'b', 'case-0000': 'all' });
    expect(given([['a.nii'], ['b.nii']], true, 12_345).names).toEqual([
      ['case-12345.nii'],
      ['case-12345.nii'],
    ]);
    expect([neutral.nameOfPath('/in/b.nii'), neutral.nameOfPath('/in/x.nii')]).toEqual([
      'case-0042.nii',
      null,
    ]);
    const pair = ['all.hdr', { name: 'all.img', of: 'all.hdr' }];
    expect(given([['a.nii', 'b.nii'], pair]).names[1]).toEqual(['case-0000.hdr', 'case-0000.img']);
    expect(() => neutral.nameOf({} as never)).toThrow('A file without a neutral name would be sent');
  });

  test('Neutral names of several voxel files are numbered, and two headers with one stem stay separate', () => {
    const many = ['a.mhd', { name: 'z.raw', of: 'a.mhd' }, { name: 'y.raw', of: 'a.mhd' }];
    expect(given([many]).names).toEqual([['case-0001.mhd', 'case-0001_0001.raw', 'case-0001_0002.raw']]);
    const two = ['a.mhd', 'a.nhdr', { name: 'z.raw', of: 'a.mhd' }, { name: 'y.raw', of: 'a.nhdr' }];
    expect(given([two]).names).toEqual([
      ['case-0001.mhd', 'case-0001.nhdr', 'case-0001.raw', 'case-0001_3.raw'],
    ]);
  });
});
