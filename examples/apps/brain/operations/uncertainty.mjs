import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { readVolume, writeNifti } from 'remote-app/volumes';
import { listCases } from '../lib/cases.mjs';
import { AppError } from '../lib/errors.mjs';
import { secondsSince } from '../lib/log.mjs';

/** A voxel counts as uncertain in the summary where its standard deviation is above this. */
const threshold = 0.1;

/**
 * Writes `<case>_uncertainty.nii.gz` for each stack, the standard deviation of the probabilities of its passes; and
 * `Uncertainty.json`.
 */
export async function uncertainty({ options, log, output, allowSingle = false }) {
  await mkdir(output, { recursive: true });
  const cases = [];
  for (const { file, name } of listCases(options.inputs, '--inputs')) {
    const start = performance.now();
    const { size, affine, frames, data, hasOrientation, qform } = await readVolume(path.resolve(file));
    if (frames < 2 && !allowSingle)
      throw new AppError(
        `${path.basename(file)} has one value per voxel: give the stack that 'infer -uncertainty' writes with --tta 1 or more.`,
      );
    if (frames < 2) log.line(`${name}: one pass has no uncertainty (use --tta)`);
    const map = deviationMap(data, frames);
    const mapName = `${name.replace(/_stack$/, '')}_uncertainty.nii.gz`;
    await writeNifti(path.join(output, mapName), { size, affine, hasOrientation, qform, data: map });
    const summary = { case: name, map: mapName, passes: frames, ...summarise(map) };
    cases.push(summary);
    log.line(
      `${name}: ${frames} passes, mean ${summary.mean.toFixed(5)}, greatest ${summary.max.toFixed(4)} (${secondsSince(start)})`,
    );
  }
  await writeFile(
    path.join(output, 'Uncertainty.json'),
    `${JSON.stringify({ threshold, cases }, undefined, 2)}\n`,
  );
  log.line('Wrote Uncertainty.json');
}

/** The standard deviation of each voxel over the frames of a stack. */
function deviationMap(stack, frames) {
  const count = stack.length / frames;
  const map = new Float32Array(count);
  for (let voxel = 0; voxel < count; voxel += 1) {
    let [sum, squares] = [0, 0];
    for (let at = voxel; at < stack.length; at += count) sum += stack[at];
    for (let at = voxel; at < stack.length; at += count) squares += (stack[at] - sum / frames) ** 2;
    map[voxel] = Math.sqrt(squares / frames);
  }
  return map;
}

function summarise(map) {
  let [sum, max, above] = [0, 0, 0];
  for (const value of map) {
    sum += value;
    if (value > max) max = value;
    if (value > threshold) above += 1;
  }
  return { mean: sum / map.length, max, fraction_above_threshold: above / map.length };
}
