import type { Slice, VolumeFile, Voxels } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import {
  chooseSlices,
  colourOf,
  countLabels,
  readColour,
  toIndices,
} from '../../../src/imaging/pictures/labels.js';
import { looksOf } from '../../../src/imaging/pictures/looks.js';
import { windowOf } from '../../../src/imaging/pictures/window.js';
import { volumeOf } from './phantom.js';

const size = [3, 2, 4] as const;

async function* slicesOf(values: Voxels | readonly number[], [ni, nj, nk]: readonly number[] = size) {
  const plane = (ni ?? 0) * (nj ?? 0);
  for (let k = 0; k < (nk ?? 0); k += 1)
    yield { k, values: Float64Array.from([...values].slice(k * plane, (k + 1) * plane)) } satisfies Slice;
}

test('Labels are counted, and by axis where they lie, each label as much as the others', async () => {
  const values = [
    0,
    0,
    0,
    0,
    0,
    7,
    ...[2, 2, 0, 0, 0, 0],
    ...[2, 2, Number.NaN, 0, 0, 0],
    ...Array(6).fill(0),
  ];
  expect(await countLabels(slicesOf(values), { size })).toEqual({
    values: [
      { value: 2, voxels: 4 },
      { value: 7, voxels: 1 },
    ],
    // Half of label 2 in each of two columns and slices; label 7 is one voxel.
    weights: [Float64Array.of(0.5, 0.5, 1), Float64Array.of(1, 1), Float64Array.of(1, 0.5, 0.5, 0)],
    isScaled: false,
  });
});

test('Labels that a slope has moved are those that they are nearly, and a range of values has none', async () => {
  const counted = (values: readonly number[]) =>
    countLabels(slicesOf(values, [values.length, 1, 1]), { size: [values.length, 1, 1] });
  const scaled = await counted([0.996, 2, 0.004, 0.996]);
  expect([scaled?.isScaled, scaled?.values]).toEqual([
    true,
    [
      { value: 1, voxels: 2 },
      { value: 2, voxels: 1 },
    ],
  ]);
  expect(await counted([1, 1.02])).toBeNull();
  expect(await counted([1.06])).toBeNull();
  expect((await counted([-3]))?.values).toEqual([{ value: -3, voxels: 1 }]);
  // As many labels as are counted, and one more.
  const cube = [17, 17, 15] as const;
  const many = (count: number) =>
    countLabels(
      slicesOf(
        Array.from({ length: 17 * 17 * 15 }, (_, at) => (at < count ? at + 1 : 0)),
        cube,
      ),
      {
        size: cube,
      },
    );
  expect(await many(4097)).toBeNull();
  expect((await many(4096))?.values).toHaveLength(4096);
});

test.each<[string, Parameters<typeof chooseSlices>, readonly number[], number]>([
  ['the one in the middle', [9, 1, null], [4], 0],
  ['the middle, and the middles of the widest gaps', [9, 3, null], [1, 4, 6], 1],
  ['all if there are fewer', [2, 5, null], [0, 1], 0],
  ['as without labels where none occurs', [9, 3, new Float64Array(9)], [1, 4, 6], 1],
  ['the one with most of the labels', [5, 1, Float64Array.of(0, 0, 0, 3, 1)], [3], 0],
  [
    'those that have a third of the labels each',
    [10, 5, Float64Array.of(0, 1, 2, 3, 2, 1, 0, 0, 0, 0)],
    [0, 2, 3, 4, 7],
    2,
  ],
  ['more of those with labels', [10, 4, Float64Array.of(0, 0, 0, 0, 0, 0, 2, 1, 2, 1)], [2, 4, 6, 8], 2],
])('The slices that are shown are %s', (_, given, indices, best) => {
  expect(chooseSlices(...given)).toEqual({ indices, best });
});

test('Colours of labels differ round by round, and are read as HTML has them', () => {
  expect([1, 7, 8, 15, 22].map(colourOf)).toEqual([
    [230, 159, 0],
    [0, 114, 178],
    [241, 202, 115],
    [138, 95, 0],
    [241, 202, 115],
  ]);
  expect(['#e0b088', '#EB8', '#eb', 'e0b088', 'red'].map(readColour)).toEqual([
    [224, 176, 136],
    [238, 187, 136],
    ...[null, null, null],
  ]);
});

test('Values become the indices of their labels', () => {
  const indexOf = new Map([
    [1, 1],
    [5, 2],
  ]);
  expect(toIndices(Float32Array.of(0, 5, 5, 0.996, 3, 0, 1), indexOf)).toEqual(
    Uint8Array.of(0, 2, 2, 1, 0, 0, 1),
  );
});

const fileOf = (values: readonly number[], more: Partial<VolumeFile> = {}): VolumeFile => ({
  ...{
    path: 'a',
    format: 'NIfTI',
    affine: [] as unknown as VolumeFile['affine'],
    size: [values.length, 1, 1],
  },
  ...{ components: 1, frames: 1, hasOrientation: true, modality: null, labels: null, ...more },
  slices: () => slicesOf(values, more.size ?? [values.length, 1, 1]),
});

test('A volume looks like a mask, a segmentation or a scan', async () => {
  expect(await looksOf(fileOf([0, 1, 1, 1, 0, 0]))).toBe('binary');
  expect(await looksOf(fileOf([0, 0, 0]))).toBe('binary');
  expect(await looksOf(fileOf([1, 1, 1, 0, 2, 2, 2]))).toBe('labels');
  // Neighbours differ, or values are no whole numbers.
  expect(await looksOf(fileOf([1, 2, 3, 4, 5, 6]))).toBe('continuous');
  expect(await looksOf(fileOf([0, 0.5, 0.5, 0.5]))).toBe('continuous');
  expect(await looksOf(fileOf([0, 0.01, 0.01, 0.01]))).toBe('continuous');
  // What a file says of itself.
  expect(await looksOf(fileOf([1, 2, 3], { labels: [] }))).toBe('labels');
  expect(await looksOf(fileOf([1, 1, 1], { modality: 'MR' }))).toBe('continuous');
  expect(await looksOf(fileOf([1, 1, 1], { components: 3 }))).toBe('continuous');
  const many = Array.from({ length: 257 }, (_, at) => [at + 1, at + 1, at + 1]).flat();
  expect(await looksOf(fileOf(many))).toBe('continuous');
  expect(await looksOf(fileOf(many.slice(3)))).toBe('labels');
  // Slices all over the volume are looked at, not only the first ones.
  const deep = Uint8Array.from({ length: 400 }, (_, at) => (at < 200 ? 0 : at < 300 ? 1 : 2));
  expect(await looksOf(volumeOf(deep, [4, 1, 100]))).toBe('labels');
});

const cutsOf = (values: readonly number[]): Parameters<typeof windowOf>[1] => [
  new Map([[0, Float64Array.from(values)]]),
  new Map(),
  new Map(),
];
const range = (count: number, from: number, to: number) =>
  Array.from({ length: count }, (_, at) => from + ((to - from) * at) / (count - 1));

test('Black and white are what was given, soft tissue of CT, or nearly the range of the values', () => {
  const scan = (more: object = {}) => fileOf([], more as Partial<VolumeFile>);
  const values = range(1001, 0, 1000);
  const of = (...[file, cuts, ...more]: Parameters<typeof windowOf>) => windowOf(file, cuts, ...more);
  expect(of(scan(), cutsOf(values), undefined)).toEqual({
    window: { low: 5, high: 995, unit: null },
    isGuess: false,
  });
  const tissue = { low: -160, high: 240 };
  expect(of(scan({ modality: 'CT' }), cutsOf(values), undefined)).toEqual({
    window: { ...tissue, unit: 'HU' },
    isGuess: false,
  });
  expect(of(scan({ modality: 'CT', unit: null }), cutsOf(values), undefined).window).toEqual({
    ...{ low: 5, high: 995, unit: null },
  });
  expect(of(scan(), cutsOf(values), undefined, 'HU').window).toEqual({ ...tissue, unit: 'HU' });
  expect(of(scan({ modality: 'MR' }), cutsOf(values), undefined, 'HU').window.unit).toBeNull();
  expect(of(scan({ modality: 'CT' }), cutsOf(values), { low: 1, high: 2 }).window).toEqual({
    ...{ low: 1, high: 2, unit: 'HU' },
  });
  expect(of(scan({ isInverted: true }), cutsOf(values), undefined).window.isInverted).toBe(true);
  // One of every three of 300,000 values is looked at, on through all slices.
  const some = (phase: number) =>
    Float64Array.from({ length: 100_001 }, (_, at) => ((at + phase) % 3 === 0 ? 5 : 0));
  const slices = [some(0), some(2), some(1)].map((each, at) => [at, each] as const);
  const { window: sampled } = of(scan(), [new Map(slices), new Map(), new Map()], undefined);
  expect(sampled).toEqual({ low: 4, high: 6, unit: null });
  const few = [...Array(999).fill(3), 7];
  expect(of(scan(), cutsOf(few), undefined).window).toEqual({ low: 3, high: 7, unit: null });
  expect(of(scan(), cutsOf([3, 3, Number.NaN]), undefined).window).toEqual({ low: 2, high: 4, unit: null });
});

test('What says nothing of itself is taken for CT by its air', () => {
  const guessed = (...parts: (readonly number[])[]) =>
    windowOf(fileOf([]), cutsOf(parts.flat()), undefined).isGuess;
  const [air, tissue] = [range(100, -1020, -980), range(900, -100, 200)];
  expect(guessed(air, tissue)).toBe(true);
  // A circle around it has one low value.
  expect(guessed(Array(500).fill(-3024), air, tissue)).toBe(true);
  expect(guessed(air.slice(0, 20), tissue)).toBe(false);
  expect(guessed(range(1000, -4096, 4095))).toBe(false);
  expect(guessed(air, range(60, -700, -501), tissue)).toBe(false);
  expect(guessed(air, range(20, -2000, -1101), tissue)).toBe(false);
  expect(guessed(air, range(900, -400, 0))).toBe(false);
});
