import { LOCAL_FEATURES, POSITION_FEATURES } from './features.mjs';
import { foldStandardisation, ROW } from './model.mjs';
import { createRandom } from './random.mjs';

/** The flips of test-time augmentation, in the order they are added: which of x, y and z are reversed. */
const FLIPS = [
  [1, 0, 0],
  [0, 1, 0],
  [0, 0, 1],
  [1, 1, 0],
  [1, 0, 1],
  [0, 1, 1],
  [1, 1, 1],
];
export const MAXIMUM_TTA = FLIPS.length;

/**
 * Every prediction that is averaged: models x (1 + TTA flips) x Monte-Carlo passes. A member is just weights over the
 * raw inputs, so the features are computed once for all of them.
 */
export function createMembers(models, { tta, mc, dropout, seed }) {
  const flips = [[0, 0, 0], ...FLIPS.slice(0, tta)];
  const members = [];
  for (const model of models) {
    for (const flip of flips) {
      for (let pass = 0; pass < Math.max(1, mc); pass += 1) {
        const sampled = mc === 0 ? model : dropInputs(model, dropout, createRandom(seed * 1000 + pass));
        members.push(flipped(foldStandardisation(sampled), flip));
      }
    }
  }
  return members;
}

/**
 * Predicting a flipped image and flipping the answer back. The filters treat both directions alike, so of all the
 * inputs only the positions change, and they change sign: that is the same as weights of the other sign.
 * An app whose network does not have this symmetry flips the image itself.
 */
function flipped(weights, flip) {
  const changed = Float64Array.from(weights);
  for (let row = 0; row < changed.length; row += ROW) {
    for (let axis = 0; axis < POSITION_FEATURES.length; axis += 1) {
      if (flip[axis] === 1) changed[row + LOCAL_FEATURES.length + axis] *= -1;
    }
  }
  return changed;
}

/** One Monte-Carlo dropout pass: some inputs are set to their mean for every class, the others scaled up. */
function dropInputs(model, rate, random) {
  const weights = Float64Array.from(model.weights);
  for (let i = 0; i < ROW - 1; i += 1) {
    const factor = random.uniform() < rate ? 0 : 1 / (1 - rate);
    for (let row = 0; row < weights.length; row += ROW) weights[row + i] *= factor;
  }
  return { ...model, weights };
}
