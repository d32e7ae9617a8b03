import { expect, test } from 'vitest';
import { monaiBundleApp } from '../../src/cli/apps/monai-bundle-app.js';
import { type Changes, plantedFolder, refusalOf } from '../support/model-folder.js';
import { bundleName, inference, metadata, monaiBundle, withData } from '../support/monai-bundle.js';
import { checkpoint } from '../support/nnunet-folder.js';

/** What `init --from` makes of a bundle. */
const appOf = (directory: string) =>
  monaiBundleApp({
    ...{ task: undefined, weights: undefined, environment: {}, root: process.cwd() },
    source: directory,
  });

/** Plants a bundle until the end of the test, with what is different in it. */
const bundle = (changes: Changes = {}) => plantedFolder(bundleName, monaiBundle(), changes);

const madeOf = async (changes: Changes) => appOf(await bundle(changes));

/** Why no app can be made of a bundle; empty if it can. */
const refusal = (directory: string) => refusalOf(appOf, directory);

const config = 'configs/inference.json';
const about = 'configs/metadata.json';

/** A bundle whose inference, or metadata, differs in these. */
const configured = (changes: object) => ({ [config]: { ...inference, ...changes } });
const described = (changes: object) => ({ [about]: { ...metadata, ...changes } });

test('Other weights that the configuration names are included, and must be complete', async () => {
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
  [{ format: 'labels' }, true],
  [{ format: 'labels', type: 'probabilities' }, false],
  [{ format: 'labels', spatial_shape: [96, 96] }, false],
  [{ format: 'segmentation', type: 'probabilities', spatial_shape: [] }, true],
  [{ format: 'image' }, false],
])(
  'A bundle with the output %j is a segmentation: %j',
  async (changes: { readonly format: string; readonly type?: string }, isOne) => {
    const why = refusal(await bundle({ [about]: withData('outputs', changes) }));
    expect(why).toBe(
      isOne
        ? ''
        : `'./configs/metadata.json' is not of a segmentation: the format of its output is '${changes.format}' ` +
            `(type '${changes.type ?? 'image'}'), and only 'segmentation' can be served`,
    );
  },
);

test.each([
  [{ channel_def: { 0: 'IMAGE' }, modality: 'MR' }, ['MR', 'HU']],
  [{ channel_def: { 0: '' }, modality: '' }, ['Image', 'HU']],
  [{ channel_def: null, modality: 'CT', format: 'x' }, ['CT', 'HU']],
  [{ channel_def: { 0: 'FLAIR' }, format: 'magnitude' }, ['FLAIR', undefined]],
  [{ channel_def: { 0: 'CTA' }, format: 'magnitude' }, ['CTA', undefined]],
  [{ num_channels: undefined, channel_def: { 0: 'T1' }, format: 'hounsfield' }, ['T1', 'HU']],
])('The only channel of %j is called and measured %j', async (changes, [name, unit]) => {
  const { inputs } = (await madeOf({ [about]: withData('inputs', changes) })).manifest;
  const [input] = Object.values(inputs as Record<string, { display_name: string; unit?: string }>);
  expect([input?.display_name, input?.unit]).toEqual([name, unit]);
});

test.each([
  [{ num_channels: 2, channel_def: { 0: 'a', 1: 'b', 2: 'c' } }, 'a, b, c'],
  [{ num_channels: 2, channel_def: { 0: 'a', 2: 'c' } }, 'a, c'],
  [{ num_channels: 2, channel_def: null }, 'none'],
])('The channels of %j are reported as unknown', async (changes, named) => {
  expect(refusal(await bundle({ [about]: withData('inputs', changes) }))).toBe(
    `'./configs/metadata.json' does not say what the 2 channels of its input are: 'channel_def' names ${named}; ` +
      'a network that needs clicks, or other data beside scans, cannot be served',
  );
});

test('The packages are those that a bundle names and its classes need, without duplicates', async () => {
  const network_def = { _target_: 'monai.networks.nets.SwinUNETR' };
  const linesOf = async (changes: Changes) =>
    ((await madeOf(changes)).texts?.['requirements.txt'] ?? '').split('\n').slice(8);
  expect(await linesOf(configured({ network_def }))).toEqual(['einops', '']);
  const named = {
    optional_packages_version: { Einops: '0.7', scikit_image: '0.20' },
    required_packages_version: { lpips: '0.1' },
  };
  expect(await linesOf({ ...configured({ network_def }), ...described(named) })).toEqual([
    ...['Einops>=0.7', 'scikit_image>=0.20', 'lpips>=0.1', ''],
  ]);
  const { texts = {} } = await madeOf(described({ monai_version: '1.6.1', pytorch_version: '2.9+cu118' }));
  expect(texts['requirements.txt']?.split('\n').slice(0, 3)).toEqual([
    'monai==1.6.1',
    'pytorch-ignite>=0.5,<0.6',
    'torch>=2.6,<3',
  ]);
});
