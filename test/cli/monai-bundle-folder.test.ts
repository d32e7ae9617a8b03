import { truncateSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { BundleConfig } from '../../src/cli/apps/monai-bundle-config.js';
import type { Changes } from '../support/model-folder.js';
import { inference, metadata, monaiBundle, withData } from '../support/monai-bundle.js';
import { checkpoint } from '../support/nnunet-folder.js';
import { plant } from '../support/temporary.js';
import {
  about,
  appOf,
  bundle,
  config,
  configured,
  described,
  madeOf,
  refusal,
} from './support/monai-bundle.js';

test('Code, licences and the configurations that inference names are copied, and nothing else', async () => {
  const directory = await bundle({
    ...configured({ table: 'configs/labels.json' }),
    'configs/labels.json': '{}',
    'configs/logging.conf': '',
    'docs/data_license.txt': 'CC-BY',
    'helper.py': '',
    'scripts/net.py': '',
    'scripts/atlas.nii.gz': '',
    'scripts/huge.bin': '',
    'scripts/large.bin': '',
    'samples/scan.nii.gz': '',
    'requirements.txt': 'torch',
  });
  truncateSync(path.join(directory, 'scripts/huge.bin'), (16 << 20) + 1);
  truncateSync(path.join(directory, 'scripts/large.bin'), 16 << 20);
  const { copies, weights, notes } = appOf(directory);
  const files = [
    ...['LICENSE', 'configs/inference.json', 'configs/labels.json', 'configs/metadata.json'],
    ...['docs/data_license.txt', 'helper.py', 'scripts/atlas.nii.gz', 'scripts/large.bin', 'scripts/net.py'],
  ];
  expect(Object.entries(copies).sort()).toEqual(
    files.map((file) => [`bundle/${file}`, path.join(directory, file)]),
  );
  expect(weights).toEqual({ 'bundle/models/model.pt': path.join(directory, 'models/model.pt') });
  expect(notes).toEqual([
    'models/model.ts is left out: configs/inference.json does not load it',
    'scripts/huge.bin is left out: it is larger than 16 MiB',
  ]);
});

test('Other weights that the configuration names are taken along, and have to be whole', async () => {
  const changes = configured({ search: "$torch.load(@bundle_root + '/models/search.pt')" });
  const directory = await bundle({ ...changes, 'models/search.pt': checkpoint, 'models/old.ckpt': 'x' });
  const { weights, manifest, notes } = appOf(directory);
  expect(Object.keys(weights)).toEqual(['bundle/models/search.pt', 'bundle/models/model.pt']);
  expect(manifest.models).toEqual(['model.pt']);
  expect(notes.toSorted()).toEqual([
    'models/model.ts is left out: configs/inference.json does not load it',
    'models/old.ckpt is left out: configs/inference.json does not load it',
  ]);
  expect(refusal(await bundle({ ...changes, 'models/search.pt': 'x', 'large_files.yaml': '' }))).toBe(
    "'./models/search.pt' cannot be used: it is not a checkpoint of PyTorch: " +
      "'python -m monai.bundle download_large_files --bundle_path .' downloads it",
  );
});

const loader = (load_path: unknown) =>
  configured({ checkpointloader: { _target_: 'CheckpointLoader', load_path } });

test.each([
  ['models/model.pt', 'model.pt'],
  ["$@bundle_root + '/' + 'models' + '/model.pt'", 'model.pt'],
  ['$os.path.join(@bundle_root, "models", "model.ts")', 'model.ts'],
  ["$'/none/model.pt' if @is_other else @path", 'model.pt'],
])('The weights at %j are %s', async (load_path, name) => {
  const { checkpointloader } = loader(load_path)[config] as { checkpointloader: object };
  const more = { checkpointloader, is_other: false, path: './models/model.pt' };
  expect((await madeOf(configured(more))).manifest.models).toEqual([name]);
});

test.each([
  [
    'two loaders',
    configured({ more: [inference.checkpointloader] }),
    "'./configs/inference.json' has 2 CheckpointLoaders, and needs one, which loads its weights",
  ],
  [
    'weights beside the bundle',
    loader('../model.pt'),
    "'./configs/inference.json' loads weights from outside of the bundle, '../model.pt': copy them into its folder 'models'",
  ],
  [
    'weights that Python finds',
    loader('$find("model.pt")'),
    "'./configs/inference.json' does not say where its weights are in a way that is understood: " +
      `write "$@bundle_root + '/models/model.pt'" for 'load_path'`,
  ],
  [
    'weights by a choice that is no choice',
    loader("$'models/model.pt' if @name else 'models/model.pt'"),
    "'./configs/inference.json' does not say where its weights are in a way that is understood: " +
      `write "$@bundle_root + '/models/model.pt'" for 'load_path'`,
  ],
  [
    'two readers of scans',
    configured({
      preprocessing: {
        transforms: [
          { _target_: 'LoadImaged', keys: 'image' },
          { _target_: 'LoadImaged', keys: 'image' },
        ],
      },
    }),
    "'./configs/inference.json' does not read its scans by one LoadImaged of the key 'image': that cannot be served",
  ],
  [
    'scans of another name',
    configured({ image_key: 'scan' }),
    "'./configs/inference.json' does not read its scans by one LoadImaged of the key 'image': that cannot be served",
  ],
  [
    'no preprocessing',
    configured({ preprocessing: undefined }),
    "'./configs/inference.json' has no 'preprocessing', which inference needs: it is laid out in another way",
  ],
  [
    'two results',
    configured({ more: { _target_: 'monai.transforms.SaveImaged', keys: 'x' } }),
    "'./configs/inference.json' does not write its labels by one SaveImaged: that cannot be served",
  ],
  [
    'two evaluators',
    configured({ more: { _target_: 'SupervisedEvaluator' } }),
    "'./configs/inference.json' has the evaluator 'SupervisedEvaluator': only MONAI's own SupervisedEvaluator can be served",
  ],
  [
    'two inputs',
    described({ network_data_format: { ...metadata.network_data_format, inputs: { a: {}, b: {} } } }),
    "'./configs/metadata.json' has 2 inputs (a, b): only a bundle with one input, of one or more channels, can be served",
  ],
  [
    'no output',
    described({ network_data_format: { ...metadata.network_data_format, outputs: {} } }),
    "'./configs/metadata.json' has 0 outputs: only a bundle with one output, of one or more channels, can be served",
  ],
  [
    'a part of metadata that is odd',
    { [about]: withData('inputs', { num_channels: -1 }) },
    "'./configs/metadata.json': network_data_format.inputs.image.num_channels is not as MONAI writes it",
  ],
  [
    'no configuration at all',
    { [config]: null, 'configs/train.json': null, 'configs/notes.txt': '' },
    "'.' has no configuration of inference, configs/inference.json or configs/inference.yaml: configs has none",
  ],
])('A bundle with %s is refused in a sentence', async (_, changes: Changes, sentence) => {
  expect(refusal(await bundle(changes))).toBe(sentence);
});

test.each([
  ['scripts.net.Net', { 'scripts/net.py': '' }, {}],
  ['helper.Net', { 'helper.py': '' }, {}],
  ['skimage.Net', {}, { 'scikit-image': '0.2' }],
  ['my_lab.Net', {}, { 'My-Lab': '' }],
  ['Net', {}, {}],
])('Code called %s is found', async (_target_, files, required_packages_version) => {
  const changes = {
    ...configured({ network_def: { _target_ } }),
    ...described({ required_packages_version }),
  };
  expect(refusal(await bundle({ ...changes, ...files }))).toBe('');
});

test.each([
  [{ imports: ['$import os, sys', '$import  lab as l, os'] }, 'lab'],
  [{ imports: ['$from lab.io import read'] }, 'lab.io'],
  [{ network_def: { _target_: 'lab.Net' } }, 'lab.Net'],
])('Code of %j is not found', async (changes, name) => {
  expect(refusal(await bundle(configured(changes)))).toBe(
    `'./configs/inference.json' uses '${name}', which is code outside of the bundle: copy it into the bundle's folder 'scripts', ` +
      "or name its package in 'required_packages_version' of metadata.json",
  );
});

test('Handlers and steps that the app does not take are told, each once', async () => {
  const val_handlers = [{ _target_: 'lab.A' }, { _target_: 'ignite.B' }, 'text'];
  const { evaluator } = inference;
  const { notes } = await madeOf({
    ...configured({
      handlers: [{ _target_: 'ignite.B' }, { _target_: 'StatsHandler' }],
      val_handlers: [{ _target_: 'C' }],
      evaluator: { ...evaluator, val_handlers },
      initialize: ['$torch.backends.cudnn.benchmark', '$@checkpointloader(@evaluator)', '$start()'],
    }),
    'models/model.ts': null,
    'lab.py': '',
  });
  expect(notes).toEqual([
    ...['B', 'C', 'A'].map((name) => `The handler ${name} of configs/inference.json is left out`),
    "The step '$start()' of 'initialize' in configs/inference.json is left out",
  ]);
});

test.each([
  ['the folder of the weights', 'models', "'.' is a part of a bundle: name the folder above it, '..'"],
  ['the folder of the pages', 'docs', "'.' is a part of a bundle: name the folder above it, '..'"],
])('%s is refused', async (_, name, sentence) => {
  expect(refusal(path.join(await bundle(), name))).toBe(sentence);
});

test('What is around bundles is refused with what to name', async () => {
  const directory = await bundle();
  const above = path.dirname(directory);
  await plant(above, monaiBundle('other'));
  const both = [path.join(above, 'other'), directory];
  expect(refusal(above)).toMatch(/^'\.' is not a bundle, but has 2 bundles: name /);
  for (const each of both) expect(refusal(above)).toContain(each.replace(above, '.'));
  await plant(above, { 'got/A.ZIP': 'PK', 'half/A.zip': 'PK', 'half/configs/x': '' });
  expect(refusal(path.join(above, 'got'))).toBe(
    "'.' has an archive and no bundle: unpack 'A.ZIP', and name the folder with configs in it",
  );
  expect(refusal(path.join(above, 'half'))).toBe(
    "'.' is not a bundle of MONAI: it has no metadata.json in configs",
  );
});

test('Values of a configuration are read as far as they are no code', async () => {
  const directory = await bundle(
    configured({ a: { b: [1, '@c'] }, c: "$'x' + @d", d: 'y', e: '@e', f: '$CommonKeys.PRED', g: '$"z"' }),
  );
  const read = new BundleConfig(directory);
  const values = ['@a#b#1', '@a::b::0', '@f', '@g', '@none', '@a#b#2', '$f(1)', 'plain', 7].map((each) =>
    read.valueOf(each),
  );
  expect(values).toEqual(['xy', 1, 'pred', 'z', undefined, undefined, undefined, 'plain', 7]);
  expect(read.valueOf('@e')).toBeUndefined();
  expect(read.valueOf("$@d if @yes else 'n'")).toBeUndefined();
  expect(read.valueOf('@bundle_root')).toBe(directory);
});
