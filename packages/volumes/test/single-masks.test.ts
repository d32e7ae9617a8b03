import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openBelow } from '../../../test/support/open-files.js';
import {
  type Affine,
  joinMasks,
  type LabelLayer,
  type Segment,
  type SingleMask,
  type SourceSeries,
  type VolumeFile,
  writeDicomSeg,
} from '../src/index.js';
import { maker, maskOn, size, writeMask, writeSeries } from './study.js';
import { workspace } from './written.js';

const count = size[0] * size[1] * size[2];

/** Labels 0 to 3; the last slice has none. */
const labels = Uint8Array.from({ length: count }, (_, at) =>
  at >= count - size[0] * size[1] ? 0 : ([0, 1, 3, 2][(at * 7 + (at >> 3)) % 4] ?? 0),
);

const named = (name: string): SingleMask['segment'] => ({ name, color: '#ff8000', snomed: null });

async function masksOf(source: SourceSeries, masks: readonly (readonly [name: string, data: Uint8Array])[]) {
  return Promise.all(
    masks.map(async ([name, data]) => ({
      mask: await maskOn(source, Uint8Array.from(data)),
      segment: named(name),
    })),
  );
}

const voxelsOf = (value: number, written = 1) => labels.map((each) => (each === value ? written : 0));

async function segmentation(layers: readonly LabelLayer[], source: SourceSeries): Promise<Buffer> {
  const file = path.join(await workspace(), 'seg.dcm');
  await writeDicomSeg(file, layers, source, { maker });
  return readFile(file);
}

async function valuesOf({ mask }: LabelLayer): Promise<number[]> {
  const all: number[] = [];
  for await (const { values } of mask.slices()) all.push(...values);
  return all;
}

test('Masks that do not overlap give the same segmentation as one label map of all of them', async () => {
  const source = await writeSeries();
  const masks = await masksOf(source, [
    ['liver', voxelsOf(1)],
    ['spleen', voxelsOf(2, 255)],
    ['kidney', voxelsOf(3)],
    ['heart', voxelsOf(9)],
  ]);
  const joined = await joinMasks(masks, 'segments');
  expect(joined).toMatchObject({ overlap: null, values: [1, 255, 1, 0] });
  expect(joined.layers).toHaveLength(1);
  const segments = ['liver', 'spleen', 'kidney'].map(
    (name, at): Segment => ({ ...named(name), value: at + 1 }),
  );
  const whole = [{ mask: await maskOn(source, labels), segments }];
  expect(await segmentation(joined.layers, source)).toEqual(await segmentation(whole, source));
});

test('Overlapping masks are split into as many layers as needed, even if three share a voxel', async () => {
  const source = await writeSeries();
  const from = (start: number, end: number) =>
    Uint8Array.from({ length: count }, (_, at) => Number(at >= start && at < end));
  const masks = await masksOf(source, [
    ['a', from(0, 20)],
    ['b', from(10, 30)],
    ['c', from(15, 20)],
    ['d', from(30, 60)],
    ['e', from(20, 30)],
  ]);
  const { layers, overlap } = await joinMasks(masks, 'segments');
  expect(overlap).toEqual(['a', 'b']);
  expect(layers.map(({ segments }) => segments.map(({ name, value }) => [name, value]))).toEqual([
    [
      ['a', 1],
      ['d', 4],
      ['e', 5],
    ],
    [['b', 2]],
    [['c', 3]],
  ]);
  const wanted = Array.from(from(0, 20), (value, at) => (at >= 30 ? 4 : at >= 20 ? 5 : value));
  expect(await valuesOf(layers[0] as LabelLayer)).toEqual(wanted);
});

test('A mask with two values, several frames or another grid is refused by name', async () => {
  const source = await writeSeries();
  const [mask] = await masksOf(source, [['a', voxelsOf(1)]]);
  const affine = source.affine.map(([i, j, k, offset]) => [i, j, k, offset + k]) as unknown as Affine;
  const refusalOf = (other: VolumeFile) =>
    joinMasks([mask as SingleMask, { mask: other, segment: named('b') }], 'segments');
  await expect(refusalOf(await writeMask('b.nii', { size, affine, data: labels }))).rejects.toThrow(
    'b.nii lies on another grid than mask.nii.gz.',
  );
  const same = { size, affine: source.affine };
  const other = await writeMask('b.nii', { ...same, data: labels });
  await expect(refusalOf(other)).rejects.toThrow(/b\.nii has the values \d and \d/);
  await expect(refusalOf({ ...other, frames: 2 })).rejects.toThrow('b.nii lies on another grid than');
  // None of them stays open.
  const isOpen = ({ path: file }: VolumeFile) => openBelow(path.dirname(file)).length > 0;
  if (process.platform === 'linux') expect([mask?.mask ?? other, other].some(isOpen)).toBe(false);
});

test('More than 255 masks become one label map of 16-bit values', async () => {
  const number = 256;
  const source = await writeSeries();
  const [empty] = await masksOf(source, [['none', voxelsOf(9)]]);
  const [last] = await masksOf(source, [['last', voxelsOf(1)]]);
  const masks = [...Array.from({ length: number - 1 }, () => empty as SingleMask), last as SingleMask];
  const { layers } = await joinMasks(masks, 'segments');
  expect(await valuesOf(layers[0] as LabelLayer)).toEqual([...voxelsOf(1)].map((value) => value * number));
});
