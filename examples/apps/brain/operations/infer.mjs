import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { spacingOf, writeNifti } from 'remote-app/volumes';
import { findBrain } from '../lib/brain.mjs';
import { eachCase, listCases, readScan, requireAll } from '../lib/cases.mjs';
import { UsageError } from '../lib/errors.mjs';
import { secondsSince } from '../lib/log.mjs';
import { loadNetworks } from '../lib/network.mjs';

/**
 * Writes `<case>_mask.nii.gz` and `<case>_brain.nii.gz` for each input, in its geometry, and `<case>_stack.nii.gz` with the
 * probabilities of each pass if uncertainty is asked for; and `measurements.json` for all. Returns what it wrote of each case.
 */
export async function infer({ manifest, options, log, output }) {
  const cases = listCases(options.inputs, '--inputs');
  const settings = settingsOf(manifest.parameters, options.overrides);
  if (options.tta > manifest.tta)
    throw new UsageError(`--tta ${options.tta} is more than the ${manifest.tta} that this app has.`);
  const networks = await loadNetworks(options);
  log.line(`On ${networks.device}; ${options.tta + 1} pass${options.tta > 0 ? 'es' : ''} per case`);
  await mkdir(output, { recursive: true });

  const done = await eachCase(cases, log, (one) =>
    inferCase(one, { networks, settings, options, log, output }),
  );
  const measurements = done.results.map(({ measured }) => measured);
  const file = path.join(output, 'measurements.json');
  await writeFile(
    file,
    `${JSON.stringify({ settings, tta: options.tta, cases: measurements }, undefined, 2)}\n`,
  );
  requireAll(done);
  return done.results.map(({ result }) => result);
}

/** The parameters of `app.json`, with the values of `--set NAME=VALUE`. */
function settingsOf(parameters, overrides) {
  const settings = Object.fromEntries(Object.entries(parameters).map(([name, each]) => [name, each.default]));
  for (const override of overrides) {
    const [, name, text] = /^([^=]*)=(.*)$/s.exec(override) ?? [];
    if (!Object.hasOwn(parameters, name ?? ''))
      throw new UsageError(
        `--set ${override}: give NAME=VALUE, with a NAME of ${Object.keys(parameters).join(', ')}.`,
      );
    const { min, max } = parameters[name];
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (!(value >= min && value <= max))
      throw new UsageError(`--set ${name} needs a number from ${min} to ${max}, not '${text}'.`);
    settings[name] = value;
  }
  return settings;
}

async function inferCase({ file, name }, { networks, settings, options, log, output }) {
  const start = performance.now();
  const scan = await readScan(file, log);
  log.line(
    `  ${scan.size.join(' x ')} voxels of ${spacingOf(scan)
      .map((step) => step.toFixed(2))
      .join(' x ')} mm, read in ${secondsSince(start)}`,
  );
  const { size, affine, data, hasOrientation, qform } = scan;
  // With both places of a scan whose header names two, every program draws the results where it draws the scan.
  const grid = { size, affine, hasOrientation, qform };
  const progress = log.progress(`  ${name}`, 1);
  const stack = options.uncertainty ? new Float32Array(data.length * (options.tta + 1)) : null;
  const mask = await findBrain(scan, name, networks, {
    tta: options.tta,
    threshold: settings.threshold,
    onMember: stack && ((index, voxels) => stack.set(voxels, index * data.length)),
    onStep: (done, all) => progress(done / all),
  });

  const result = { name, file: path.join(output, `${name}_mask.nii.gz`) };
  const brainFile = path.join(output, `${name}_brain.nii.gz`);
  await writeNifti(result.file, { ...grid, data: mask });
  await writeNifti(brainFile, { ...grid, data: data.map((value, at) => (mask[at] === 1 ? value : 0)) });
  if (stack) {
    result.stack = path.join(output, `${name}_stack.nii.gz`);
    await writeNifti(result.stack, { ...grid, data: stack, frames: options.tta + 1 });
  }
  const voxels = mask.reduce((sum, value) => sum + value, 0);
  const measured = { case: name, brain_volume_ml: voxels * millilitresOf(affine), brain_voxels: voxels };
  const written = [result.file, brainFile, result.stack].filter(Boolean).map((each) => path.basename(each));
  log.line(`  Brain ${measured.brain_volume_ml.toFixed(0)} ml`);
  log.line(`  Wrote ${written.join(', ')} in ${secondsSince(start)}`);
  return { result, measured };
}

/** The volume of a voxel. */
function millilitresOf([[a, b, c], [d, e, f], [g, h, i]]) {
  return Math.abs(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)) / 1000;
}
