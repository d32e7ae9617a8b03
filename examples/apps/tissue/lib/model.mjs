import { INPUT_NAMES } from './features.mjs';

/**
 * Multinomial logistic regression: a class's score is a weighted sum of the standardised inputs, and softmax
 * turns the scores into probabilities. A model is `{ classes, mean, scale, weights }`, with one row of weights per
 * class whose last entry is the constant term.
 */
export const ROW = INPUT_NAMES.length + 1;

export function createModel(classes, mean, scale) {
  return { classes, mean, scale, weights: new Float64Array(classes * ROW) };
}

/** The same model over raw inputs: standardising is linear, so it is put into the weights once, not per voxel. */
export function foldStandardisation({ classes, mean, scale, weights }) {
  const folded = new Float64Array(weights.length);
  for (let row = 0; row < classes * ROW; row += ROW) {
    folded[row + ROW - 1] = weights[row + ROW - 1];
    for (let i = 0; i < ROW - 1; i += 1) {
      folded[row + i] = weights[row + i] / scale[i];
      folded[row + ROW - 1] -= (weights[row + i] * mean[i]) / scale[i];
    }
  }
  return folded;
}

/** Class probabilities of one voxel, written into `into` from `offset` on. */
export function softmax(weights, classes, inputs, inputsAt, into, offset) {
  let highest = -Infinity;
  for (let c = 0, row = 0; c < classes; c += 1, row += ROW) {
    let score = weights[row + ROW - 1];
    for (let i = 0; i < ROW - 1; i += 1) score += weights[row + i] * inputs[inputsAt + i];
    into[offset + c] = score;
    if (score > highest) highest = score;
  }
  let total = 0;
  for (let c = offset; c < offset + classes; c += 1) {
    into[c] = Math.exp(into[c] - highest);
    total += into[c];
  }
  for (let c = offset; c < offset + classes; c += 1) into[c] /= total;
}
