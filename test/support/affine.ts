import type { Affine } from '@remote-app/volumes';

type Triple = readonly [number, number, number];

/** The affine of voxels of these sizes along the axes of the patient; a negative one runs the other way. */
export const straight = ([i, j, k]: Triple = [1, 1, 1], [x, y, z]: Triple = [0, 0, 0]): Affine => [
  [i, 0, 0, x],
  [0, j, 0, y],
  [0, 0, k, z],
];
