import path from 'node:path';
import { expect, test } from 'vitest';
import type { NamedUnit, Series } from '../../../src/client/found-files.js';
import { type Besides, notesOf } from '../../../src/imaging/inputs/notes.js';
import { dicom, plant, temporary } from '../../support/temporary.js';

/** The notes on files that are sent, with this beside them. */
function told(units: readonly Partial<NamedUnit>[], more: Partial<Besides> = {}, isListed = false) {
  const nothing = {
    ...{ skipped: [], copies: [], repeated: [], strays: [], followed: [], objects: [], unknown: [] },
    ...{ headless: [], pairings: [], incomplete: [] },
  };
  return notesOf(units as readonly NamedUnit[], isListed, { ...nothing, ...more });
}

const series = (number: number, remarks: readonly string[] = []): Partial<NamedUnit> => ({
  kind: 'series',
  path: `/scans/${number}`,
  name: `scans_${number}`,
  series: {
    number,
    description: 'T1',
    modality: 'MR',
    size: [],
    images: 2,
    plane: null,
    remarks,
  } as unknown as Series,
});

test('What stays here is named, one file or several', () => {
  expect(told([], { skipped: ['a.txt'], copies: ['b.dcm'] })).toEqual([
    '1 file that is not a volume was not sent (a.txt); --all-files sends it',
    '1 identical copy of an image was not sent (b.dcm)',
  ]);
  const objects = ['SEG', 'RTDOSE', 'SEG'].map((modality, at) => ({ modality, path: `${at}.dcm` }));
  const more = {
    ...{ skipped: ['a.txt', 'b.txt'], copies: ['c.dcm', 'd.dcm'], strays: ['s.zarr/x'], objects },
    ...{ unknown: ['odd'], headless: ['x.img'], incomplete: ['1 of 2 cases has no file in --gt: a'] },
  };
  expect(told([], more)).toEqual([
    '2 files that are not volumes were not sent (a.txt, b.txt); --all-files sends them',
    '2 identical copies of images were not sent (c.dcm, d.dcm)',
    "Not part of their Zarr store, and not sent: 's.zarr/x'",
    'DICOM objects without an image were not sent: 2 SEG, 1 RTDOSE (0.dcm, 1.dcm, 2.dcm); name a file to send it',
    'No file in odd has a format of volumes that is known: they are sent as they are',
    'Sent without a header, because there is none of the same name: x.img',
    'Left out: 1 of 2 cases has no file in --gt: a',
  ]);
});

test('Links that were followed are named with where they lead', () => {
  const followed = [1, 2].map((at) => ({ path: `${at}.nii`, target: `/home/${at}.nii` }));
  expect(told([], { followed: followed.slice(1) })).toEqual([
    '1 link leads out of what was named, to volumes, and is followed: 2.nii -> /home/2.nii',
  ]);
  expect(told([], { followed })).toEqual([
    '2 links lead out of what was named, to volumes, and are followed: 1.nii -> /home/1.nii, 2.nii -> /home/2.nii',
  ]);
});

test('Groups say how their files are paired', () => {
  const groups = [
    ['a', 'b', 'c'],
    ['x', 'y'],
  ] as const;
  const pairs = [['a', 'x']] as const;
  const pairings = (['name', 'order', 'count'] as const).map((by) => ({ by, groups, pairs }));
  expect(told([], { pairings })).toEqual([
    'Files are paired by name, because the groups are in different orders: a with x',
    'Files are paired by order, because their names do not match: a with x',
    'The groups have 3 and 2 files, which are paired by order: a with x',
  ]);
});

test('Series are listed where there are several, unless a table shows them, and say what should be known', () => {
  const [one, other] = [series(1), series(2, ['lacks 1 slice'])];
  const remark = "Series 2 'T1' (MR, 2 images) lacks 1 slice";
  expect(told([one])).toEqual([]);
  expect(told([other])).toEqual([remark]);
  expect(told([one, other])).toEqual([
    '2 DICOM series are sent, each as a case; --series chooses some by number or description',
    "  1 'T1' (MR, 2 images) -> scans_1",
    "  2 'T1' (MR, 2 images) -> scans_2",
    remark,
  ]);
  expect(told([one, other], {}, true)).toEqual([remark]);
});

test('Files that are sent under other names are listed, unless a table shows them', () => {
  const file = (name: string): Partial<NamedUnit> => ({ kind: 'file', path: '/a/x.nii', name });
  expect(told([file('x.nii')])).toEqual([]);
  expect(told([file('a_x.nii')])).toEqual(['/a/x.nii -> a_x.nii']);
  expect(told([file('a_x.nii')], {}, true)).toEqual([]);
  expect(told([{ ...file('a_x.nii'), path: '/a/\u001bx.nii' }])).toEqual(['/a/\\x1bx.nii -> a_x.nii']);
  expect(told(Array.from({ length: 6 }, () => file('a_x.nii')))).toEqual([
    ...Array.from({ length: 5 }, () => '/a/x.nii -> a_x.nii'),
    '1 more are renamed in the same way; --json lists them all',
  ]);
});

test('Slices that are sent as volumes are told of where there are several', async () => {
  await using root = await temporary();
  await plant(root.path, { '1.dcm': dicom, '2.dcm': dicom, 'a.nii': 'x' });
  const file = (name: string): Partial<NamedUnit> => ({
    ...{ kind: 'file', path: path.join(root.path, name), name },
  });
  expect(told([file('1.dcm'), file('a.nii')])).toEqual([]);
  expect(told([file('1.dcm'), file('2.dcm'), file('a.nii')])).toEqual([
    '2 DICOM files are sent as 2 volumes; name their directory to send them as one series',
  ]);
});
