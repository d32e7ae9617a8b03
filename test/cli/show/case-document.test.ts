import { PassThrough } from 'node:stream';
import type { VolumeFile } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { documentOf, printTable } from '../../../src/cli/show/case-document.js';
import type { LayerView } from '../../../src/cli/show/case-views.js';
import { CommandIo } from '../../../src/cli/terminal/index.js';
import type { ShownCase } from '../../../src/imaging/pictures/index.js';

const fileOf = (path: string) => ({ path }) as VolumeFile;
const [scan, organs, lesions, map] = ['scan.nii', 'organs.nii', 'lesions.nii', 'sd.nii'].map(fileOf) as [
  VolumeFile,
  VolumeFile,
  VolumeFile,
  VolumeFile,
];

const label = (value: number, name: string, voxels: number) => ({
  ...{ index: value, value, name, colour: [0, 0, 0], voxels, millilitres: voxels / 10 },
});

/** A picture of these volumes, with these labels. */
const viewOf = (mask: VolumeFile | null, on: VolumeFile | null, labels: readonly object[], notes: string[]) =>
  ({ name: '', unit: null, mask, scan: on, view: { labels, notes } }) as unknown as LayerView;

const shown = {
  ...{ name: 'sub-01', scan, notes: ['found by the record'], status: 'done' },
  masks: [
    { name: 'organs', file: organs },
    { name: 'lesions', file: lesions },
  ],
  maps: [{ name: 'sd', file: map }],
} as unknown as ShownCase;

// A map is drawn with the first mask, and has its labels on another volume.
const views = [
  viewOf(organs, map, [], []),
  viewOf(organs, scan, [label(1, 'liver', 15), label(3, 'spleen', 4)], ['it is oblique']),
  viewOf(lesions, scan, [label(1, 'lesion', 2)], ['another grid']),
];

const [liver, spleen, lesion] = [
  { value: 1, name: 'liver', voxels: 15, millilitres: 1.5 },
  { value: 3, name: 'spleen', voxels: 4, millilitres: 0.4 },
  { value: 1, name: 'lesion', voxels: 2, millilitres: 0.2 },
];

test('A case is told by its volumes, and the labels of each segmentation on the scan', () => {
  expect(documentOf(shown, views.toReversed())).toEqual({
    ...{ name: 'sub-01', status: 'done', scan: 'scan.nii', mask: 'organs.nii', maps: ['sd.nii'] },
    labels: [liver, spleen],
    layers: [
      { name: 'organs', path: 'organs.nii', labels: [liver, spleen] },
      { name: 'lesions', path: 'lesions.nii', labels: [lesion] },
    ],
    notes: ['found by the record', 'another grid'],
  });
  expect(documentOf({ ...shown, scan: null, masks: [], maps: [] }, [])).toEqual({
    ...{ name: 'sub-01', status: 'done', scan: null, mask: null, maps: [], labels: [], layers: [] },
    notes: ['found by the record'],
  });
});

test('The table has a row for each label of each segmentation, and one for a case without any', async () => {
  const stdout = new PassThrough();
  const io = new CommandIo({ stdin: new PassThrough(), stdout, stderr: new PassThrough(), env: {} });
  const both = documentOf(shown, views);
  const one = { ...both, name: 'sub-02', layers: both.layers.slice(0, 1) };
  await printTable([both, one, { ...both, name: 'sub-03', layers: [] }], io);
  expect(String(stdout.read()).split('\n')).toEqual([
    'CASE             LABEL   VALUE  VOXELS  VOLUME',
    'sub-01: organs   liver   1      15      1.5 ml',
    'sub-01: organs   spleen  3      4       0.4 ml',
    'sub-01: lesions  lesion  1      2       0.2 ml',
    'sub-02           liver   1      15      1.5 ml',
    'sub-02           spleen  3      4       0.4 ml',
    'sub-03           -       -      -       -',
    '',
  ]);
});
