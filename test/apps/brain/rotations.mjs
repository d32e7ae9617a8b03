// @ts-check

/**
 * The same scan, stored in other ways.
 * @typedef {import('../../../packages/volumes/src/volume.js').Affine} Affine
 * @typedef {import('../../../packages/volumes/src/volume.js').Size} Size
 * @typedef {{ size: Size, affine: Affine, data: import('../../../packages/volumes/src/volume.js').Voxels }} Scan
 */

const permutations = [
  [0, 1, 2],
  [0, 2, 1],
  [1, 0, 2],
  [1, 2, 0],
  [2, 0, 1],
  [2, 1, 0],
];
const flips = [0, 1, 2, 3, 4, 5, 6, 7].map((bits) => [bits & 1, bits & 2, bits & 4].map(Boolean));

/** The 48 ways in which the axes of an array can run along those of the body. */
export const orientations = permutations.flatMap((axes) => flips.map((flipped) => ({ axes, flipped })));

/**
 * A scan whose array is stored along other axes; each voxel stays where it was in space.
 * @param {Scan} scan
 * @param {{ axes: readonly number[], flipped: readonly boolean[] }} orientation of each axis of the new array: which axis of the
 *   old one it is, and whether it runs the other way
 * @returns {Scan}
 */
export function reoriented({ size, affine, data }, { axes, flipped }) {
  const strides = [1, size[0], size[0] * size[1]];
  const turned = axes.map((axis, at) => {
    const count = Number(size[axis]);
    const stride = Number(strides[axis]);
    return {
      count,
      axis,
      step: flipped[at] ? -stride : stride,
      start: flipped[at] ? stride * (count - 1) : 0,
      sign: flipped[at] ? -1 : 1,
    };
  });
  const target = data.slice();
  const [i, j, k] = /** @type {[typeof turned[0], typeof turned[0], typeof turned[0]]} */ (turned);
  let to = 0;
  for (let z = 0; z < k.count; z += 1)
    for (let y = 0; y < j.count; y += 1)
      for (let x = 0; x < i.count; x += 1, to += 1)
        target[to] = Number(data[i.start + x * i.step + j.start + y * j.step + k.start + z * k.step]);
  const rows = affine.map((row) => {
    const offset = turned.reduce(
      (sum, { axis, sign, count }) => sum + (sign < 0 ? Number(row[axis]) * (count - 1) : 0),
      row[3],
    );
    return [...turned.map(({ axis, sign }) => sign * Number(row[axis])), offset];
  });
  return {
    size: /** @type {Size} */ (/** @type {unknown} */ (turned.map(({ count }) => count))),
    affine: /** @type {Affine} */ (/** @type {unknown} */ (rows)),
    data: target,
  };
}
