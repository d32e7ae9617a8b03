import { fillInputs } from './features.mjs';
import { ROW, softmax } from './model.mjs';

/**
 * Labels each voxel with the class that is most probable on the average over the members. Going voxel by voxel
 * rather than member by member needs no volume of probabilities, however many members there are.
 * `stack` ('none', 'probability' or 'label') also asks for one component per member.
 */
export function predict(features, members, classes, { stack = 'none', block = 1 << 16, onProgress } = {}) {
  const { voxels } = features;
  const total = features.local[0].length;
  const labels = new Uint8Array(total);
  const components = createStack(stack, total * members.length);
  const inputs = new Float64Array(ROW - 1);
  const probabilities = new Float64Array(members.length * classes);
  for (let next = 0; next < voxels.length; next += 1) {
    const at = voxels[next];
    fillInputs(features, at, inputs);
    for (let m = 0; m < members.length; m += 1) {
      softmax(members[m], classes, inputs, 0, probabilities, m * classes);
    }
    labels[at] = mostProbable(probabilities, classes, members.length);
    if (components !== undefined) fillStack(components, stack, at, labels[at], probabilities, classes, total);
    if (next % block === 0) onProgress?.(next, voxels.length);
  }
  onProgress?.(voxels.length, voxels.length);
  return { labels, stack: components };
}

/** Air far from the head is background to every member: label 0, with probability 1. */
function createStack(kind, length) {
  if (kind === 'label') return new Uint8Array(length);
  return kind === 'probability' ? new Float32Array(length).fill(1) : undefined;
}

function mostProbable(probabilities, classes, members) {
  let best = 0;
  let highest = -1;
  for (let c = 0; c < classes; c += 1) {
    let sum = 0;
    for (let m = 0; m < members; m += 1) sum += probabilities[m * classes + c];
    if (sum > highest) [best, highest] = [c, sum];
  }
  return best;
}

function fillStack(components, kind, at, label, probabilities, classes, total) {
  for (let m = 0; m * total < components.length; m += 1) {
    const own = m * classes;
    components[m * total + at] =
      kind === 'probability' ? probabilities[own + label] : argmax(probabilities, own, classes);
  }
}

function argmax(values, from, count) {
  let best = 0;
  for (let i = 1; i < count; i += 1) if (values[from + i] > values[from + best]) best = i;
  return best;
}
