import { expect, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import {
  type Affine,
  inverseOf,
  isSameGeometry,
  placeOf,
  shearOf,
  spacingOf,
  type VolumeFile,
  voxelVolumeOf,
} from '../src/index.js';
import { placeOnGrid } from '../src/onto-grid.js';

/** A grid of 100 voxels of 1 x 2 x 3 mm along each axis, moved along the first by this part of a voxel, and enlarged by this factor. */
const grid = (moved: number, factor = 1, size: readonly [number, number, number] = [100, 100, 100]) => ({
  size,
  affine: straight([factor, 2, 3], [moved, 0, 0]) as Affine,
});

test.each([
  ['equal', grid(0), true],
  ['rounded by another format', grid(0.04), true],
  ['a tenth of a voxel apart', grid(0.1), false],
  ['half a voxel apart', grid(-0.5), false],
  ['of slightly larger voxels, which are a voxel apart at the far end', grid(0, 1.01), false],
  ['of slightly larger voxels, which stay together to the far end', grid(0, 1.0004), true],
  ['with another number of slices', grid(0, 1, [100, 100, 101]), false],
  ['of other axes', { ...grid(0), affine: grid(0).affine.toReversed() as unknown as Affine }, false],
] as const)('Two grids are compared correctly if the other one is %s', (_, other, isSame) => {
  expect(isSameGeometry(grid(0), other)).toBe(isSame);
  expect(isSameGeometry(other, grid(0))).toBe(isSame);
});

test.each([0.1, 10])('Grids with voxels of %s mm are the same up to a fraction of a voxel', (side) => {
  const of = (moved: number) => ({
    size: [9, 9, 9] as const,
    affine: straight([side, side, side], [moved * side, 0, 0]) as Affine,
  });
  expect([0.04, 0.06].map((moved) => isSameGeometry(of(0), of(moved)))).toEqual([true, false]);
});

/** A grid whose axes are neither those of space nor perpendicular. */
const sheared: Affine = [
  [2, 3, 1, 10],
  [2, 1, 1, -20],
  [3, 4, 5, 30],
];

test('The positions, the spacing and the volume of voxels follow from the affine', () => {
  expect(placeOf({ affine: sheared }, 1, 2, 3)).toEqual([21, -13, 56]);
  expect(spacingOf({ affine: sheared })).toEqual([17, 26, 27].map(Math.sqrt));
  expect(voxelVolumeOf({ affine: sheared })).toBeCloseTo(0.014, 12);
});

test('The inverse affine maps positions to voxels, and a flat grid has none', () => {
  const inverse = inverseOf(sheared);
  if (!inverse) throw new Error('There is no inverse.');
  const [i, j, k] = placeOf({ affine: inverse }, 21, -13, 56);
  expect([i, j, k].map((each) => Math.round(each * 1e9) / 1e9)).toEqual([1, 2, 3]);
  const [right, front] = sheared;
  expect(inverseOf([right, front, right])).toBeNull();
  expect(inverseOf([right, front, [Number.NaN, 0, 1, 0]])).toBeNull();
});

test('A label map with swapped axes is turned, even if its rows are as long as its columns', async () => {
  const plain: Affine = straight();
  const swapped = [plain[1], plain[0], plain[2]] as unknown as Affine;
  const mask: VolumeFile = {
    ...{ path: 'mask.nii', format: 'NIfTI', size: [3, 3, 1], affine: swapped, components: 1, frames: 1 },
    ...{ hasOrientation: true, modality: null, labels: null },
    async *slices() {
      yield { k: 0, values: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9) };
    },
  };
  const placing = placeOnGrid(mask, { size: [3, 3, 1], affine: plain });
  expect([placing.isExact, placing.isByNumber]).toEqual([true, false]);
  for await (const { k, values } of placing.slices())
    expect([k, ...values]).toEqual([0, 1, 4, 7, 2, 5, 8, 3, 6, 9]);
});

test.each([
  [[1, 0, 0], [0, 1, 0], [0, 0, 1], 0],
  [[2, 0, 0], [0, 3, 0], [0, 1, 1], 45],
  [[2, 0, 0], [3, 3, 0], [0, 0, 1], 45],
  [[2, 0, 0], [0, 3, 0], [-0.5, 0, Math.sqrt(0.75)], 30],
])('Axes along %j, %j and %j are %d degrees from perpendicular', (i, j, k, degrees) => {
  const affine = [0, 1, 2].map((row) => [i[row], j[row], k[row], 7]) as unknown as Affine;
  expect(shearOf({ affine })).toBeCloseTo(degrees, 9);
});
