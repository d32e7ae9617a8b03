import { distanceTo } from './distance.mjs';

/**
 * Distances in mm from each surface voxel of a label in `one` to the surface in `other`, and back; undefined
 * where either lacks the label. Works in the box that contains both, because the rest has no surface.
 */
export function surfaceDistances(one, other, label, { size, spacing }) {
  const box = boundingBox([one, other], label, size);
  if (box === undefined) return undefined;
  const surfaces = [one, other].map((labels) => surfaceIn(labels, label, size, box));
  if (surfaces.some((surface) => !surface.includes(1))) return undefined;
  const fields = surfaces.map((surface) => distanceTo((i) => surface[i] === 1, box.size, spacing));
  const along = (surface, field) => field.filter((_, i) => surface[i] === 1);
  return [along(surfaces[0], fields[1]), along(surfaces[1], fields[0])];
}

function boundingBox(volumes, label, size) {
  const low = [Infinity, Infinity, Infinity];
  const high = [-1, -1, -1];
  for (let z = 0, at = 0; z < size[2]; z += 1) {
    for (let y = 0; y < size[1]; y += 1) {
      for (let x = 0; x < size[0]; x += 1, at += 1) {
        if (volumes[0][at] !== label && volumes[1][at] !== label) continue;
        if (x < low[0]) low[0] = x;
        if (x > high[0]) high[0] = x;
        if (y < low[1]) low[1] = y;
        if (y > high[1]) high[1] = y;
        if (z < low[2]) low[2] = z;
        if (z > high[2]) high[2] = z;
      }
    }
  }
  return high[0] < 0 ? undefined : { low, size: high.map((last, axis) => last - low[axis] + 1) };
}

/** 1 at the label's voxels that have a neighbour, across a face, that is not the label's or not in the volume. */
function surfaceIn(labels, label, size, box) {
  const [bx, by, bz] = box.size;
  const surface = new Uint8Array(bx * by * bz);
  const has = (x, y, z) =>
    x >= 0 &&
    y >= 0 &&
    z >= 0 &&
    x < size[0] &&
    y < size[1] &&
    z < size[2] &&
    labels[(z * size[1] + y) * size[0] + x] === label;
  for (let k = 0, at = 0; k < bz; k += 1) {
    for (let j = 0; j < by; j += 1) {
      for (let i = 0; i < bx; i += 1, at += 1) {
        const [x, y, z] = [i + box.low[0], j + box.low[1], k + box.low[2]];
        if (!has(x, y, z)) continue;
        const isInner =
          has(x - 1, y, z) &&
          has(x + 1, y, z) &&
          has(x, y - 1, z) &&
          has(x, y + 1, z) &&
          has(x, y, z - 1) &&
          has(x, y, z + 1);
        if (!isInner) surface[at] = 1;
      }
    }
  }
  return surface;
}
