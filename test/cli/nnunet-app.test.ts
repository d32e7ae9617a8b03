import path from 'node:path';
import { expect, test } from 'vitest';
import { nnunetApp } from '../../src/cli/apps/nnunet-app.js';
import { type Changes, plantedFolder } from '../support/model-folder.js';
import { checkpoint, dataset, nnunetFolder, resultsName } from '../support/nnunet-folder.js';

const folder = (changes: Changes = {}, name = resultsName) =>
  plantedFolder(name, nnunetFolder(name), changes);

const source = { task: undefined, weights: undefined, environment: {}, root: process.cwd() };
const appOf = (directory: string) => nnunetApp({ ...source, source: directory });

const about = 'dataset.json';
const data = (changes: object) => ({ [about]: { ...dataset, ...changes } });
const labels = (given: object, order?: readonly number[]) =>
  data({ labels: given, ...(order && { regions_class_order: order }) });

test.each([
  [{ background: 0, liver: 2, ignore: 3 }, undefined, { 2: 'liver' }],
  [{ background: [0], liver: [1], tumour: 2 }, undefined, { 1: 'liver', 2: 'tumour' }],
  [{ background: 0, all: [0, 1, 2], core: 2 }, [5, 4], { 5: 'all', 4: 'core' }],
] as const)('Labels of nnU-Net %j in the order %j become %j', async (given, order, names) => {
  const { terminology } = appOf(await folder(labels(given, order))).manifest;
  const found = Object.entries(terminology as Record<string, { name: string }>);
  expect(Object.fromEntries(found.map(([value, { name }]) => [value, name]))).toEqual(names);
});

test('Folds are sorted by number, and fold_all is used only if there is no other', async () => {
  const more = ['fold_10', 'fold_2'].map((name) => [`${name}/checkpoint_final.pth`, checkpoint]);
  const directory = await folder({
    ...Object.fromEntries(more),
    fold_3: 'no folder',
    'fold_x/checkpoint_final.pth': checkpoint,
    'fold_4/checkpoint_best.pth': checkpoint,
  });
  const { manifest, weights, notes, copies } = appOf(directory);
  const names = ['fold_0', 'fold_1', 'fold_2', 'fold_10'];
  expect(manifest.models).toEqual(names.map((name) => `${name}.pth`));
  expect(Object.entries(weights)).toEqual(
    names.map((name) => [`model/${name}.pth`, path.join(directory, name, 'checkpoint_final.pth')]),
  );
  expect(copies).toEqual({
    'model/dataset.json': path.join(directory, 'dataset.json'),
    'model/plans.json': path.join(directory, 'plans.json'),
  });
  expect(notes).toEqual(['fold_4 is left out: it has no checkpoint_final.pth']);

  const whole = await folder({
    'fold_0/checkpoint_final.pth': null,
    'fold_1/checkpoint_final.pth': null,
    'fold_all/checkpoint_final.pth': checkpoint,
  });
  const app = appOf(whole);
  expect([app.manifest.models, app.notes]).toEqual([['fold_all.pth'], []]);
  // There is nothing to combine.
  expect(app.about).not.toMatch(/--ensemble \d/);
});

test('Channels may have the older name, and only CT is in Hounsfield units', async () => {
  const { manifest } = appOf(
    await folder(data({ modality: { 0: 'ct', 1: 'CTA' }, channel_names: undefined })),
  );
  const input = { volume_type: 'VOLUME', required: true };
  expect(manifest.inputs).toEqual({
    Channel_0: { display_name: 'ct', ...input, unit: 'HU' },
    Channel_1: { display_name: 'CTA', ...input },
  });
});
