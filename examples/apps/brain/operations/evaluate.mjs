import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { shearOf, spacingOf } from 'remote-app/volumes';
import { listCases, readScan, requireSameCount, requireSameGeometry } from '../lib/cases.mjs';
import { AppError } from '../lib/errors.mjs';
import { secondsSince } from '../lib/log.mjs';
import { surfaceDistances } from '../lib/surface.mjs';

/** The percentile of the Hausdorff distance: the greatest one follows a single voxel. */
const percentile = 95;

/**
 * Compares each input with the ground truth of the same place in the list; writes `Evaluation.json`. Every voxel that is not
 * 0 or NaN counts as brain, so a volume without all else serves as well as a mask.
 */
export async function evaluate({ manifest, options, log, output }) {
  const inputs = listCases(options.inputs, '--inputs');
  const truths = requireSameCount(listCases(options.gt, '--gt'), '--gt', inputs);
  const masks = options.mask && requireSameCount(listCases(options.mask, '--mask'), '--mask', inputs);

  const cases = [];
  for (const [index, input] of inputs.entries()) {
    const start = performance.now();
    const truth = path.basename(path.resolve(truths[index].file));
    const metrics = await compare(input.file, truths[index].file, masks?.[index].file, log);
    cases.push({
      case: input.name,
      ground_truth: truth,
      labels: { 1: { name: manifest.terminology[1].name, ...metrics } },
    });
    log.line(
      `${input.name} against ${truth}: Dice ${metrics.dice?.toFixed(3) ?? 'undefined, as both are empty'}${describeDistance(metrics)} (${secondsSince(start)})`,
    );
  }
  const aggregate = summarise(cases.map(({ labels }) => labels[1]));
  await mkdir(output, { recursive: true });
  await writeFile(
    path.join(output, 'Evaluation.json'),
    `${JSON.stringify({ cases, aggregate: { all: aggregate, labels: { 1: aggregate } } }, undefined, 2)}\n`,
  );
  log.line(
    `Wrote Evaluation.json: mean Dice ${aggregate.dice?.mean.toFixed(4) ?? 'undefined, as there is no brain'}`,
  );
}

const describeDistance = ({ hausdorff95_mm: distance }) =>
  distance === null ? '' : `, Hausdorff ${percentile} % ${distance.toFixed(2)} mm`;

async function compare(inputFile, truthFile, maskFile, log) {
  const input = await readScan(inputFile, log);
  const truth = await readScan(truthFile, log);
  requireSameGeometry(input, inputFile, truth, truthFile);
  const mask = maskFile && (await readScan(maskFile, log));
  if (mask) requireSameGeometry(input, inputFile, mask, maskFile);
  // Some programs write NaN around the brain.
  const isInside = (value) => Math.abs(value) > 0;
  const asMask = ({ data }) =>
    new Uint8Array(data.length).map((_, at) => (isInside(data[at]) && isInside(mask?.data[at] ?? 1) ? 1 : 0));
  const [one, other] = [asMask(input), asMask(truth)];
  const count = (labels) => labels.reduce((sum, value) => sum + value, 0);
  const [ofOne, ofOther] = [count(one), count(other)];
  const ofBoth = one.reduce((sum, value, at) => sum + value * other[at], 0);
  const shear = shearOf(input);
  if (shear > 3)
    throw new AppError(
      `${path.basename(inputFile)} has slices that are tilted by ${shear.toFixed(0)} degrees against each other: resample it to straight slices, since distances are measured along perpendicular axes.`,
    );
  const spacing = spacingOf(input);
  const millilitres = (spacing[0] * spacing[1] * spacing[2]) / 1000;
  const isEmpty = ofOne + ofOther === 0;
  return {
    dice: isEmpty ? null : (2 * ofBoth) / (ofOne + ofOther),
    volume_ml: ofOne * millilitres,
    truth_volume_ml: ofOther * millilitres,
    volume_similarity: isEmpty ? null : 1 - Math.abs(ofOne - ofOther) / (ofOne + ofOther),
    ...distances(surfaceDistances(one, other, 1, { size: input.size, spacing })),
  };
}

/** Both are null where one of the two has no brain: then there is no distance. */
function distances(found) {
  if (found === undefined) return { hausdorff95_mm: null, mean_surface_mm: null };
  const [there, back] = found.map((list) => list.sort());
  const at = (list) => list[Math.min(list.length - 1, Math.ceil((percentile / 100) * list.length) - 1)];
  const sum = (list) => list.reduce((total, value) => total + value, 0);
  return {
    hausdorff95_mm: Math.max(at(there), at(back)),
    mean_surface_mm: (sum(there) + sum(back)) / (there.length + back.length),
  };
}

/** Mean, least and greatest of each metric over the cases. */
function summarise(list) {
  const summary = {};
  for (const metric of new Set(list.flatMap(Object.keys))) {
    const values = list.map((metrics) => metrics[metric]).filter((value) => typeof value === 'number');
    if (values.length === 0) continue;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    summary[metric] = { mean, min: Math.min(...values), max: Math.max(...values), count: values.length };
  }
  return summary;
}
