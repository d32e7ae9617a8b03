/**
 * From a volume to the probability of brain, and from that to a mask: the steps that the networks were trained with, in the
 * order and the precision (32 bits) in which the package deepbet takes them.
 *
 * Voxels are counted along x to the right, y to the front and z upwards, z fastest, whichever way the volume is stored.
 */
import { AppError } from './errors.mjs';
import { fillHoles, keepLargest } from './regions.mjs';

const { fround } = Math;

/** Voxels on each side of the cube that the network for the box reads, and of that for the brain. */
const [smallSide, side] = [128, 256];

/**
 * How a volume is stored: its size along x, y and z, and for each of them what a step adds to the index of a voxel. The
 * voxel (x, y, z) is `offsets[0][x] + offsets[1][y] + offsets[2][z]`.
 */
export function orient({ size, affine }) {
  const directions = rotationOf(affine);
  const strides = [1, size[0], size[0] * size[1]];
  const taken = new Set();
  const offsets = [];
  // The axis that runs most nearly along one of the body's gets it first.
  const axes = [0, 1, 2].map((axis) => ({ axis, along: directions.map((row) => row[axis]) }));
  const strength = ({ along }) => Math.max(...along.map(Math.abs));
  for (const { axis, along } of axes.sort((one, other) => strength(other) - strength(one))) {
    const free = [0, 1, 2].filter((each) => !taken.has(each));
    const best = free.reduce((a, b) => (Math.abs(along[b]) > Math.abs(along[a]) ? b : a));
    taken.add(best);
    const count = size[axis];
    offsets[best] = Int32Array.from(
      { length: count },
      (_, at) => (along[best] < 0 ? count - 1 - at : at) * strides[axis],
    );
  }
  return { size: offsets.map(({ length }) => length), offsets };
}

/** The rotation that is nearest to an affine: its part without stretching and shear, by Higham's iteration. */
function rotationOf(affine) {
  const lengths = [0, 1, 2].map((axis) => Math.hypot(...affine.map((row) => row[axis])) || 1);
  let matrix = affine.map((row) => lengths.map((length, axis) => row[axis] / length));
  for (let round = 0; round < 30; round += 1) {
    const inverse = inverted(matrix);
    if (inverse === null) return matrix;
    matrix = matrix.map((row, r) => row.map((value, c) => (value + inverse[c][r]) / 2));
  }
  return matrix;
}

function inverted([[a, b, c], [d, e, f], [g, h, i]]) {
  const determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
  if (Math.abs(determinant) < 1e-12) return null;
  return [
    [e * i - f * h, c * h - b * i, b * f - c * e],
    [f * g - d * i, a * i - c * g, c * d - a * f],
    [d * h - e * g, b * g - a * h, a * e - b * d],
  ].map((row) => row.map((value) => value / determinant));
}

/** Which of `from` voxels lies nearest to each of `to` voxels over the same length. */
export function nearest(from, to) {
  const scale = fround(from / to);
  return Int32Array.from({ length: to }, (_, at) =>
    Math.min(from - 1, Math.floor(fround(fround(at + 0.5) * scale))),
  );
}

/** The whole of a volume. */
const wholeBox = (size) => size.map((count) => ({ low: 0, high: count }));

const lengthOf = ({ low, high }) => high - low;

/** A box of a volume as a cube of `length` voxels on each side. What is no number counts as 0. */
function sample(data, { offsets }, box, length) {
  const [xs, ys, zs] = box.map((range, axis) =>
    nearest(lengthOf(range), length).map((at) => offsets[axis][range.low + at]),
  );
  const cube = new Float32Array(length ** 3);
  const largest = 3.4028234663852886e38;
  for (let x = 0, to = 0; x < length; x += 1) {
    for (let y = 0; y < length; y += 1) {
      const row = xs[x] + ys[y];
      for (let z = 0; z < length; z += 1, to += 1) {
        const value = data[row + zs[z]];
        cube[to] =
          value >= -largest && value <= largest ? value : value > 0 ? largest : value < 0 ? -largest : 0;
      }
    }
  }
  return cube;
}

/** The value below which a part of a cube lies, between two voxels in a straight line. */
function quantile(sorted, part) {
  const rank = fround(fround(part) * (sorted.length - 1));
  const below = Math.floor(rank);
  const weight = fround(rank - below);
  const [a, b] = [sorted[below], sorted[Math.ceil(rank)]];
  const step = fround(b - a);
  return weight < 0.5 ? fround(a + fround(weight * step)) : fround(b - fround(step * fround(1 - weight)));
}

/** Cuts the values of a cube off at `low` and `high`, and gives them the mean and the deviation of the training, in place. */
function normalise(cube, { low, high }) {
  const range = fround(high - low);
  let sum = 0;
  for (let at = 0; at < cube.length; at += 1) {
    const value = fround(fround(cube[at] - low) / range);
    cube[at] = value < 0 ? 0 : value > 1 ? 1 : value;
    sum += cube[at];
  }
  const mean = fround(sum / cube.length);
  let squares = 0;
  for (let at = 0; at < cube.length; at += 1) squares += (cube[at] - mean) ** 2;
  const deviation = fround(Math.sqrt(squares / (cube.length - 1)));
  for (let at = 0; at < cube.length; at += 1)
    cube[at] = fround(0.226) * fround(fround(cube[at] - mean) / deviation) + fround(0.449);
  return cube;
}

/** To the nearest integer, and to the even one of two that are as near. */
function roundEven(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

/** A tenth more on each side than the brain takes. */
const margin = fround(1 + fround(2 * fround(0.1)));

/** The box around a rough mask of `smallSide` voxels on each side, in voxels of a volume of `size`; null if it is empty. */
function boxAround(mask, size) {
  const counts = size.map(() => new Uint32Array(smallSide));
  for (let x = 0, at = 0; x < smallSide; x += 1)
    for (let y = 0; y < smallSide; y += 1)
      for (let z = 0; z < smallSide; z += 1, at += 1) {
        if (mask[at] === 0) continue;
        counts[0][x] += 1;
        counts[1][y] += 1;
        counts[2][z] += 1;
      }
  // A plane with a fiftieth of brain or less is left to the margin.
  const isInside = (count) => fround(count / smallSide ** 2) > fround(0.02);
  const box = counts.map((each, axis) => {
    const [low, high] = [each.findIndex(isInside), each.findLastIndex(isInside)];
    if (low < 0) return null;
    const scale = fround(size[axis] / smallSide);
    const centre = roundEven(fround(scale * ((high + 1 + low) / 2)));
    const length = roundEven(fround(margin * fround(scale * (high + 1 - low))));
    const [from, to] = [Math.trunc(centre - length / 2), Math.trunc(centre + length / 2)];
    return { low: Math.max(0, from), high: Math.min(size[axis], to) };
  });
  return box.every((range) => range !== null && lengthOf(range) > 0) ? box : null;
}

/** The flips of test-time augmentation, by the axes that they turn round: left and right first, as a head is most alike there. */
const flips = [[], [0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]];

/** A cube with the order of some axes turned round. */
function flipped(cube, axes) {
  if (axes.length === 0) return cube;
  const [xs, ys] = [0, 1].map((axis) => (at) => (axes.includes(axis) ? side - 1 - at : at));
  const target = new Float32Array(cube.length);
  for (let x = 0, to = 0; x < side; x += 1)
    for (let y = 0; y < side; y += 1, to += side) {
      const row = (xs(x) * side + ys(y)) * side;
      target.set(cube.subarray(row, row + side), to);
      if (axes.includes(2)) target.subarray(to, to + side).reverse();
    }
  return target;
}

/**
 * Finds the brain in a volume.
 * @param volume as `readVolume` gives it, with one value per voxel
 * @param networks of `loadNetworks`
 * @param options `tta`: passes with flips beside the plain one, 0 to 7; `threshold`: the probability above which a voxel is
 *   brain; `onMember(index, voxels)`: called with each pass's probabilities, in the order of the volume; `onStep(done, all)`
 * @returns a Uint8Array of 0 and 1 in the order of the volume
 * @throws {AppError} where there is no brain to be found
 */
export async function findBrain(volume, name, networks, { tta, threshold, onMember, onStep }) {
  const grid = orient(volume);
  const { data } = volume;
  const steps = tta + 3;
  const small = sample(data, grid, wholeBox(grid.size), smallSide);
  const sorted = small.slice().sort();
  const limits = { low: quantile(sorted, 0.005), high: quantile(sorted, 0.995) };
  if (!(limits.high > limits.low))
    throw new AppError(`${name} has the same value nearly everywhere: give a head MR volume.`);
  const probabilities = await networks.runBox(normalise(small, limits));
  const rough = new Uint8Array(probabilities.map((value) => (value > 0.5 ? 1 : 0)));
  keepLargest(rough, [smallSide, smallSide, smallSide]);
  const box = boxAround(rough, grid.size);
  if (box === null) throw new AppError(`No brain was found in ${name}: give a head MR volume.`);
  onStep(1, steps);

  const cube = normalise(sample(data, grid, box, side), limits);
  const size = box.map(lengthOf);
  const voxels = size[0] * size[1] * size[2];
  const members = flips.slice(0, tta + 1);
  let sum = null;
  for (const [index, axes] of members.entries()) {
    const brain = flipped(await networks.runBrain(flipped(cube, axes)), axes);
    if (onMember) {
      const values = toBox(brain, size, new Float32Array(voxels));
      onMember(index, toVolume(values, grid, box, new Float32Array(data.length)));
    }
    if (sum === null) sum = brain;
    else for (let at = 0; at < sum.length; at += 1) sum[at] += brain[at];
    onStep(index + 2, steps);
  }
  const least = threshold * members.length;
  const inBox = toBox(sum, size, new Uint8Array(voxels), (value) => (value > least ? 1 : 0));
  if (keepLargest(inBox, size) === 0)
    throw new AppError(`No brain was found in ${name}: give a head MR volume.`);
  fillHoles(inBox, size);
  const mask = toVolume(inBox, grid, box, new Uint8Array(data.length));
  onStep(steps, steps);
  return mask;
}

/** The values of a cube at the voxels of a box. */
function toBox(cube, size, target, convert = (value) => value) {
  const [xs, ys, zs] = size.map((count) => nearest(side, count));
  for (let x = 0, to = 0; x < size[0]; x += 1)
    for (let y = 0; y < size[1]; y += 1) {
      const row = (xs[x] * side + ys[y]) * side;
      for (let z = 0; z < size[2]; z += 1, to += 1) target[to] = convert(cube[row + zs[z]]);
    }
  return target;
}

/** Puts the values of a box into a volume that is 0 elsewhere, in the volume's order. */
function toVolume(values, { offsets }, box, target) {
  const [xs, ys, zs] = box.map(({ low, high }, axis) => offsets[axis].subarray(low, high));
  let from = 0;
  for (const x of xs)
    for (const y of ys)
      for (const z of zs) {
        target[x + y + z] = values[from];
        from += 1;
      }
  return target;
}
