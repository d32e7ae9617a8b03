import { describe, expect, test } from 'vitest';
import { misplacedGrid } from '../src/gantry-tilt.js';
import {
  type Affine,
  type Geometry,
  isSameGeometry,
  VolumeError,
  type VolumeFile,
  type Voxels,
} from '../src/index.js';
import { labelReader, placeOnGrid, slicesOnGrid } from '../src/onto-grid.js';
import { joinMasks } from '../src/single-masks.js';

type Row = readonly [number, number, number, number];
const geometry = (
  size: readonly [number, number, number],
  i: readonly number[],
  j: readonly number[],
  k: readonly number[],
  at: readonly number[] = [0, 0, 0],
): Geometry => ({
  size,
  affine: [0, 1, 2].map((row) => [i[row], j[row], k[row], at[row]]) as unknown as Affine,
});
/** Voxels of 1 x 2 x 3 mm. */
const grid = geometry([4, 3, 2], [1, 0, 0], [0, 2, 0], [0, 0, 3]);
const moved = (x: number, y = 0, z = 0, size = grid.size): Geometry =>
  geometry(size, [1, 0, 0], [0, 2, 0], [0, 0, 3], [x, y, z]);

/** A volume in memory, of one slice after another. */
function volume({ size, affine }: Geometry, data: Voxels, given: Partial<VolumeFile> = {}): VolumeFile {
  const plane = size[0] * size[1];
  return {
    ...{ path: 'dir/mask.nii', format: 'NIfTI', size, affine, components: 1, frames: 1 },
    ...{ hasOrientation: true, modality: null, labels: null },
    async *slices() {
      for (let k = 0; k < size[2]; k += 1) yield { k, values: data.subarray(k * plane, (k + 1) * plane) };
    },
    ...given,
  };
}
async function read(slices: AsyncIterable<{ k: number; values: Voxels }>): Promise<[number, Voxels][]> {
  const all: [number, Voxels][] = [];
  for await (const { k, values } of slices) all.push([k, values.slice()]);
  return all;
}
const counted = (count: number) => Uint8Array.from({ length: count }, (_, at) => at + 1);

describe('A label map on a grid', () => {
  test('A label map on a grid is refused with several values in a voxel, or several volumes', () => {
    for (const given of [{ components: 3 as const }, { frames: 2 }])
      expect(() => placeOnGrid(volume(grid, counted(24), given), grid)).toThrow(
        new VolumeError('dir/mask.nii has several values in a voxel: it is no map of labels.'),
      );
    const flat = geometry([4, 3, 2], [1, 0, 0], [1, 0, 0], [0, 0, 3]);
    expect(() => placeOnGrid(volume(flat, counted(24)), grid)).toThrow(
      new VolumeError('dir/mask.nii has axes without a direction.'),
    );
  });

  test('A label map on a grid is read slice by slice where its slices are those of the grid', async () => {
    const part = geometry([2, 2, 2], [-1, 0, 0], [0, 2, 0], [0, 0, -3], [2, 2, 3]);
    const placing = placeOnGrid(volume(part, counted(8)), grid);
    expect([placing.isExact, placing.isByNumber]).toEqual([true, false]);
    expect(await read(placing.slices())).toEqual([
      [1, Uint8Array.of(0, 0, 0, 0, 0, 2, 1, 0, 0, 4, 3, 0)],
      [0, Uint8Array.of(0, 0, 0, 0, 0, 6, 5, 0, 0, 8, 7, 0)],
    ]);
  });

  test.each<[string, Geometry, number[]]>([
    ['a part of its rows', moved(0, 2, 0, [4, 2, 1]), [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]],
    ['a part of its columns', moved(1, 0, 0, [2, 3, 1]), [0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0]],
    [
      'its rows backwards',
      geometry([4, 3, 1], [1, 0, 0], [0, -2, 0], [0, 0, 3], [0, 4, 0]),
      [9, 10, 11, 12, 5, 6, 7, 8, 1, 2, 3, 4],
    ],
  ])('A label map on a grid may have %s', async (_, mask, values) => {
    const placing = placeOnGrid(volume(mask, counted(12)), grid);
    expect(await read(placing.slices())).toEqual([[0, Uint8Array.from(values)]]);
  });

  test('A label map on a grid gets the nearest voxels elsewhere, none outside, and words where one label needs them', async () => {
    const data = Int32Array.of(1, 2, 3, 4, 5, 6, 7, 300);
    const off = geometry([2, 2, 2], [1, 0, 0], [0, 2, 0], [0, 0, 3], [1.4, 0.9, 0]);
    const placing = placeOnGrid(volume(off, data), grid);
    expect(placing.isExact).toBe(false);
    expect(await read(placing.slices())).toEqual([
      [0, Uint16Array.of(0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0)],
      [1, Uint16Array.of(0, 5, 6, 0, 0, 7, 300, 0, 0, 0, 0, 0)],
    ]);
    expect(await read(placeOnGrid(volume({ ...off, size: [2, 2, 0] }, data), grid).slices())).toEqual([]);
  });

  test.each([
    [[0.009, 0.991, 254.995, Number.NaN, 0, -0.009], Uint8Array.of(0, 1, 255, 0, 0, 0)],
    [[1, 256, 1, 65535.009, 0, 0], Uint16Array.of(1, 256, 1, 65535, 0, 0)],
  ])('A label map on a grid has whole numbers of %j', (values, labels) => {
    expect(labelReader(volume(grid, counted(24)))(Float64Array.from(values))).toEqual(labels);
  });

  test.each([0.011, 0.5, -1, -0.011, 65_536, Number.POSITIVE_INFINITY])(
    'A label map on a grid has no label %d',
    (value) => {
      expect(() => labelReader(volume(grid, counted(24)))(Float64Array.of(0, value))).toThrow(
        new VolumeError(
          `mask.nii has the value ${value}, which is no label: labels are whole numbers from 0 to 65535.`,
        ),
      );
    },
  );

  test('A label map on a grid keeps words for the slices after one that needs them', () => {
    const reader = labelReader(volume(grid, counted(24)));
    expect([[3], [300], [4]].map((values) => reader(Int16Array.from(values)).constructor)).toEqual([
      Uint8Array,
      Uint16Array,
      Uint16Array,
    ]);
  });
});

test('A volume of any values is put on a grid that has its voxels, all of them.', async () => {
  const named = { ...grid, name: 'scan' };
  const turned = geometry([2, 4, 3], [0, 0, 3], [1, 0, 0], [0, 2, 0]);
  const data = Float32Array.from({ length: 24 }, (_, at) => at - 0.5);
  const [first, second] = await read(slicesOnGrid(volume(turned, data), named));
  expect(first).toEqual([0, Float32Array.from({ length: 12 }, (_, at) => 2 * at - 0.5)]);
  expect(second).toEqual([1, Float32Array.from({ length: 12 }, (_, at) => 2 * at + 0.5)]);
  for (const other of [moved(0, 0, 0, [3, 3, 2]), moved(0.5)])
    expect(() => slicesOnGrid(volume(other, data), named)).toThrow(
      new VolumeError('mask.nii lies on another grid than scan.'),
    );
});

describe('The grid of a tilted series', () => {
  const tilted = (shift: number, count = 3) => geometry([4, 6, count], [1, 0, 0], [0, 1, 0], [0, shift, 4]);
  const straight = (step: number, count = 3) => geometry([4, 6, count], [1, 0, 0], [0, 1, 0], [0, 0, step]);
  const at = (found: Geometry | null) =>
    found?.affine.map((row: Row) => row.map((value) => expect.closeTo(value, 9)));

  test('The grid of a tilted series is that of straight slices as far apart as their centres, or of slices along the slant as far as their planes', () => {
    const grid = tilted(3);
    const itk = straight(5);
    expect(misplacedGrid(volume(itk, counted(72)), grid)?.affine).toEqual(at(itk));
    const dcm2niix = geometry([4, 6, 3], [1, 0, 0], [0, 1, 0], [0, 2.4, 3.2]);
    expect(misplacedGrid(volume(dcm2niix, counted(72)), grid)?.affine).toEqual(at(dcm2niix));
  });

  test('The grid of a tilted series is right where all slices together are shifted by less than a pixel', () => {
    for (const [shift, isRight] of [
      [0.49, true],
      [0.51, false],
    ] as const) {
      const step = Math.hypot(shift, 4);
      const found = misplacedGrid(volume(straight(step), counted(72)), tilted(shift));
      expect(found === null).toBe(isRight);
    }
  });

  test('The grid of a tilted series is right for a volume that reaches over all of it, up to one voxel before its ends', () => {
    const over = (from: number, rows: number) =>
      volume(geometry([4, rows, 3], [1, 0, 0], [0, 1, 0], [0, 0, 4], [0, from, 0]), counted(72));
    // Its rows lie from 0 to 5, and from 6 to 11 on the last slice.
    expect(misplacedGrid(over(0, 12), tilted(3))).toBeNull();
    expect(misplacedGrid(over(0.5, 11), tilted(3))).toBeNull();
    for (const [from, rows] of [
      [1, 12],
      [0, 11],
    ] as const)
      expect(() => misplacedGrid(over(from, rows), tilted(3))).toThrow(
        new VolumeError(
          'mask.nii does not reach over all of the scan, whose slices are those of a tilted gantry, each 3.00 mm further aside: the program that made it may have placed them wrongly, so that nobody can tell where its labels lie. Give the program the scan as NIfTI, or resampled to straight slices that hold all of it.',
        ),
      );
  });
});

test('Geometries are the same to a part of the smallest side.', () => {
  expect([0.05, 0.051].map((x) => isSameGeometry(grid, moved(x)))).toEqual([true, false]);
  expect([0.5, 0.51].map((x) => isSameGeometry(grid, moved(x), 0.5))).toEqual([true, false]);
  const longer = geometry(grid.size, [1, 0, 0], [0, 2, 0], [0, 0, 3.03]);
  expect(isSameGeometry(grid, longer)).toBe(false);
});

test('Masks of one file of several volumes are not joined, nor those of different grids.', async () => {
  const segment = (name: string) => ({ name, color: null, snomed: null });
  const one = {
    mask: volume(
      grid,
      counted(24).map((at) => (at === 3 ? 2 : 0)),
    ),
    segment: segment('a'),
  };
  const join = (other: VolumeFile) => joinMasks([one, { mask: other, segment: segment('b') }], 'all');
  const sentence = 'b.nii lies on another grid than mask.nii.';
  await expect(join(volume(grid, counted(24), { frames: 2, path: 'b.nii' }))).rejects.toThrow(
    new VolumeError(sentence),
  );
  await expect(join(volume(moved(1), counted(24), { path: 'b.nii' }))).rejects.toThrow(
    new VolumeError(sentence),
  );
  await expect(join(volume(grid, counted(24), { path: 'b.nii' }))).rejects.toThrow(
    new VolumeError('b.nii has the values 1 and 2.'),
  );
  const { layers, values, overlap } = await join(
    volume(
      grid,
      counted(24).map((at) => (at < 5 ? 9 : 0)),
    ),
  );
  expect([values, overlap]).toEqual([
    [2, 9],
    ['a', 'b'],
  ]);
  expect(layers.map(({ mask, segments }) => [mask.path, mask.labels, segments])).toEqual(
    ['a', 'b'].map((name, at) => [
      'all',
      [{ value: at + 1, name, colour: null }],
      [{ value: at + 1, ...segment(name) }],
    ]),
  );
});
