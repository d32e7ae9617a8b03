import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { list } from '../../support/list.mjs';
import { readImage, readJson, writeImage } from './images.js';
import { operate, phantom, workspace } from './program.js';

interface Summary {
  cases: { case: string; components: number; mean: number; max: number; fraction_above_threshold: number }[];
}

/** A stack of two frames: `first` and `second` at each voxel of the first half, `first` in the other half of both. */
function halfAgreed(first: number, second: number): Float32Array {
  return Float32Array.from({ length: 128 }, (_, at) => (at >= 64 && at < 96 ? second : first));
}

test('The uncertainty is 0 where the members agree, and their standard deviation elsewhere', async () => {
  const cwd = await workspace();
  await writeImage(path.join(cwd, 'case_stack.nii.gz'), halfAgreed(0.25, 0.75), { frames: 2 });
  await operate(
    list`uncertainty --uncertainty_file Uncertainty.yml --output U --inputs case_stack.nii.gz`,
    cwd,
  );

  const { data } = await readImage(cwd, 'U/case_uncertainty.nii.gz');
  expect(new Set(data.slice(0, 32))).toEqual(new Set([0.25]));
  expect(new Set(data.slice(32))).toEqual(new Set([0]));
  const { cases } = await readJson<Summary>(cwd, 'U/Uncertainty.json');
  expect(cases[0]).toMatchObject({ components: 2, mean: 0.125, max: 0.25, fraction_above_threshold: 0.5 });
});

test('Identical members have uncertainty 0 everywhere', async () => {
  const cwd = await workspace();
  await phantom(['--out', '.', '--size', '20', '--cases', '1'], cwd);
  const twice = ['--ensemble_models', 'CV_1', 'CV_1', '-uncertainty'];
  await operate(['infer', ...twice, '--output', 'P', '--inputs', 'image/head_001.nii.gz'], cwd);
  await operate(['uncertainty', '--output', 'U', '--inputs', 'P/head_001_stack.nii.gz'], cwd);
  expect((await readJson<Summary>(cwd, 'U/Uncertainty.json')).cases[0]).toMatchObject({
    components: 2,
    mean: 0,
    max: 0,
  });
});

test('The pipeline operation writes a folder for each requested operation, and no other', async () => {
  const cwd = await workspace();
  await phantom(['--out', '.', '--size', '24', '--cases', '2'], cwd);
  const inputs = ['--inputs', 'image/head_001.nii.gz', 'image/head_002.nii.gz'];
  const files = list`--prediction_file Prediction.yml --evaluation_file Evaluation.yml --uncertainty_file
    Uncertainty.yml`;
  const truth = ['--gt', 'label/head_001.nii.gz', 'label/head_002.nii.gz'];

  await operate(
    [
      'pipeline',
      '--ensemble',
      '3',
      '--tta',
      '0',
      '--mc',
      '0',
      ...files,
      '-uncertainty',
      '--output',
      'All',
      '--cpu',
      '1',
      ...inputs,
      ...truth,
    ],
    cwd,
  );
  expect((await readdir(path.join(cwd, 'All'), { recursive: true })).sort()).toEqual(list`Evaluations
    Evaluations/Evaluation.json Predictions Predictions/head_001.nii.gz Predictions/head_001_stack.nii.gz
    Predictions/head_002.nii.gz Predictions/head_002_stack.nii.gz Uncertainties
    Uncertainties/Uncertainty.json Uncertainties/head_001_uncertainty.nii.gz
    Uncertainties/head_002_uncertainty.nii.gz`);
  const { cases } = await readJson<Summary>(cwd, 'All/Uncertainties/Uncertainty.json');
  for (const one of cases) expect(one.max).toBeGreaterThan(0.01);

  await operate(
    ['pipeline', '--ensemble', '0', '--tta', '0', '--mc', '0', ...files, '--output', 'Bare', ...inputs],
    cwd,
  );
  expect(await readdir(path.join(cwd, 'Bare'))).toEqual(['Predictions']);
});

test('The pipeline operation says that a single prediction has no uncertainty, and writes an uncertainty of 0', async () => {
  const cwd = await workspace();
  await phantom(['--out', '.', '--size', '16', '--cases', '1'], cwd);
  const log = await operate(
    ['pipeline', '--ensemble', '0', '-uncertainty', '--output', 'O', '--inputs', 'image/head_001.nii.gz'],
    cwd,
  );
  expect(log).toContain('a single prediction cannot disagree with itself');
  const { cases } = await readJson<Summary>(cwd, 'O/Uncertainties/Uncertainty.json');
  expect(cases[0]).toMatchObject({ components: 1, max: 0 });
});
