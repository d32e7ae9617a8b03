import { checkpoint } from './nnunet-folder.js';

export const bundleName = 'spleen_ct_segmentation';

export const metadata = {
  version: '0.5.9',
  monai_version: '1.4.0',
  pytorch_version: '2.4.0',
  optional_packages_version: { nibabel: '5.2.1', 'pytorch-ignite': '0.4.11' },
  name: 'Spleen CT segmentation',
  description: 'Finds the spleen in CT',
  copyright: 'Copyright (c) MONAI Consortium',
  network_data_format: {
    inputs: {
      image: {
        type: 'image',
        format: 'hounsfield',
        modality: 'CT',
        num_channels: 1,
        spatial_shape: [96, 96, 96],
        channel_def: { 0: 'image' },
      },
    },
    outputs: {
      pred: {
        type: 'image',
        format: 'segmentation',
        num_channels: 2,
        spatial_shape: [96, 96, 96],
        channel_def: { 0: 'background', 1: 'spleen' },
      },
    },
  },
};

/** The metadata with changed facts about its only input or output. */
export const withData = (which: 'inputs' | 'outputs', changes: object) => {
  const { inputs, outputs } = metadata.network_data_format;
  const changed =
    which === 'inputs'
      ? { inputs: { image: { ...inputs.image, ...changes } }, outputs }
      : { inputs, outputs: { pred: { ...outputs.pred, ...changes } } };
  return { ...metadata, network_data_format: changed };
};

/** An inference configuration as in the model zoo, without the irrelevant parts. */
export const inference = {
  imports: ['$import glob', '$import os'],
  bundle_root: '.',
  image_key: 'image',
  output_dir: "$@bundle_root + '/eval'",
  dataset_dir: '/workspace/data',
  device: "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
  network_def: { _target_: 'UNet', spatial_dims: 3, in_channels: 1, out_channels: 2 },
  network: '$@network_def.to(@device)',
  preprocessing: {
    _target_: 'Compose',
    transforms: [
      { _target_: 'LoadImaged', keys: '@image_key' },
      { _target_: 'EnsureChannelFirstd', keys: '@image_key' },
    ],
  },
  inferer: { _target_: 'SlidingWindowInferer', roi_size: [96, 96, 96], sw_batch_size: 4, overlap: 0.5 },
  postprocessing: {
    _target_: 'Compose',
    transforms: [
      { _target_: 'Activationsd', keys: 'pred', softmax: true },
      { _target_: 'Invertd', keys: 'pred', transform: '@preprocessing', orig_keys: '@image_key' },
      { _target_: 'AsDiscreted', keys: 'pred', argmax: true },
      { _target_: 'SaveImaged', keys: 'pred', output_dir: '@output_dir' },
    ],
  },
  handlers: [{ _target_: 'StatsHandler', iteration_log: false }],
  evaluator: {
    _target_: 'SupervisedEvaluator',
    device: '@device',
    network: '@network',
    inferer: '@inferer',
    postprocessing: '@postprocessing',
    val_handlers: '@handlers',
    amp: true,
  },
  checkpointloader: {
    _target_: 'CheckpointLoader',
    load_path: "$@bundle_root + '/models/model.pt'",
    load_dict: { model: '@network' },
  },
  initialize: ['$monai.utils.set_determinism(seed=123)', '$@checkpointloader(@evaluator)'],
  run: ['$@evaluator.run()'],
};

/** The files of a MONAI bundle, by name, for `plant`. */
export const monaiBundle = (name = bundleName): Record<string, string | Buffer> => ({
  [`${name}/configs/metadata.json`]: JSON.stringify(metadata),
  [`${name}/configs/inference.json`]: JSON.stringify(inference),
  [`${name}/configs/train.json`]: '{}',
  [`${name}/docs/README.md`]: '# Spleen',
  [`${name}/LICENSE`]: '\n      Apache License\n   Version 2.0, January 2004\n\nTERMS',
  [`${name}/models/model.pt`]: checkpoint,
  [`${name}/models/model.ts`]: checkpoint,
});
