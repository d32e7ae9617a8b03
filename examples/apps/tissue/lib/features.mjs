import { gradientMagnitude, smooth } from './filters.mjs';
import { headDepth } from './head.mjs';

/** What the model sees of a voxel. The first six are also multiplied with each other, the positions are not. */
export const LOCAL_FEATURES = ['intensity', 'fine', 'coarse', 'gradient', 'deviation', 'depth'];
export const POSITION_FEATURES = ['x', 'y', 'z'];
export const INPUT_NAMES = [
  ...LOCAL_FEATURES,
  ...POSITION_FEATURES,
  ...LOCAL_FEATURES.flatMap((a, i) => LOCAL_FEATURES.slice(i).map((b) => `${a}*${b}`)),
];

const FINE_MM = 1.5;
const COARSE_MM = 4;
const CORE_DEPTH_MM = 15;
/** Air this far outside the head is background without asking the model, which saves half of the work. */
const RIM_MM = 8;

/** The features of a volume: one array per local feature, and the positions of the voxels in the head. */
export function computeFeatures(volume) {
  const { size, spacing } = volume;
  const sigmas = (millimetres) => spacing.map((step) => millimetres / step);
  const data = asFiniteNumbers(volume.data);
  const depth = headDepth(smooth(data, size, sigmas(2)), size, spacing);
  const intensity = normalise(data, depth);
  const fine = smooth(intensity, size, sigmas(FINE_MM));
  const coarse = smooth(intensity, size, sigmas(COARSE_MM));
  const gradient = gradientMagnitude(fine, size, spacing);
  const deviation = localDeviation(intensity, coarse, size, sigmas(COARSE_MM));
  const voxels = voxelsNearHead(depth);
  const centre = centreOf(voxels, size);
  for (let i = 0; i < depth.length; i += 1) depth[i] = Math.tanh(depth[i] / 15);
  return { local: [intensity, fine, coarse, gradient, deviation, depth], voxels, centre, size, spacing };
}

/** NaN as 0: one NaN would spread through every filter. */
function asFiniteNumbers(data) {
  const isFloat = data instanceof Float32Array || data instanceof Float64Array;
  return isFloat ? data.map((value) => (Number.isFinite(value) ? value : 0)) : data;
}

/**
 * Intensities in units that do not depend on the scanner: the deep part of the head (mostly brain) has median 0
 * and median absolute deviation 1. asinh keeps small differences and compresses air, bone and fat.
 */
function normalise(data, depth) {
  const core =
    sample(data, (i) => depth[i] > CORE_DEPTH_MM) ??
    sample(data, (i) => depth[i] > 0) ??
    sample(data, () => true);
  const middle = median(core);
  const spread = median(core.map((value) => Math.abs(value - middle))) || 1;
  const normalised = new Float32Array(data.length);
  for (let i = 0; i < data.length; i += 1) normalised[i] = Math.asinh((data[i] - middle) / spread);
  return normalised;
}

/** Up to about 100,000 of the values where `accepts` holds, evenly spread; undefined if there are too few. */
function sample(data, accepts) {
  let count = 0;
  for (let i = 0; i < data.length; i += 1) if (accepts(i)) count += 1;
  if (count < 100 && count < data.length) return undefined;
  const stride = Math.max(1, Math.floor(count / 100_000));
  const values = new Float64Array(Math.ceil(count / stride));
  for (let i = 0, seen = 0; i < data.length; i += 1) {
    if (!accepts(i)) continue;
    if (seen % stride === 0) values[seen / stride] = data[i];
    seen += 1;
  }
  return values;
}

function median(values) {
  return Float64Array.from(values).sort()[Math.floor(values.length / 2)] ?? 0;
}

function localDeviation(data, mean, size, sigmas) {
  const deviation = smooth(
    data.map((value) => value * value),
    size,
    sigmas,
  );
  for (let i = 0; i < deviation.length; i += 1)
    deviation[i] = Math.sqrt(Math.max(0, deviation[i] - mean[i] * mean[i]));
  return deviation;
}

function voxelsNearHead(depth) {
  let count = 0;
  for (let i = 0; i < depth.length; i += 1) if (depth[i] > -RIM_MM) count += 1;
  const voxels = new Uint32Array(count);
  for (let i = 0, next = 0; i < depth.length; i += 1) if (depth[i] > -RIM_MM) voxels[next++] = i;
  return voxels;
}

function centreOf(voxels, size) {
  const sum = [0, 0, 0];
  for (const at of voxels) {
    sum[0] += at % size[0];
    sum[1] += Math.floor(at / size[0]) % size[1];
    sum[2] += Math.floor(at / (size[0] * size[1]));
  }
  return sum.map((value) => value / (voxels.length || 1));
}

/** Writes the model's inputs for voxel `at` into `into`, from `offset` on. */
export function fillInputs(features, at, into, offset = 0) {
  const { local, centre, size, spacing } = features;
  const count = local.length;
  for (let f = 0; f < count; f += 1) into[offset + f] = local[f][at];
  const row = Math.floor(at / size[0]);
  const slice = Math.floor(row / size[1]);
  // In decimetres from the head's centre: about -1 to 1 over a head.
  into[offset + count] = ((at - row * size[0] - centre[0]) * spacing[0]) / 100;
  into[offset + count + 1] = ((row - slice * size[1] - centre[1]) * spacing[1]) / 100;
  into[offset + count + 2] = ((slice - centre[2]) * spacing[2]) / 100;
  let next = offset + count + 3;
  for (let a = 0; a < count; a += 1) {
    for (let b = a; b < count; b += 1) into[next++] = into[offset + a] * into[offset + b];
  }
}
