import { distanceTo } from './distance.mjs';

/** Finds the head in a smoothed image, and each voxel's depth in mm below its surface (negative outside). */
export function headDepth(smoothed, size, spacing) {
  // Half of it: bright fat pulls the threshold up, and a gap in the thin scalp would let the air in.
  const head = fillHoles(smoothed, size, otsuThreshold(smoothed) / 2);
  const inside = distanceTo((i) => head[i] === 0, size, spacing);
  const outside = distanceTo((i) => head[i] === 1, size, spacing);
  // A volume without any air, or without any head, has no surface: then the depth is taken as far from it.
  for (let i = 0; i < inside.length; i += 1)
    inside[i] = head[i] === 1 ? Math.min(inside[i], 1000) : -Math.min(outside[i], 1000);
  return inside;
}

/** The threshold that best splits the histogram into two classes (Otsu, 1979). */
function otsuThreshold(data) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < data.length; i += 1) {
    if (data[i] < low) low = data[i];
    if (data[i] > high) high = data[i];
  }
  const bins = 256;
  const width = (high - low) / bins || 1;
  const counts = new Float64Array(bins);
  for (let i = 0; i < data.length; i += 1)
    counts[Math.min(bins - 1, Math.floor((data[i] - low) / width))] += 1;
  const totalSum = counts.reduce((sum, count, bin) => sum + count * bin, 0);
  let best = 0;
  let bestSpread = -1;
  for (let bin = 0, below = 0, sumBelow = 0; bin < bins - 1; bin += 1) {
    below += counts[bin];
    sumBelow += counts[bin] * bin;
    const above = data.length - below;
    if (below === 0 || above === 0) continue;
    const gap = sumBelow / below - (totalSum - sumBelow) / above;
    const spread = below * above * gap * gap;
    if (spread > bestSpread) [best, bestSpread] = [bin + 1, spread];
  }
  return low + best * width;
}

/** 1 where a voxel is above the threshold, or cannot be reached from its slice's border without crossing it. */
function fillHoles(data, size, threshold) {
  const [nx, ny, nz] = size;
  const plane = nx * ny;
  const head = new Uint8Array(data.length).fill(1);
  const queue = new Int32Array(plane);
  for (let z = 0; z < nz; z += 1) {
    const base = z * plane;
    let queued = 0;
    const visit = (x, y) => {
      const at = base + y * nx + x;
      if (head[at] === 0 || data[at] > threshold) return;
      head[at] = 0;
      queue[queued] = y * nx + x;
      queued += 1;
    };
    for (let x = 0; x < nx; x += 1) for (const y of [0, ny - 1]) visit(x, y);
    for (let y = 0; y < ny; y += 1) for (const x of [0, nx - 1]) visit(x, y);
    for (let done = 0; done < queued; done += 1) {
      const x = queue[done] % nx;
      const y = (queue[done] - x) / nx;
      if (x > 0) visit(x - 1, y);
      if (x < nx - 1) visit(x + 1, y);
      if (y > 0) visit(x, y - 1);
      if (y < ny - 1) visit(x, y + 1);
    }
  }
  return head;
}
