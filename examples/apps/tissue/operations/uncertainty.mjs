import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { listCases } from '../lib/cases.mjs';
import { AppError } from '../lib/errors.mjs';
import { secondsSince } from '../lib/log.mjs';
import { readSettings, requireChoice, requireRange } from '../lib/settings.mjs';
import { deviationMap, entropyMap } from '../lib/spread.mjs';
import { readStack, writeVolume } from '../lib/volume.mjs';

const MEASURES = { deviation: deviationMap, entropy: entropyMap };

const NOT_A_STACK =
  "has one value per voxel: give the stack that 'infer -uncertainty' writes with two or more predictions (--ensemble, --tta or --mc).";
const SINGLE =
  'a single prediction cannot disagree with itself, so its uncertainty is 0 (use --ensemble, --tta or --mc)';

/** Writes `<case>_uncertainty.nii.gz` for each stack: how far its components disagree; and `Uncertainty.json`. */
export async function uncertainty({ appDirectory, options, log, output, allowSingle = false }) {
  const settings = await readSettings(appDirectory, options.uncertaintyFile);
  requireChoice(settings, 'measure', Object.keys(MEASURES));
  requireRange(settings, 'threshold', 0, Number.MAX_VALUE);
  const stacks = await listCases(options.inputs, '--inputs');
  const cases = [];
  for (const { file, name } of stacks) {
    const start = performance.now();
    const stack = await readStack(file, log);
    const components = stack.frames;
    if (components < 2 && !allowSingle) throw new AppError(`${path.basename(file)} ${NOT_A_STACK}`);
    if (components < 2) log.line(`${name}: ${SINGLE}`);
    const map = MEASURES[settings.measure](stack.data, components);
    const mapName = `${name.replace(/_stack$/, '')}_uncertainty.nii.gz`;
    await writeVolume(path.join(output, mapName), stack, map);
    const summary = { case: name, map: mapName, components, ...summarise(map, settings.threshold) };
    cases.push(summary);
    log.line(
      `${name}: ${components} components, mean ${summary.mean.toFixed(5)}, greatest ${summary.max.toFixed(4)} (${secondsSince(start)})`,
    );
  }
  const file = path.join(output, 'Uncertainty.json');
  await mkdir(output, { recursive: true });
  await writeFile(file, `${JSON.stringify({ settings, cases }, undefined, 2)}\n`);
  log.line(`Wrote ${path.basename(file)}`);
}

function summarise(map, threshold) {
  let sum = 0;
  let max = 0;
  let above = 0;
  for (let i = 0; i < map.length; i += 1) {
    sum += map[i];
    if (map[i] > max) max = map[i];
    if (map[i] > threshold) above += 1;
  }
  return { mean: sum / map.length, max, fraction_above_threshold: above / map.length };
}
