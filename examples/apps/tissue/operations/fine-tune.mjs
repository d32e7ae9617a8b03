import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { loadCheckpoints, saveCheckpoint } from '../lib/checkpoint.mjs';
import { findDataset, loadCase } from '../lib/dataset.mjs';
import { meanDice } from '../lib/dice.mjs';
import { secondsSince } from '../lib/log.mjs';
import { foldStandardisation } from '../lib/model.mjs';
import { predict } from '../lib/predict.mjs';
import { createRandom } from '../lib/random.mjs';
import { readSettings, requireRange } from '../lib/settings.mjs';
import { createTrainer, joinSamples, sampleVoxels } from '../lib/training.mjs';

/**
 * Trains the named checkpoints (or the first) further on a data set. Writes `checkpoints/<NAME>.json`, or
 * `<NAME>_<checkpoint>.json` for several, and `training.json`.
 */
export async function fineTune({ appDirectory, manifest, name, options, log, output }) {
  const settings = await readConfig(appDirectory, options);
  const models = await loadCheckpoints(appDirectory, { names: options.models, shipped: manifest.models });
  const { training, validation } = await loadCases(options.dataset, models[0].classes, settings, log);
  const reports = [];
  for (const model of models) {
    const file = path.join(
      output,
      'checkpoints',
      `${models.length === 1 ? name : `${name}_${model.name}`}.json`,
    );
    reports.push({
      from: model.name,
      checkpoint: path.basename(file),
      ...tune(model, training, validation, { settings, options, log }),
    });
    await saveCheckpoint(file, model);
    log.line(
      `Wrote ${path.basename(file)}: validation Dice ${show(reports.at(-1).before)} before, ${show(reports.at(-1).after)} after`,
    );
  }
  const names = (cases) => cases.map((one) => one.name);
  const summary = {
    name,
    settings,
    training_cases: names(training),
    validation_cases: names(validation),
    checkpoints: reports,
  };
  await mkdir(output, { recursive: true });
  await writeFile(path.join(output, 'training.json'), `${JSON.stringify(summary, undefined, 2)}\n`);
}

async function readConfig(appDirectory, { configFile, overrides, learningRate, batchSize }) {
  const settings = await readSettings(appDirectory, configFile, overrides);
  if (learningRate !== undefined) settings.learning_rate = learningRate;
  // 0 leaves the choice to the app.
  if (batchSize) settings.batch_size = batchSize;
  requireRange(settings, 'learning_rate', 1e-9, 10);
  requireRange(settings, 'weight_decay', 0, 10);
  requireRange(settings, 'seed', 0, 1e6);
  for (const count of ['batch_size', 'samples_per_case', 'validation_cases'])
    requireRange(settings, count, 1, 1e6);
  return settings;
}

/** The last cases by name are held out. A single case is all there is to train on and to validate with. */
async function loadCases(directory, classes, settings, log) {
  const found = await findDataset(directory);
  const report = log.progress('Reading cases', found.length);
  const cases = [];
  for (const one of found) {
    cases.push(await loadCase(one, classes, log));
    report(cases.length);
  }
  if (cases.length === 1) {
    log.line(`${cases[0].name} is the only case: the validation Dice is measured on it, and flatters.`);
    return { training: cases, validation: cases };
  }
  const held = Math.min(settings.validation_cases, cases.length - 1);
  return { training: cases.slice(0, -held), validation: cases.slice(-held) };
}

/** Trains `model` in place and leaves it with the weights that did best on the held-out cases. */
function tune(model, training, validation, { settings, options, log }) {
  const random = createRandom(settings.seed);
  const samples = joinSamples(
    training.map((one) => sampleVoxels(one, settings.samples_per_case, model.classes, random)),
  );
  const trainer = createTrainer(model, samples, {
    learningRate: settings.learning_rate,
    batchSize: Math.round(settings.batch_size),
    weightDecay: settings.weight_decay,
    random,
  });
  const before = validate(model, validation);
  let best = { dice: before ?? -1, weights: Float64Array.from(model.weights) };
  const check = () => {
    const dice = validate(model, validation);
    if (dice !== null && dice > best.dice) best = { dice, weights: Float64Array.from(model.weights) };
    return dice;
  };
  log.line(
    `${model.name}: ${samples.labels.length} voxels of ${training.length} case(s), ${trainer.stepsPerEpoch} iterations per epoch`,
  );

  const epochs = [];
  const validations = [];
  for (let epoch = 1; epoch <= options.epochs; epoch += 1) {
    const start = performance.now();
    const report = log.progress(`  Epoch ${epoch}/${options.epochs}`, trainer.stepsPerEpoch);
    const loss = trainer.runEpoch((step) => {
      report(step - (epoch - 1) * trainer.stepsPerEpoch);
      if (step % options.itValidation === 0) validations.push({ iteration: step, dice: check() });
    });
    const dice = check();
    epochs.push({ epoch, loss, validation_dice: dice });
    log.line(
      `  Epoch ${epoch}/${options.epochs}: loss ${loss.toFixed(4)}, validation Dice ${show(dice)} (${secondsSince(start)})`,
    );
  }
  model.weights.set(best.weights);
  return { before, after: best.dice < 0 ? null : best.dice, epochs, validations };
}

function validate(model, cases) {
  const weights = foldStandardisation(model);
  const scores = cases
    .map(({ features, labels }) =>
      meanDice(predict(features, [weights], model.classes).labels, labels, model.classes),
    )
    .filter((score) => score !== null);
  return scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

function show(dice) {
  return dice?.toFixed(4) ?? 'undefined';
}
