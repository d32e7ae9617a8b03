/** Filters over a volume's `data` (x fastest) of a given `size`; distances are in voxels. */

/** Gaussian smoothing: one pass per axis, with the edge voxel repeated outside the volume. */
export function smooth(data, size, sigmas) {
  let from = data;
  let to = new Float32Array(data.length);
  let spare;
  for (let axis = 0; axis < 3; axis += 1) {
    const kernel = gaussianKernel(sigmas[axis]);
    if (kernel.length === 1 || size[axis] === 1) continue;
    convolve(from, to, size, axis, kernel);
    // Never writes to the caller's data: a second buffer is made when it is first needed.
    spare = from === data ? (spare ?? new Float32Array(data.length)) : from;
    from = to;
    to = spare;
  }
  return from === data ? Float32Array.from(data) : from;
}

/** Half of a symmetric kernel: its centre, then one weight per distance. */
function gaussianKernel(sigma) {
  const radius = sigma < 0.25 ? 0 : Math.ceil(2.5 * sigma);
  const kernel = Float64Array.from({ length: radius + 1 }, (_, i) =>
    Math.exp((-i * i) / (2 * sigma * sigma || 1)),
  );
  const total = kernel.reduce((sum, weight, i) => sum + (i === 0 ? weight : 2 * weight), 0);
  return kernel.map((weight) => weight / total);
}

function convolve(from, to, size, axis, kernel) {
  const length = size[axis];
  const stride = axis === 0 ? 1 : axis === 1 ? size[0] : size[0] * size[1];
  const radius = kernel.length - 1;
  // A line is copied into a padded buffer, so the inner loop has neither bounds to test nor strides to take.
  const line = new Float64Array(length + 2 * radius);
  for (let block = 0; block < from.length; block += stride * length) {
    for (let lane = 0; lane < stride; lane += 1) {
      const start = block + lane;
      for (let i = 0; i < length; i += 1) line[i + radius] = from[start + i * stride];
      line.fill(line[radius], 0, radius).fill(line[radius + length - 1], radius + length);
      for (let i = 0; i < length; i += 1) {
        const centre = i + radius;
        let sum = kernel[0] * line[centre];
        for (let k = 1; k <= radius; k += 1) sum += kernel[k] * (line[centre - k] + line[centre + k]);
        to[start + i * stride] = sum;
      }
    }
  }
}

/** Length of the gradient by central differences, per millimetre of `spacing`. */
export function gradientMagnitude(data, size, spacing) {
  const [nx, ny, nz] = size;
  const plane = nx * ny;
  const magnitude = new Float32Array(data.length);
  for (let z = 0, at = 0; z < nz; z += 1) {
    const below = z > 0 ? -plane : 0;
    const above = z < nz - 1 ? plane : 0;
    for (let y = 0; y < ny; y += 1) {
      const before = y > 0 ? -nx : 0;
      const after = y < ny - 1 ? nx : 0;
      for (let x = 0; x < nx; x += 1, at += 1) {
        const dx = (data[at + (x < nx - 1 ? 1 : 0)] - data[at - (x > 0 ? 1 : 0)]) / (2 * spacing[0]);
        const dy = (data[at + after] - data[at + before]) / (2 * spacing[1]);
        const dz = (data[at + above] - data[at + below]) / (2 * spacing[2]);
        magnitude[at] = Math.sqrt(dx * dx + dy * dy + dz * dz);
      }
    }
  }
  return magnitude;
}
