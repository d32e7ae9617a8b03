const FAR = 1e12;

/**
 * Distance in millimetres from each voxel to the nearest voxel where `isSeed` holds (0 there), exact and in
 * linear time: the squared distance is the lower envelope of parabolas along x, then y, then z
 * (Felzenszwalb and Huttenlocher, 2012). Where there is no seed at all it is Infinity.
 */
export function distanceTo(isSeed, size, spacing) {
  const total = size[0] * size[1] * size[2];
  const squared = new Float32Array(total);
  for (let i = 0; i < total; i += 1) squared[i] = isSeed(i) ? 0 : FAR;
  for (let axis = 0; axis < 3; axis += 1) if (size[axis] > 1) sweep(squared, size, axis, spacing[axis]);
  for (let i = 0; i < total; i += 1) squared[i] = squared[i] >= FAR / 2 ? Infinity : Math.sqrt(squared[i]);
  return squared;
}

function sweep(squared, size, axis, step) {
  const length = size[axis];
  const stride = axis === 0 ? 1 : axis === 1 ? size[0] : size[0] * size[1];
  const line = new Float64Array(length);
  const tops = new Int32Array(length); // which parabola is the lowest from `starts[i]` on
  const starts = new Float64Array(length + 1);
  const weight = step * step;
  for (let block = 0; block < squared.length; block += stride * length) {
    for (let lane = 0; lane < stride; lane += 1) {
      const start = block + lane;
      let finite = false;
      for (let i = 0; i < length; i += 1) {
        line[i] = squared[start + i * stride];
        if (line[i] < FAR) finite = true;
      }
      if (finite) envelope(line, tops, starts, weight, squared, start, stride);
    }
  }
}

function envelope(line, tops, starts, weight, squared, start, stride) {
  let last = -1;
  for (let i = 0; i < line.length; i += 1) {
    if (line[i] >= FAR) continue;
    let crossing = -Infinity;
    while (last >= 0) {
      const j = tops[last];
      crossing = ((line[i] - line[j]) / weight + i * i - j * j) / (2 * (i - j));
      if (crossing > starts[last]) break;
      last -= 1;
      crossing = -Infinity;
    }
    last += 1;
    tops[last] = i;
    starts[last] = crossing;
  }
  starts[last + 1] = Infinity;
  for (let i = 0, k = 0; i < line.length; i += 1) {
    while (starts[k + 1] < i) k += 1;
    const offset = i - tops[k];
    squared[start + i * stride] = weight * offset * offset + line[tops[k]];
  }
}
