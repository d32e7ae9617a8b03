import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { listCases, requireSameCount } from '../lib/cases.mjs';
import { AppError } from '../lib/errors.mjs';
import { secondsSince } from '../lib/log.mjs';
import { tissueName } from '../lib/manifest.mjs';
import { compareLabels, summarise } from '../lib/metrics.mjs';
import { readSettings, requireChoice, requireRange } from '../lib/settings.mjs';
import { readVolume, requireSameGeometry } from '../lib/volume.mjs';

/** Compares each input with the ground truth of the same place in the list; writes `Evaluation.json`. */
export async function evaluate({ appDirectory, manifest, options, log, output }) {
  const settings = await readSettings(appDirectory, options.evaluationFile);
  requireRange(settings, 'percentile', 1, 100);
  requireChoice(settings, 'surface_distance', [true, false]);
  const inputs = await listCases(options.inputs, '--inputs');
  const truths = requireSameCount(await listCases(options.gt, '--gt'), '--gt', inputs);
  const masks = options.mask && requireSameCount(await listCases(options.mask, '--mask'), '--mask', inputs);

  const cases = [];
  for (const [index, input] of inputs.entries()) {
    const start = performance.now();
    const truth = path.basename(truths[index].file);
    const labels = await evaluateCase(input.file, truths[index].file, masks?.[index].file, {
      settings,
      manifest,
      log,
    });
    cases.push({ case: input.name, ground_truth: truth, labels });
    const scores = Object.values(labels).map(({ name, dice }) => `${name} ${dice?.toFixed(3) ?? 'absent'}`);
    log.line(`${input.name} against ${truth}: Dice ${scores.join(', ')} (${secondsSince(start)})`);
  }

  const file = path.join(output, 'Evaluation.json');
  const aggregate = summarise(cases.map((one) => one.labels));
  await mkdir(output, { recursive: true });
  await writeFile(file, `${JSON.stringify({ settings, cases, aggregate }, undefined, 2)}\n`);
  log.line(
    `Wrote ${path.basename(file)}: mean Dice ${aggregate.all.dice?.mean.toFixed(4) ?? 'undefined, as there is no label'}`,
  );
}

async function evaluateCase(inputFile, truthFile, maskFile, { settings, manifest, log }) {
  const input = await readVolume(inputFile, log);
  const truth = await readVolume(truthFile, log);
  const [inputName, truthName] = [path.basename(inputFile), path.basename(truthFile)];
  requireSameGeometry(input, inputName, truth, truthName);
  const mask = maskFile && (await readVolume(maskFile, log));
  if (mask) requireSameGeometry(input, inputName, mask, path.basename(maskFile));
  const one = asLabels(input, inputName, mask);
  const other = asLabels(truth, truthName, mask);
  checkLabels(other, truthName, manifest, log);
  const labels = compareLabels(one, other, input, settings);
  for (const [label, metrics] of Object.entries(labels))
    labels[label] = { name: tissueName(manifest, label), ...metrics };
  return labels;
}

/** Refuses a truth without a label that the app knows, and reports its other labels. */
function checkLabels(labels, name, { terminology }, log) {
  if (!terminology) return;
  const found = [...new Set(labels)].filter((value) => value !== 0);
  const strange = found.filter((value) => !(value in terminology)).sort((a, b) => a - b);
  if (strange.length === 0) return;
  const words = strange.join(', ');
  const known = Object.keys(terminology).join(', ');
  if (strange.length === found.length)
    throw new AppError(
      `${name} has the values ${words}, and the labels of this app are ${known}: give its labels these values.`,
    );
  log.line(`${name} has the values ${words}, which are not labels of this app.`);
}

/** How far a label may be from an integer: values that a header scales are slightly off. */
const tolerance = 0.01;

/** Labels as bytes, with everything outside the mask as background. */
function asLabels({ data }, name, mask) {
  const labels = new Uint8Array(data.length);
  for (let i = 0; i < data.length; i += 1) {
    const value = Math.round(data[i]);
    if (!(Math.abs(data[i] - value) <= tolerance) || value < 0 || value > 255) {
      throw new AppError(
        `${name} holds ${data[i]}, which is not a label (0 to 255): give a label volume, not an image.`,
      );
    }
    // Some programs write NaN outside of a mask.
    labels[i] = mask === undefined || Math.abs(mask.data[i]) > 0 ? value : 0;
  }
  return labels;
}
