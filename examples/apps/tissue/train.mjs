/**
 * Trains the checkpoints that the app ships: `node train.mjs [DIRECTORY]`. Three folds over 18 phantoms, each
 * trained on twelve and measured on the other six. The same program gives the same numbers: nothing here depends on the clock.
 */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { saveCheckpoint } from './lib/checkpoint.mjs';
import { meanDice } from './lib/dice.mjs';
import { computeFeatures } from './lib/features.mjs';
import { createModel, foldStandardisation } from './lib/model.mjs';
import { createPhantom, TISSUES } from './lib/phantom-head.mjs';
import { predict } from './lib/predict.mjs';
import { createRandom } from './lib/random.mjs';
import { createTrainer, joinSamples, sampleVoxels, standardisation } from './lib/training.mjs';

const FOLDS = 3;
const CASES = 18;
const EPOCHS = 25;
const classes = TISSUES.length;

/** Fine and coarse grids by turns, because clinical slices can be thin or thick. */
const GRIDS = [
  { size: [96, 96, 44], spacing: [2.3, 2.3, 5] },
  { size: [128, 128, 32], spacing: [1.7, 1.7, 7] },
  { size: [64, 64, 64], spacing: [3.4, 3.4, 3.4] },
];

function createCase(index) {
  const random = createRandom(100 + index);
  const phantom = createPhantom({
    seed: 1 + index,
    ...GRIDS[index % GRIDS.length],
    noise: random.between(0.02, 0.05),
  });
  return { features: computeFeatures(phantom), labels: phantom.labels };
}

function trainFold(cases, fold) {
  const random = createRandom(fold);
  // The cases of one fold cover all three grids.
  const held = (index) => Math.floor(index / GRIDS.length) % FOLDS === fold;
  const samples = joinSamples(
    cases.filter((_, i) => !held(i)).map((one) => sampleVoxels(one, 6000, classes, random)),
  );
  const { mean, scale } = standardisation(samples);
  const model = createModel(classes, mean, scale);
  const trainer = createTrainer(model, samples, {
    learningRate: 0.02,
    batchSize: 512,
    weightDecay: 1e-4,
    random,
  });
  let loss;
  for (let epoch = 0; epoch < EPOCHS; epoch += 1) loss = trainer.runEpoch();
  const weights = foldStandardisation(model);
  const scores = cases
    .filter((_, i) => held(i))
    .map(({ features, labels }) => meanDice(predict(features, [weights], classes).labels, labels, classes));
  return { model, loss, dice: scores.reduce((sum, score) => sum + score, 0) / scores.length };
}

const here = path.dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? path.join(here, 'checkpoints');
const cases = Array.from({ length: CASES }, (_, index) => createCase(index));
for (let fold = 0; fold < FOLDS; fold += 1) {
  const { model, loss, dice } = trainFold(cases, fold);
  await saveCheckpoint(path.join(target, `CV_${fold}.json`), model);
  console.log(`CV_${fold}: loss ${loss.toFixed(4)}, Dice on the held-out cases ${dice.toFixed(4)}`);
}
