import { fillInputs } from './features.mjs';
import { ROW, softmax } from './model.mjs';
import { shuffle } from './random.mjs';

const INPUTS = ROW - 1;

/** Draws voxels near the head from a case, as many from each class as there are, up to an even share. */
export function sampleVoxels({ features, labels }, count, classes, random) {
  const byClass = Array.from({ length: classes }, () => []);
  for (const at of features.voxels) byClass[labels[at]]?.push(at);
  const present = byClass.filter((voxels) => voxels.length > 0);
  const share = Math.ceil(count / present.length);
  const chosen = present.flatMap((voxels) => shuffle(voxels, random).slice(0, share));
  const inputs = new Float32Array(chosen.length * INPUTS);
  for (const [i, at] of chosen.entries()) fillInputs(features, at, inputs, i * INPUTS);
  return { inputs, labels: Uint8Array.from(chosen, (at) => labels[at]) };
}

/** Several cases' samples as one. */
export function joinSamples(samples) {
  const total = samples.reduce((sum, sample) => sum + sample.labels.length, 0);
  const joined = { inputs: new Float32Array(total * INPUTS), labels: new Uint8Array(total) };
  let at = 0;
  for (const sample of samples) {
    joined.inputs.set(sample.inputs, at * INPUTS);
    joined.labels.set(sample.labels, at);
    at += sample.labels.length;
  }
  return joined;
}

/** Mean and standard deviation of each input: a new model's standardisation. */
export function standardisation({ inputs, labels }) {
  const count = labels.length;
  const mean = new Float64Array(INPUTS);
  const scale = new Float64Array(INPUTS);
  for (let i = 0; i < inputs.length; i += 1) mean[i % INPUTS] += inputs[i] / count;
  for (let i = 0; i < inputs.length; i += 1) scale[i % INPUTS] += (inputs[i] - mean[i % INPUTS]) ** 2 / count;
  return { mean, scale: scale.map((variance) => Math.sqrt(variance) || 1) };
}

/**
 * Mini-batch training with Adam, in place. One epoch is one pass over the samples in a new order. `afterStep(step)`
 * is called after each mini-batch; the mean cross-entropy of the epoch is returned.
 */
export function createTrainer(model, samples, { learningRate, batchSize, weightDecay, random }) {
  const standard = standardise(samples.inputs, model);
  const order = Uint32Array.from(samples.labels.keys());
  const size = model.weights.length;
  const state = {
    gradient: new Float64Array(size),
    first: new Float64Array(size),
    second: new Float64Array(size),
    step: 0,
  };
  const probabilities = new Float64Array(model.classes);

  const runEpoch = (afterStep) => {
    shuffle(order, random);
    let loss = 0;
    for (let start = 0; start < order.length; start += batchSize) {
      const batch = order.subarray(start, start + batchSize);
      state.gradient.fill(0);
      for (const row of batch)
        loss += accumulate(model, standard, row, samples.labels[row], probabilities, state.gradient);
      updateWeights(model.weights, state, batch.length, learningRate, weightDecay);
      afterStep?.(state.step);
    }
    return loss / order.length;
  };
  return { runEpoch, stepsPerEpoch: Math.ceil(order.length / batchSize) };
}

function standardise(inputs, { mean, scale }) {
  return inputs.map((value, i) => (value - mean[i % INPUTS]) / scale[i % INPUTS]);
}

/** Adds one voxel's gradient of the cross-entropy; returns its loss. */
function accumulate(model, inputs, row, label, probabilities, gradient) {
  const at = row * INPUTS;
  softmax(model.weights, model.classes, inputs, at, probabilities, 0);
  for (let c = 0; c < model.classes; c += 1) {
    const error = probabilities[c] - (c === label ? 1 : 0);
    const base = c * ROW;
    for (let i = 0; i < INPUTS; i += 1) gradient[base + i] += error * inputs[at + i];
    gradient[base + INPUTS] += error;
  }
  return -Math.log(Math.max(probabilities[label], 1e-12));
}

function updateWeights(weights, state, batchLength, learningRate, weightDecay) {
  state.step += 1;
  const correctFirst = 1 - 0.9 ** state.step;
  const correctSecond = 1 - 0.999 ** state.step;
  for (let i = 0; i < weights.length; i += 1) {
    const gradient = state.gradient[i] / batchLength + weightDecay * weights[i];
    state.first[i] = 0.9 * state.first[i] + 0.1 * gradient;
    state.second[i] = 0.999 * state.second[i] + 0.001 * gradient * gradient;
    weights[i] -=
      (learningRate * (state.first[i] / correctFirst)) / (Math.sqrt(state.second[i] / correctSecond) + 1e-8);
  }
}
