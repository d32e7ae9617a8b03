import type { Affine, VolumeFile, Voxels } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { drawSlice } from '../../../src/imaging/pictures/draw.js';
import { sheetOf } from '../../../src/imaging/pictures/sheet.js';
import { straight } from '../../support/affine.js';
import { drawnCase, layouts, phantom, viewOf as viewCase, volumeOf } from './phantom.js';

const options = { slices: 3, maxPixels: 64 };
const view = (scan: VolumeFile | null, mask: VolumeFile | null = null) =>
  viewCase({ name: 'case', scan, mask }, options);

/** A cube of 8 voxels a side with the value of each voxel from its indices. */
function cube<T extends Voxels>(data: T, value: (i: number, j: number, k: number) => number): T {
  for (let at = 0; at < 512; at += 1) data[at] = value(at % 8, Math.floor(at / 8) % 8, Math.floor(at / 64));
  return data;
}
const size = [8, 8, 8] as const;

/** Voxels of 1 mm that begin at a place. */
const affineAt = (x: number, y: number, z: number): Affine => straight([1, 1, 1], [x, y, z]);

test('A slice has the contours of its labels in their colours, at the places of their voxels', async () => {
  const rows = ['........', '.aaaa...', '.aaaa...', '.aaaa...', '.aaaa.b.', '........'];
  const data = Uint8Array.from([...rows.join('')].map((letter) => '.ab'.indexOf(letter)));
  // The first axis runs to the left, and the second to the back, as the picture does.
  const affine: Affine = straight([-1, -1, 1]);
  const terminology = { 1: { name: 'a', color: '#fa0001' }, 2: { name: 'b', color: '#00fa02' } };
  const drawn = await viewCase({ mask: volumeOf(data, [8, 6, 1], { affine }), terminology });
  const [plane] = drawn.planes;
  const [slice] = plane.slices;
  if (!slice) throw new Error('no slice');
  const { pixels } = drawSlice(drawn, plane, slice, { width: 8, height: 6, hasMarks: false });
  const letters = rows.map((row, y) =>
    [...row]
      .map(
        (_, x) =>
          ({ '250,0,1': 'a', '0,250,2': 'b' })[
            String(pixels.subarray((y * 8 + x) * 3, (y * 8 + x) * 3 + 3))
          ] ?? '.',
      )
      .join(''),
  );
  expect(letters).toEqual(['........', '.aaaa...', '.a..a...', '.a..a...', '.aaaa.b.', '........']);
});

test('An empty segmentation is said to be empty, and its scan is drawn', async () => {
  const scan = volumeOf(
    cube(new Float32Array(512), (i) => i),
    size,
  );
  const drawn = await view(scan, volumeOf(new Uint8Array(512), size, { path: '/data/mask.nii.gz' }));
  expect(drawn.labels).toEqual([]);
  expect(drawn.notes).toEqual(['mask.nii.gz is empty: no voxel has a label']);
  expect(drawn.planes.map(({ slices }) => slices.length)).toEqual([3, 3, 3]);
});

test('A single slice is drawn only in its own plane', async () => {
  const flat = volumeOf(
    Uint8Array.from({ length: 64 }, (_, at) => at),
    [8, 8, 1],
  );
  const drawn = await view(flat, flat);
  expect(drawn.planes.map(({ name, slices }) => [name, slices.length])).toEqual([
    ['axial', 1],
    ['coronal', 0],
    ['sagittal', 0],
  ]);
  expect(sheetOf([drawnCase('flat', drawn)]).length).toBeGreaterThan(100);
});

test('Only one of several volumes in a file is drawn, and a note says which', async () => {
  const data = new Int16Array(1024);
  data.fill(5, 512);
  const drawn = await viewCase(
    { name: 'fmri', scan: volumeOf(data, size, { frames: 2, path: '/data/bold.nii' }), mask: null },
    { ...options, frame: 1 },
  );
  expect(drawn.notes).toEqual(['bold.nii holds 2 volumes: number 2 is shown']);
  expect(new Set(drawn.planes[0].slices[0]?.pixels)).toEqual(new Set([128]));
});

test('Voxels that are not numbers are black, and do not decide what is white', async () => {
  const data = cube(new Float32Array(512), (i) => (i < 4 ? Number.NaN : i === 7 ? Infinity : i * 10));
  const drawn = await view(volumeOf(data, size));
  expect(drawn.window).toEqual({ low: 40, high: 60, unit: null });
  const { pixels } = drawn.planes[0].slices[0] ?? { pixels: new Uint8Array() };
  // The patient's right, where i is high, is on the left.
  expect([...pixels.subarray(0, 8)]).toEqual([255, 255, 128, 0, 0, 0, 0, 0]);
});

test('Labels may be 16-bit numbers, and may outnumber the colours', async () => {
  const labels = cube(new Uint16Array(512), (i, j, k) => 60_000 + i + 8 * j + 64 * k);
  const drawn = await view(null, volumeOf(labels, size, { path: '/data/atlas.nii' }));
  expect(drawn.labels).toHaveLength(255);
  expect(drawn.labels.every(({ value, voxels }) => value >= 60_000 && voxels === 1)).toBe(true);
  expect(drawn.notes).toContain('atlas.nii has 512 labels: the 255 largest are shown');
});

test('Names and colours of labels come from the terminology, then from the file', async () => {
  const labels = cube(new Uint8Array(512), (i) => i);
  const mask = volumeOf(labels, size, {
    labels: [
      { value: 1, name: 'Of the file', colour: '#010203' },
      { value: 2, name: 'Of the file', colour: '#040506' },
    ],
  });
  const terminology = { 1: { name: 'Liver', color: '#fa0' } };
  const drawn = await viewCase({ name: 'case', scan: null, mask, terminology }, options);
  expect(drawn.labels.slice(0, 3).map(({ name, colour }) => [name, colour])).toEqual([
    ['Liver', [255, 170, 0]],
    ['Of the file', [4, 5, 6]],
    ['label 3', [0, 158, 115]],
  ]);
  expect(new Set(drawn.labels.map(({ colour }) => colour.join())).size).toBe(7);
});

test('A volume in colour is drawn in its colours', async () => {
  const rgb = Uint8Array.from({ length: 512 * 3 }, (_, at) => [200, 100, 0][at % 3] ?? 0);
  const drawn = await view(volumeOf(rgb, size, { components: 3 }));
  expect(drawn.window).toBeNull();
  const [plane] = drawn.planes;
  const [slice] = plane.slices;
  if (!slice) throw new Error('no slice');
  const picture = drawSlice(drawn, plane, slice, { width: 64, height: 64, hasMarks: false });
  expect([...picture.pixels.subarray(0, 6)]).toEqual([200, 100, 0, 200, 100, 0]);
});

test('A segmentation on another grid is drawn in place, and counted on its own grid', async () => {
  const { scan } = phantom({ layout: layouts[5] ?? [], spacing: [1, 1, 1] });
  const { mask } = phantom({ layout: layouts[40] ?? [], spacing: [2, 2, 2] });
  const drawn = await view(scan, mask);
  expect(drawn.notes).toEqual([
    `mask.nii has another grid (${mask.size.join(' x ')}) than scan.nii (${scan.size.join(' x ')}): drawn where it lies in space`,
  ]);
  const alone = await view(null, mask);
  expect(drawn.labels).toEqual(alone.labels);
  // White where the marker is, and label 2 there.
  const slice = drawn.planes[0].slices[drawn.planes[0].best];
  const marked = [...(slice?.pixels ?? [])].flatMap((pixel, at) =>
    pixel > 250 ? [slice?.labels?.[at]] : [],
  );
  const hits = marked.filter((label) => label === 2).length;
  expect(hits / marked.length).toBeGreaterThan(0.85);
});

test('A segmentation that lies elsewhere is not drawn, and a note asks about it', async () => {
  const scan = volumeOf(
    cube(new Uint8Array(512), (i) => i),
    size,
    { path: '/data/scan.nii' },
  );
  const mask = volumeOf(new Uint8Array(512).fill(1), size, {
    affine: affineAt(500, 0, 0),
    path: '/data/mask.nii',
  });
  const drawn = await view(scan, mask);
  expect(drawn.notes.at(-1)).toBe('No label of mask.nii lies within scan.nii: do they belong together?');
  expect(drawn.labels.map(({ voxels }) => voxels)).toEqual([512]);
  const empty = volumeOf(new Uint8Array(512), size, { affine: affineAt(500, 0, 0), path: '/data/mask.nii' });
  expect((await view(scan, empty)).notes.join()).toBe(
    [...drawn.notes.slice(0, -1), 'mask.nii is empty: no voxel has a label'].join(),
  );
});

test('A volume with many values is not a segmentation', async () => {
  const scan = volumeOf(
    cube(new Float32Array(512), (i) => i),
    size,
  );
  const map = volumeOf(
    cube(new Float32Array(512), (i) => i / 8),
    size,
    { path: '/data/uncertainty.nii' },
  );
  await expect(view(scan, map)).rejects.toThrow(
    'uncertainty.nii holds no labels but a range of values: give it without the scan to look at it.',
  );
});

test('A volume of one value is drawn in grey', async () => {
  const drawn = await view(volumeOf(new Int16Array(512).fill(7), size));
  expect(drawn.planes[0].slices[0]?.pixels[0]).toBe(128);
});

test('Small volumes are drawn in the size of their voxels, and long ones are reduced', async () => {
  const drawn = await view(
    volumeOf(new Uint8Array(4 * 4 * 100), [4, 4, 100], {
      affine: straight([0.5, 0.5, 2]),
    }),
  );
  const [axial, coronal] = drawn.planes;
  expect([axial.slices[0]?.width, axial.slices[0]?.height]).toEqual([1, 1]);
  expect([coronal.slices[0]?.width, coronal.slices[0]?.height]).toEqual([1, 64]);
  expect(drawn.pixel).toBeCloseTo(200 / 64);
});
