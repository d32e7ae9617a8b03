import { inverseOf, placeOf, spacingOf } from '@remote-app/volumes';

/** The grid of a scan, turned by so many degrees around its centre, about an axis that is none of the body's. */
export function turned(scan, degrees) {
  const angle = (degrees * Math.PI) / 180;
  const [x, y, z] = [1, 2, 3].map((each) => each / Math.hypot(1, 2, 3));
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const t = 1 - c;
  const rotation = [
    [t * x * x + c, t * x * y - s * z, t * x * z + s * y],
    [t * x * y + s * z, t * y * y + c, t * y * z - s * x],
    [t * x * z - s * y, t * y * z + s * x, t * z * z + c],
  ];
  return { spacing: spacingOf(scan), rotation };
}

const identity = [
  [1, 0, 0],
  [0, 1, 0],
  [0, 0, 1],
];

/**
 * A scan on another grid around the same centre, by linear interpolation between voxels; 0 outside.
 * @param grid `spacing` in mm, and `rotation`, three rows, of which the columns are the directions of the axes
 */
export function resampled(scan, { spacing, rotation = identity }) {
  const lengths = spacingOf(scan).map((step, axis) => step * scan.size[axis]);
  // Room for the corners of a grid that is turned.
  const room = rotation === identity ? 1 : 1.2;
  const size = spacing.map((step, axis) => Math.round((room * lengths[axis]) / step));
  const centre = placeOf(scan, ...scan.size.map((count) => (count - 1) / 2));
  const affine = rotation.map((row, r) => {
    const steps = row.map((value, axis) => value * spacing[axis]);
    return [...steps, centre[r] - steps.reduce((sum, step, axis) => sum + (step * (size[axis] - 1)) / 2, 0)];
  });
  const inverse = { affine: inverseOf(scan.affine) };
  const [ni, nj, nk] = scan.size;
  const at = (i, j, k) =>
    i < 0 || j < 0 || k < 0 || i >= ni || j >= nj || k >= nk ? 0 : scan.data[(k * nj + j) * ni + i];
  const data = new Float32Array(size[0] * size[1] * size[2]);
  let to = 0;
  for (let k = 0; k < size[2]; k += 1)
    for (let j = 0; j < size[1]; j += 1)
      for (let i = 0; i < size[0]; i += 1, to += 1) {
        const [x, y, z] = placeOf(inverse, ...placeOf({ affine }, i, j, k));
        const [a, b, c] = [x, y, z].map(Math.floor);
        const [u, v, w] = [x - a, y - b, z - c];
        const along = (q, r) => at(a, q, r) * (1 - u) + at(a + 1, q, r) * u;
        const plane = (r) => along(b, r) * (1 - v) + along(b + 1, r) * v;
        data[to] = plane(c) * (1 - w) + plane(c + 1) * w;
      }
  return { size, affine, data };
}

/** The Dice coefficient of two masks, at the voxels of the first: of the second counts the voxel that is nearest in space. */
export function diceInSpace(one, other) {
  const inverse = { affine: inverseOf(other.affine) };
  const [ni, nj, nk] = other.size;
  let [ofOne, ofOther, both, from] = [0, 0, 0, 0];
  for (let k = 0; k < one.size[2]; k += 1)
    for (let j = 0; j < one.size[1]; j += 1)
      for (let i = 0; i < one.size[0]; i += 1, from += 1) {
        const [x, y, z] = placeOf(inverse, ...placeOf(one, i, j, k)).map(Math.round);
        const isOutside = x < 0 || y < 0 || z < 0 || x >= ni || y >= nj || z >= nk;
        const value = isOutside ? 0 : other.data[(z * nj + y) * ni + x];
        ofOne += one.data[from];
        ofOther += value;
        both += one.data[from] * value;
      }
  return (2 * both) / (ofOne + ofOther);
}
