import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { nnunetApp } from '../../src/cli/apps/nnunet-app.js';
import { totalsegmentatorApp } from '../../src/cli/apps/totalsegmentator-app.js';
import { type Changes, plantedFolder, refusalOf } from '../support/model-folder.js';
import { checkpoint, dataset, nnunetFolder, plans, resultsName } from '../support/nnunet-folder.js';
import { plant, temporary } from '../support/temporary.js';
import { networkOf, weightsOf } from '../support/totalsegmentator-weights.js';

const folder = (changes: Changes = {}, name = resultsName) =>
  plantedFolder(name, nnunetFolder(name), changes);

const source = { task: undefined, weights: undefined, environment: {}, root: process.cwd() };
const appOf = (directory: string) => nnunetApp({ ...source, source: directory });

const refusal = (directory: string) => refusalOf(appOf, directory);

const about = 'dataset.json';
const data = (changes: object) => ({ [about]: { ...dataset, ...changes } });
const labels = (given: object, order?: readonly number[]) =>
  data({ labels: given, ...(order && { regions_class_order: order }) });

test.each([
  [{ background: 0, liver: 2, ignore: 3 }, undefined, { 2: 'liver' }],
  [{ background: [0], liver: [1], tumour: 2 }, undefined, { 1: 'liver', 2: 'tumour' }],
  [{ background: 0, all: [0, 1, 2], core: 2 }, [5, 4], { 5: 'all', 4: 'core' }],
] as const)(
  'Labels of nnU-Net %j in the order %j are those of the results: %j',
  async (given, order, names) => {
    const { terminology } = appOf(await folder(labels(given, order))).manifest;
    const found = Object.entries(terminology as Record<string, { name: string }>);
    expect(Object.fromEntries(found.map(([value, { name }]) => [value, name]))).toEqual(names);
  },
);

const label = "the label 'liver' is not a whole number, nor a list of such";
test.each([
  [
    'a background of another value',
    labels({ background: 1, liver: 2 }),
    "there is no label 'background' of 0",
  ],
  ['a label of a part', labels({ background: 0, liver: 1.5 }), label],
  ['a label below 0', labels({ background: 0, liver: -1 }), label],
  ['a region of nothing', labels({ background: 0, liver: [] }), label],
  ['nothing to find', labels({ background: 0, ignore: 1 }), undefined],
])('%s is refused', async (_, changes, why) => {
  expect(refusal(await folder(changes))).toBe(
    why === undefined ? "'./dataset.json' has no label but the background" : `'./dataset.json': ${why}`,
  );
});

const three = { background: 0, whole: [1, 2], core: [2, 3], edge: 3 };
test.each([
  [
    'an order of fewer regions',
    labels(three, [1, 2]),
    "'./dataset.json' has 3 regions, and 'regions_class_order' has 2 values: there has to be one for each",
  ],
  [
    'an order of more regions',
    labels(three, [1, 2, 3, 4]),
    "'./dataset.json' has 3 regions, and 'regions_class_order' has 4 values: there has to be one for each",
  ],
  [
    'pictures',
    data({ file_ending: '.png' }),
    "'./dataset.json' has the file_ending '.png': only volumes can be served (.nii.gz, .nii, .nrrd, .mha, .gipl)",
  ],
  [
    'channels with a gap',
    data({ channel_names: { 0: 'CT', 2: 'PET' } }),
    "'./dataset.json' does not name its channels by 0, 1, 2 and so on: 'channel_names' has 0, 2",
  ],
  [
    'no channels at all',
    data({ channel_names: undefined }),
    "'./dataset.json' does not name its channels by 0, 1, 2 and so on: 'channel_names' has none",
  ],
  [
    'channels by their names',
    data({ channel_names: { CT: '0' } }),
    "'./dataset.json' is not of nnU-Net v2: channel_names.CT is not as nnU-Net v2 writes it",
  ],
  [
    'a list in place of a dataset',
    { [about]: '[]' },
    "'./dataset.json' is not of nnU-Net v2: its content is not as nnU-Net v2 writes it",
  ],
  [
    'a network without patches',
    { 'plans.json': { configurations: { '3d_fullres': {} } } },
    "'./plans.json' has no patch_size for '3d_fullres'",
  ],
  [
    'a cascade that another configuration passes on',
    {
      'plans.json': {
        configurations: {
          '3d_fullres': { inherits_from: 'a' },
          a: { patch_size: [9, 9, 9], previous_stage: '3d_lowres' },
        },
      },
    },
    "'3d_fullres' is the second network of a cascade, which needs the results of '3d_lowres': that cannot be served; " +
      "name the folder of '3d_lowres' or of '3d_fullres'",
  ],
  [
    'folds without weights',
    {
      'fold_0/checkpoint_final.pth': null,
      'fold_1/checkpoint_final.pth': null,
      'fold_0/checkpoint_best.pth': checkpoint,
    },
    "No fold of '.' has checkpoint_final.pth, which the end of a training writes: there is fold_0/checkpoint_best.pth",
  ],
  [
    'a fold of nnU-Net v1',
    { 'fold_0/model_best.model': checkpoint },
    "'.' is of nnU-Net v1 (model_final_checkpoint.model), whose weights v2 does not read: train it with nnU-Net v2",
  ],
])('%s is refused in a sentence', async (_, changes, sentence) => {
  expect(refusal(await folder(changes))).toBe(sentence);
});

test.each(['nnUNetTrainer__3d_fullres', '__nnUNetPlans__3d_fullres', 'a__b__3d_fullres__c', 'a__b__'])(
  'A folder called %s does not say its configuration',
  async (name) => {
    expect(refusal(await folder({}, name))).toBe(
      "The name of '.' does not say which configuration it has: give it back its name of nnU-Net, " +
        "TRAINER__PLANS__CONFIGURATION, such as 'nnUNetTrainer__nnUNetPlans__3d_fullres'",
    );
  },
);

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

test('A description has what the data set says of itself, and no more', async () => {
  const { manifest } = appOf(
    await folder(data({ description: 'Finds it!', reference: 'doi:1', licence: undefined, license: 'MIT' })),
  );
  const network = 'A network of nnU-Net v2 (3d_fullres, nnUNetTrainer, 2 folds).';
  expect(manifest.description).toBe(`Finds it! ${network} Reference: doi:1. Licence: MIT.`);
  const bare = appOf(await folder(data({ description: undefined, licence: undefined })));
  expect(bare.manifest.description).toBe(network);
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

test.each(['.nii.gz', '.nii', '.nrrd', '.mha', '.gipl'])('Results may be %s', async (file_ending) => {
  expect(appOf(await folder(data({ file_ending }))).about).toContain(`, and end with \`${file_ending}\`.`);
});

test('A network is found in a folder of results, and named by its place in it', async () => {
  const directory = await folder({}, `results/Dataset003/${resultsName}`);
  const results = path.dirname(path.dirname(directory));
  await plant(results, { 'Dataset003/notes.txt': '', 'Dataset004/dataset.json': '{}', 'dataset.txt': '' });
  const { source: found, notes } = appOf(results);
  expect([found, notes]).toEqual([
    directory,
    [`The network is Dataset003/${resultsName}, the only one in '${results}'`],
  ]);
  await plant(results, nnunetFolder('Dataset004/b__c__2d'));
  expect(refusal(results)).toBe(
    `'.' has several networks: name one of Dataset003/${resultsName}, Dataset004/b__c__2d`,
  );
  expect(plans.configurations['3d_fullres'].patch_size).toEqual(appOf(directory).manifest.patch_size);
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

test('The tasks that a slip is near to are told, three at the most', async () => {
  const { app } = await taskWith([], {}, 'vertebrae');
  expect(app).toThrow(/^TotalSegmentator has no task 'vertebrae'; did you mean '\w+' or '\w+' or '\w+'\?$/);
  const tasks = JSON.parse(readFileSync('templates/from/totalsegmentator/tasks.json', 'utf8')).tasks;
  const far = await taskWith([], {}, 'zzzzzzzzzzzzzzzz');
  expect(far.app).toThrow(
    `TotalSegmentator has no task 'zzzzzzzzzzzzzzzz'; there are ${Object.keys(tasks).join(', ')}`,
  );
});
