/**
 * Regions of binary volumes. Those that touch at a corner are one; holes are closed where not even a face leads out of them.
 * A volume is a Uint8Array of 0 and 1 with `size` [x, y, z], z fastest.
 */

const OUTSIDE = 2;

/** The volume with one voxel of OUTSIDE around it, so that a neighbour needs no check of bounds. */
function padded(mask, [nx, ny, nz]) {
  const [ry, rz] = [ny + 2, nz + 2];
  const data = new Uint8Array((nx + 2) * ry * rz).fill(OUTSIDE);
  for (let x = 0, at = 0; x < nx; x += 1)
    for (let y = 0; y < ny; y += 1, at += nz)
      data.set(mask.subarray(at, at + nz), ((x + 1) * ry + y + 1) * rz + 1);
  return { data, ry, rz };
}

function unpadded({ data, ry, rz }, mask, [nx, ny, nz], keep) {
  for (let x = 0, at = 0; x < nx; x += 1)
    for (let y = 0; y < ny; y += 1)
      for (let z = 0, from = ((x + 1) * ry + y + 1) * rz + 1; z < nz; z += 1, at += 1, from += 1)
        mask[at] = keep(data[from]);
}

/** Gives a region a new value, from one of its voxels on. Returns how many voxels it has. */
function flood(data, start, from, to, steps, stack) {
  let depth = 0;
  let count = 0;
  stack[depth++] = start;
  data[start] = to;
  while (depth > 0) {
    const at = stack[--depth];
    count += 1;
    for (let n = 0; n < steps.length; n += 1) {
      const next = at + steps[n];
      if (data[next] !== from) continue;
      data[next] = to;
      stack[depth++] = next;
    }
  }
  return count;
}

/** Leaves the largest region alone, in place. Returns its number of voxels, 0 if there is none. */
export function keepLargest(mask, size) {
  const field = padded(mask, size);
  const { data, ry, rz } = field;
  const corner = [-1, 0, 1];
  const steps = corner
    .flatMap((x) => corner.flatMap((y) => corner.map((z) => (x * ry + y) * rz + z)))
    .filter((step) => step !== 0);
  const stack = new Int32Array(mask.length);
  const [seen, largest] = [3, 4];
  let best = { start: -1, count: 0 };
  for (let at = 0; at < data.length; at += 1) {
    if (data[at] !== 1) continue;
    const count = flood(data, at, 1, seen, steps, stack);
    if (count > best.count) best = { start: at, count };
  }
  if (best.count > 0) flood(data, best.start, seen, largest, steps, stack);
  unpadded(field, mask, size, (value) => (value === largest ? 1 : 0));
  return best.count;
}

/** Closes the holes of a volume, in place: what no way through the faces of voxels leads out of. */
export function fillHoles(mask, size) {
  const field = padded(mask, size);
  const { data, ry, rz } = field;
  const steps = [-ry * rz, -rz, -1, 1, rz, ry * rz];
  const stack = new Int32Array(mask.length);
  const open = 3;
  const [nx, ny, nz] = size;
  const visit = (x, y, z) => {
    const at = ((x + 1) * ry + y + 1) * rz + z + 1;
    if (data[at] === 0) flood(data, at, 0, open, steps, stack);
  };
  for (let x = 0; x < nx; x += 1)
    for (let y = 0; y < ny; y += 1) {
      const isEdge = x === 0 || y === 0 || x === nx - 1 || y === ny - 1;
      for (let z = 0; z < nz; z += isEdge ? 1 : Math.max(1, nz - 1)) visit(x, y, z);
    }
  unpadded(field, mask, size, (value) => (value === open ? 0 : 1));
}
