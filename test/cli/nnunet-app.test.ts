import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { nnunetApp } from '../../src/cli/apps/nnunet-app.js';
import { totalsegmentatorApp } from '../../src/cli/apps/totalsegmentator-app.js';
import { type Changes, plantedFolder } from '../support/model-folder.js';
import { checkpoint, dataset, nnunetFolder, resultsName } from '../support/nnunet-folder.js';
import { plant, temporary } from '../support/temporary.js';
import { networkOf, weightsOf } from '../support/totalsegmentator-weights.js';

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
] as const)('Labels of nnU-Net %j in the order %j are in results: %j', async (given, order, names) => {
  const { terminology } = appOf(await folder(labels(given, order))).manifest;
  const found = Object.entries(terminology as Record<string, { name: string }>);
  expect(Object.fromEntries(found.map(([value, { name }]) => [value, name]))).toEqual(names);
});

test('Folds are in the order of their numbers, and fold_all counts where there is no other', async () => {
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

/** The app of a task whose weights are where TotalSegmentator keeps them. */
async function taskWith(ids: readonly number[], more: Record<string, string | Buffer> = {}, task = 'body') {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  await plant(root.path, { ...weightsOf('nnunet/results', ids), ...more });
  const environment = { TOTALSEG_HOME_DIR: root.path, HOME: '/nonexistent' };
  return {
    directory: path.join(root.path, 'nnunet/results'),
    app: () => totalsegmentatorApp({ ...source, task, source: undefined, environment }),
  };
}

test('Of a task the weights that are there are used, and those that are not are still to be downloaded', async () => {
  const { directory, app } = await taskWith([299]);
  const { source: found, missing, weights, copies, notes } = app();
  const network = networkOf(299);
  expect([found, missing, notes]).toEqual([directory, ['Dataset300_body_6mm_1559subj'], []]);
  expect(weights).toEqual({
    [`weights/${network}/fold_0/checkpoint_final.pth`]: path.join(
      directory,
      network,
      'fold_0/checkpoint_final.pth',
    ),
  });
  expect(Object.keys(copies)).toEqual([`weights/${network}/dataset.json`, `weights/${network}/plans.json`]);
});

test('A network without its plans is missing, and one that is cut is refused', async () => {
  const plan = `nnunet/results/${networkOf(299)}/plans.json`;
  const lacking = await taskWith([300]);
  await plant(lacking.directory, { [`${networkOf(299)}/fold_0/checkpoint_final.pth`]: checkpoint });
  expect(lacking.app().missing).toEqual(['Dataset299_body_1559subj']);
  const cut = await taskWith([299], { [plan.replace('plans.json', 'fold_0/checkpoint_final.pth')]: 'PK' });
  const place = path.join(cut.directory, networkOf(299));
  expect(cut.app).toThrow(
    `'${place}/fold_0/checkpoint_final.pth' cannot be used: it is not a checkpoint of PyTorch; ` +
      `without '${path.dirname(place)}' TotalSegmentator downloads it again`,
  );
});

test('A task that needs a licence has the number in the settings of the app alone, and no address', async () => {
  const number = 'aca_12345678901234';
  const { app } = await taskWith(
    [299],
    { 'config.json': JSON.stringify({ license_number: number }) },
    'face',
  );
  const { texts = {}, manifest, about: readme, source: found } = app();
  // There are weights, but none of this task.
  expect(found).toBeNull();
  expect(JSON.parse(texts['.totalsegmentator/config.json'] ?? '').license_number).toBe(number);
  expect([manifest.description, readme, texts['task.json']].join('')).not.toContain(number);
  expect(manifest.description).toContain(
    'The weights need a licence, which is free for non-commercial use alone. Not a medical device.',
  );
  expect(texts['task.json']).toContain('"url": null');
  const wrong = await taskWith([], { 'config.json': `{"license_number": "${number}5"}` }, 'face');
  expect(wrong.app).toThrow(/config\.json' has a licence number that is none: get one at https:/);
});
