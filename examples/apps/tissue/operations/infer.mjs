import path from 'node:path';
import { eachCase, listCases, requireAll } from '../lib/cases.mjs';
import { loadCheckpoints } from '../lib/checkpoint.mjs';
import { UsageError } from '../lib/errors.mjs';
import { computeFeatures } from '../lib/features.mjs';
import { secondsSince } from '../lib/log.mjs';
import { tissueName } from '../lib/manifest.mjs';
import { createMembers } from '../lib/members.mjs';
import { predict } from '../lib/predict.mjs';
import { readSettings, requireChoice, requireRange } from '../lib/settings.mjs';
import { readVolume, writeVolume } from '../lib/volume.mjs';

/**
 * Writes `<case>` with one label per voxel for each input, and `<case>_stack.nii.gz` with one component per member
 * if uncertainty is asked for. Returns what it wrote, for the next steps of `pipeline`.
 */
export async function infer({ appDirectory, manifest, options, log, output }) {
  const cases = await listCases(options.inputs, '--inputs');
  const settings = await readPrediction(appDirectory, options);
  requireWithin(manifest, options);
  const models = await loadCheckpoints(appDirectory, {
    names: options.ensembleModels,
    count: options.ensemble,
    shipped: manifest.models,
  });
  const members = createMembers(models, { ...options, ...settings });
  log.line(
    `Checkpoints ${models.map((model) => model.name).join(', ')}: ${members.length} prediction(s) per case`,
  );

  const work = { members, classes: models[0].classes, settings, options, manifest, log, output };
  const done = await eachCase(cases, log, (one) => inferCase(one, work));
  requireAll(done);
  return done.results;
}

async function readPrediction(appDirectory, { predictionFile, overrides }) {
  const settings = await readSettings(appDirectory, predictionFile, overrides);
  requireRange(settings, 'dropout', 0, 0.9);
  requireRange(settings, 'seed', 0, 1e6);
  requireChoice(settings, 'stack', ['probability', 'label']);
  return settings;
}

function requireWithin(manifest, { tta, mc }) {
  if (tta > manifest.tta)
    throw new UsageError(`--tta ${tta} is more than the ${manifest.tta} that this app has.`);
  if (mc > manifest.mc_dropout)
    throw new UsageError(`--mc ${mc} is more than the ${manifest.mc_dropout} that this app allows.`);
}

async function inferCase(
  { file, name, ending },
  { members, classes, settings, options, manifest, log, output },
) {
  const start = performance.now();
  const volume = await readVolume(file, log);
  log.line(
    `  ${volume.size.join(' x ')} voxels of ${volume.spacing.map((step) => step.toFixed(2)).join(' x ')} mm, read in ${secondsSince(start)}`,
  );
  const prediction = predict(computeFeatures(volume), members, classes, {
    stack: options.uncertainty ? settings.stack : 'none',
    block: blockSize(options),
    onProgress: forward(log.progress(`  ${name}`, 1)),
  });

  const labelFile = path.join(output, name + ending);
  await writeVolume(labelFile, volume, prediction.labels);
  const result = { name, file: labelFile };
  if (prediction.stack !== undefined) {
    result.stack = path.join(output, `${name}_stack.nii.gz`);
    await writeVolume(result.stack, volume, prediction.stack, members.length);
  }
  log.line(`  ${describeVolumes(prediction.labels, classes, volume, manifest)}`);
  const written = [result.file, result.stack].filter(Boolean).map((each) => path.basename(each));
  log.line(`  Wrote ${written.join(' and ')} in ${secondsSince(start)}`);
  return result;
}

/** Voxels. */
const largestBlock = 1e9;

/** The model looks at one voxel at a time, so patch and batch size only set how often progress is shown. */
function blockSize({ patchSize = [64, 64, 16], batchSize = 1, maxVoxels = largestBlock }) {
  // A side of 0 is the whole axis, a batch of 0 as many patches as fit.
  const voxels = patchSize.reduce(
    (product, side) => product * (side || largestBlock),
    batchSize || largestBlock,
  );
  return Math.min(voxels, maxVoxels, largestBlock);
}

function forward(report) {
  return (done, total) => report(total === 0 ? 1 : done / total);
}

function describeVolumes(labels, classes, { spacing }, manifest) {
  const counts = new Array(classes).fill(0);
  for (const label of labels) counts[label] += 1;
  const millilitres = (count) => ((count * spacing[0] * spacing[1] * spacing[2]) / 1000).toFixed(0);
  return counts
    .slice(1)
    .map((count, i) => `${tissueName(manifest, i + 1)} ${millilitres(count)} ml`)
    .join(', ');
}
