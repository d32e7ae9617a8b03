import { expect, test } from 'vitest';
import type { Changes } from '../support/model-folder.js';
import { withData } from '../support/monai-bundle.js';
import { about, bundle, configured, described, madeOf, refusal } from './support/monai-bundle.js';

test.each([
  [{ format: 'labels' }, true],
  [{ format: 'labels', type: 'probabilities' }, false],
  [{ format: 'labels', spatial_shape: [96, 96] }, false],
  [{ format: 'segmentation', type: 'probabilities', spatial_shape: [] }, true],
  [{ format: 'image' }, false],
])(
  'A bundle whose output is %j is a segmentation: %j',
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

test('Slices of a volume are served, pictures are not', async () => {
  const slices = { [about]: withData('inputs', { spatial_shape: [256, 256] }) };
  const inferer = { _target_: 'monai.inferers.SliceInferer', roi_size: [64, 64] };
  const { manifest } = await madeOf({ ...slices, ...configured({ inferer }) });
  expect(manifest.patch_size).toEqual([64, 64]);
  const sentence = (type: string, format: string, size: number) =>
    `'./configs/metadata.json' is of pictures (type '${type}', format '${format}', ${size}D): only volumes can be served`;
  expect(refusal(await bundle(slices))).toBe(sentence('image', 'hounsfield', 2));
  expect(refusal(await bundle({ [about]: withData('inputs', { format: 'RGBA' }) }))).toBe(
    sentence('image', 'RGBA', 3),
  );
  expect(refusal(await bundle({ [about]: withData('inputs', { type: 'object' }) }))).toBe(
    sentence('object', 'hounsfield', 3),
  );
});

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
])('The channels of %j are not known', async (changes, named) => {
  expect(refusal(await bundle({ [about]: withData('inputs', changes) }))).toBe(
    `'./configs/metadata.json' does not say what the 2 channels of its input are: 'channel_def' names ${named}; ` +
      'a network that needs clicks, or other data beside scans, cannot be served',
  );
});

test.each([
  [{ inferer: { _target_: 'SlidingWindowInfererAdapt', roi_size: '@size' }, size: [8, 8, 4] }, [8, 8, 4]],
  [{ inferer: { _target_: 'SlidingWindowInferer', roi_size: [-1, 8, 8] } }, [96, 96, 96]],
  [{ inferer: { _target_: 'SlidingWindowInferer', roi_size: [] } }, [96, 96, 96]],
  [{ inferer: { _target_: 'SimpleInferer' } }, [96, 96, 96]],
])('The patches of %j are %j', async (changes, size) => {
  expect((await madeOf(configured(changes))).manifest.patch_size).toEqual(size);
});

test('There are no patches where nothing says their size', async () => {
  const { manifest } = await madeOf({
    ...configured({ inferer: undefined }),
    [about]: withData('inputs', { spatial_shape: ['*', '*', '*'] }),
  });
  expect(manifest).not.toHaveProperty('patch_size');
  expect(manifest.parameters).toEqual({});
});

test.each([
  [{}, { overlap: 0.25, sw_batch_size: 1 }],
  [{ overlap: '@half', sw_batch_size: '$torch.cuda.device_count()' }, { overlap: 0.5 }],
  [{ overlap: [0.5, 0.5, 0], sw_batch_size: 2 }, { sw_batch_size: 2 }],
])('Of an inferer with %j a person may set %j', async (more, defaults) => {
  const inferer = { _target_: 'SlidingWindowInferer', roi_size: [9, 9, 9], ...more };
  const { parameters } = (await madeOf(configured({ inferer, half: 0.5 }))).manifest;
  const found = Object.entries(parameters as Record<string, { default: number }>);
  expect(Object.fromEntries(found.map(([name, { default: value }]) => [name, value]))).toEqual(defaults);
});

const bundleOfMonai = 'A bundle of MONAI: Spleen CT segmentation, version 0.5.9.';
test.each([
  [
    { license: 'MIT', intended_use: 'Not for patients' },
    `Finds the spleen in CT. ${bundleOfMonai} Not for patients. Copyright (c) MONAI Consortium. Licence: MIT.`,
  ],
  [
    { description: '', task: 'Segments it', copyright: '' },
    `Segments it. ${bundleOfMonai} Licence: Apache License Version 2.0, January 2004.`,
  ],
])('A bundle with %j is described', async (changes, description) => {
  expect((await madeOf(described(changes))).manifest.description).toBe(description);
});

test.each([
  [{ LICENSE: null, 'LICENSE.md': 'MIT License\n\nCopyright (c) 2024\n' }, 'MIT License'],
  [{ LICENSE: null, 'LICENSE.txt': 'GNU\nVersion 3' }, 'GNU Version 3'],
  [{ LICENSE: null }, ''],
])('A licence in %j is told by how it begins: %j', async (files, licence) => {
  const { manifest, copies } = await madeOf(files);
  expect(/(?: Licence: (.*)\.)?$/.exec(String(manifest.description))?.[1] ?? '').toBe(licence);
  const [name] = Object.keys(files).filter((each) => each !== 'LICENSE');
  expect(Object.keys(copies).filter((file) => file.includes('LICENSE'))).toEqual(
    name === undefined ? [] : [`bundle/${name}`],
  );
});

test.each([
  [{}, 'Spleen CT segmentation'],
  [{ task: 'Segments it' }, 'Segments it'],
  [{ name: '' }, 'A segmentation by MONAI'],
])('A bundle with %j and labels without names is shown as %j', async (more, shown) => {
  const { network_data_format } = withData('outputs', { channel_def: null });
  const { short_description } = (await madeOf(described({ ...more, network_data_format }))).manifest;
  expect(short_description).toBe(shown);
});

test('Packages are those that a bundle names and its classes need, each once', async () => {
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

test.each(['NibabelReader', 'ITKReader'])('Scans are read with %s', async (reader) => {
  const transforms = [{ _target_: 'LoadImaged', keys: ['image'], reader }];
  const { texts = {} } = await madeOf(configured({ preprocessing: { transforms } }));
  expect((texts['requirements.txt'] ?? '').split('\n').includes('itk')).toBe(reader === 'ITKReader');
});
