import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { list } from '../../support/list.mjs';
import { readJson } from './images.js';
import { copyApp, operate, phantom, tissue, workspace } from './program.js';

interface Training {
  training_cases: string[];
  validation_cases: string[];
  checkpoints: {
    from: string;
    checkpoint: string;
    before: number;
    after: number;
    epochs: { epoch: number; loss: number; validation_dice: number }[];
    validations: { iteration: number }[];
  }[];
}
interface Evaluation {
  aggregate: { all: { dice: { mean: number } } };
}

test('Fine-tuning learns a new contrast, and an inference can use the checkpoint', async () => {
  const cwd = await workspace();
  const app = await copyApp(cwd);
  await phantom(
    ['--out', 'data', '--cases', '4', '--size', '32', '--layout', 'dataset', '--contrast', 't1'],
    cwd,
  );
  await phantom(['--out', 'new', '--cases', '1', '--size', '32', '--seed', '70', '--contrast', 't1'], cwd);
  const schedule = ['--epochs', '4', '--it_validation', '20', '--set', 'samples_per_case=3000'];
  await operate(
    [
      'fine-tune',
      'Tuned',
      '--config',
      'Config.yml',
      ...schedule,
      '--dataset',
      'data',
      '--output',
      'O',
      '--cpu',
      '1',
    ],
    cwd,
    app,
  );

  const training = await readJson<Training>(cwd, 'O/training.json');
  expect(training.training_cases).toHaveLength(3);
  expect(training.validation_cases).toEqual(['head_004']);
  const [report] = training.checkpoints;
  expect(report).toMatchObject({ from: 'CV_0', checkpoint: 'Tuned.json' });
  expect(report?.epochs.map(({ epoch }) => epoch)).toEqual([1, 2, 3, 4]);
  expect(report?.validations[0]?.iteration).toBe(20);
  expect(report?.before).toBeLessThan(0.6);
  expect(report?.after).toBeGreaterThan(0.85);

  await copyFile(path.join(cwd, 'O/checkpoints/Tuned.json'), path.join(app, 'checkpoints/Tuned.json'));
  const diceOf = async (model: string) => {
    await operate(
      ['infer', '--ensemble_models', model, '--output', model, '--inputs', 'new/image/head_070.nii.gz'],
      cwd,
      app,
    );
    await operate(
      [
        'eval',
        '--output',
        model,
        '--inputs',
        `${model}/head_070.nii.gz`,
        '--gt',
        'new/label/head_070.nii.gz',
      ],
      cwd,
      app,
    );
    return (await readJson<Evaluation>(cwd, model, 'Evaluation.json')).aggregate.all.dice.mean;
  };
  expect(await diceOf('Tuned')).toBeGreaterThan((await diceOf('CV_0')) + 0.3);
});

test('Several checkpoints are each tuned and keep their names', async () => {
  const cwd = await workspace();
  await phantom(['--out', 'data', '--cases', '1', '--size', '20', '--layout', 'dataset'], cwd);
  const log = await operate(
    list`fine-tune Pair --epochs 1 --models CV_1 CV_2.json --lr 0.001 --dataset data --output O`,
    cwd,
  );
  expect(log).toContain('head_001 is the only case');
  const { checkpoints } = await readJson<Training>(cwd, 'O/training.json');
  expect(checkpoints.map((one) => one.checkpoint)).toEqual(['Pair_CV_1.json', 'Pair_CV_2.json']);
});

test('A data set without cases and one with an incomplete case have different errors', async () => {
  const cwd = await workspace();
  await phantom(['--out', 'flat', '--cases', '1', '--size', '16'], cwd);
  const flat = await tissue(['fine-tune', 'X', '--dataset', 'flat', '--output', 'O'], cwd);
  expect(flat.code).toBe(1);
  expect(flat.stderr).toBe(
    'flat holds no training cases: each is a folder with image.nii.gz and label.nii.gz (or another format).\n',
  );

  await phantom(['--out', 'half', '--cases', '1', '--size', '16', '--layout', 'dataset'], cwd);
  await copyFile(path.join(cwd, 'half/head_001/image.nii.gz'), path.join(cwd, 'half/head_001/label.nii.gz'));
  const image = await tissue(['fine-tune', 'X', '--dataset', 'half', '--output', 'O'], cwd);
  expect(image.code).toBe(1);
  expect(image.stderr).toMatch(/label\.nii\.gz holds \d+, and the checkpoint knows the labels 0 to 5\./);
});
