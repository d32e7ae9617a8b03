import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { openVolume, writeNifti } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { viewsOf } from '../../../src/cli/show/case-views.js';
import type { ShownCase } from '../../../src/imaging/pictures/index.js';
import { temporary } from '../../support/temporary.js';

const affine = [
  [1, 0, 0, 0],
  [0, 1, 0, 0],
  [0, 0, 1, 0],
] as const;

const ramp = (count: number) => Float32Array.from({ length: count }, (_, at) => at);

test('Each segmentation is drawn on its scan and each map with the first one, by what a person and the record say', async () => {
  await using directory = await temporary();
  const written = async (name: string, data: Float32Array | Uint8Array, frames = 1) => {
    const file = path.join(directory.path, name);
    await writeNifti(file, { size: [4, 4, 4], affine, data, frames });
    return openVolume(file);
  };
  const scan = await written('scan.nii', ramp(192), 3);
  const [organs, lesions] = [
    await written(
      'organs.nii',
      Uint8Array.from({ length: 64 }, (_, at) => at % 3),
    ),
    await written(
      'lesions.nii',
      Uint8Array.from({ length: 64 }, (_, at) => at % 2),
    ),
  ];
  const map = await written('sd.nii', ramp(64));
  const units = { inputs: 'HU', outputs: 'mm' };
  const terminology = { 1: { name: 'liver' }, 2: { name: 'spleen' } };
  const shown: ShownCase = {
    ...{ name: 'sub-01', scan, notes: [], recorded: null, status: null },
    masks: [
      { name: 'organs', file: organs, terminology, units },
      { name: 'lesions', file: lesions, terminology: {}, units },
    ],
    maps: [{ name: 'sd', file: map, terminology: {}, units }],
  };
  const { signal } = new AbortController();
  const options = { frame: 2, terminology: { 2: { name: 'Milz' } }, signal };
  const how = { slices: 1, maxPixels: 32 };
  const problems: string[] = [];
  const views = await viewsOf(shown, options, how, problems);
  expect(problems).toEqual([]);
  expect(views.map((each) => [each.view.name, each.scan, each.mask, each.unit])).toEqual([
    ['sub-01: organs', scan, organs, 'HU'],
    ['sub-01: lesions', scan, lesions, 'HU'],
    ['sub-01: sd', map, organs, 'mm'],
  ]);
  expect(views.map(({ view }) => view.labels.map(({ name }) => name))).toEqual([
    ['liver', 'Milz'],
    ['label 1'],
    ['liver', 'Milz'],
  ]);
  expect(views[0]?.view.notes).toContain('scan.nii holds 3 volumes: number 2 is shown');

  // One picture has the name of its case; a scan alone has the unit of its map, which is of the same app.
  const [only, ...others] = await viewsOf({ ...shown, masks: [], maps: [] }, options, how, problems);
  expect([only?.view.name, only?.unit, others]).toEqual(['sub-01', null, []]);
  const [alone, beside] = await viewsOf({ ...shown, masks: [] }, options, how, problems);
  expect([alone?.view.name, alone?.unit, beside?.view.name]).toEqual([
    'sub-01: scan.nii',
    'HU',
    'sub-01: sd',
  ]);

  // What cannot be drawn does not hide the others.
  writeFileSync(map.path, '');
  const left = await viewsOf(shown, options, how, problems);
  expect(left.map(({ name }) => name)).toEqual(['organs', 'lesions']);
  expect(problems).toEqual([expect.stringContaining('sd.nii')]);
});
