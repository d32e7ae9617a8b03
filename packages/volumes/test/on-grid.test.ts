import { describe, expect, test } from 'vitest';
import { misplacedGrid } from '../src/gantry-tilt.js';
import { type Affine, type Geometry, VolumeError, type VolumeFile, type Voxels } from '../src/index.js';
import { labelReader, placeOnGrid } from '../src/onto-grid.js';

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
  test('A volume with several values in a voxel, or several frames, is not placed as a label map', async () => {
    for (const given of [{ components: 3 as const }, { frames: 2 }])
      expect(() => placeOnGrid(volume(grid, counted(24), given), grid)).toThrow(
        new VolumeError('dir/mask.nii has several values in a voxel: it is not a label map.'),
      );
    const flat = geometry([4, 3, 2], [1, 0, 0], [1, 0, 0], [0, 0, 3]);
    await expect(
      placeOnGrid(volume(flat, counted(24)), grid)
        .slices()
        .next(),
    ).rejects.toThrow(new VolumeError('dir/mask.nii has axes without a direction.'));
  });

  test('A label map whose slices are those of the grid is read slice by slice', async () => {
    const part = geometry([2, 2, 2], [-1, 0, 0], [0, 2, 0], [0, 0, -3], [2, 2, 3]);
    const placing = placeOnGrid(volume(part, counted(8)), grid);
    expect([placing.isExact, placing.isByNumber]).toEqual([true, false]);
    expect(await read(placing.slices())).toEqual([
      [1, Uint8Array.of(0, 0, 0, 0, 0, 2, 1, 0, 0, 4, 3, 0)],
      [0, Uint8Array.of(0, 0, 0, 0, 0, 6, 5, 0, 0, 8, 7, 0)],
    ]);
  });

  test.each<[string, Geometry, number[]]>([
    ['only some rows of the grid', moved(0, 2, 0, [4, 2, 1]), [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]],
    ['only some columns of the grid', moved(1, 0, 0, [2, 3, 1]), [0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0]],
    [
      'its rows reversed',
      geometry([4, 3, 1], [1, 0, 0], [0, -2, 0], [0, 0, 3], [0, 4, 0]),
      [9, 10, 11, 12, 5, 6, 7, 8, 1, 2, 3, 4],
    ],
  ])('A label map may have %s', async (_, mask, values) => {
    const placing = placeOnGrid(volume(mask, counted(12)), grid);
    expect(await read(placing.slices())).toEqual([[0, Uint8Array.from(values)]]);
  });

  test.each([
    [[0.009, 0.991, 254.995, Number.NaN, 0, -0.009], Uint8Array.of(0, 1, 255, 0, 0, 0)],
    [[1, 256, 1, 65535.009, 0, 0], Uint16Array.of(1, 256, 1, 65535, 0, 0)],
  ])('The values %j are rounded to labels', (values, labels) => {
    expect(labelReader(volume(grid, counted(24)))(Float64Array.from(values))).toEqual(labels);
  });

  test.each([0.011, 0.5, -1, -0.011, 65_536, Number.POSITIVE_INFINITY])('%d is not a label', (value) => {
    expect(() => labelReader(volume(grid, counted(24)))(Float64Array.of(0, value))).toThrow(
      new VolumeError(
        `mask.nii has the value ${value}, which is not a label: labels are whole numbers from 0 to 65535.`,
      ),
    );
  });

  test('Labels stay 16-bit values after the first slice that needs them', () => {
    const reader = labelReader(volume(grid, counted(24)));
    expect([[3], [300], [4]].map((values) => reader(Int16Array.from(values)).constructor)).toEqual([
      Uint8Array,
      Uint16Array,
      Uint16Array,
    ]);
  });
});

describe('The grid of a tilted series', () => {
  const tilted = (shift: number, count = 3) => geometry([4, 6, count], [1, 0, 0], [0, 1, 0], [0, shift, 4]);

  test('A volume is placed by its affine if it covers the tilted series to within a voxel', () => {
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
          'mask.nii does not reach over all of the scan, whose slices are those of a tilted gantry, each 3.00 mm further aside: the program that made it may have placed them wrongly, so it is uncertain where its labels lie. Give the program the scan as NIfTI, or resampled to straight slices that hold all of it.',
        ),
      );
  });
});
