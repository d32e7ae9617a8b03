/** How a PyTorch file of weights begins and ends. */
export const checkpoint = Buffer.concat([
  Buffer.from('PK\x03\x04', 'latin1'),
  Buffer.alloc(100),
  Buffer.from('PK\x05\x06', 'latin1'),
  Buffer.alloc(18),
]);

const segmentation = (name: string, required = true) => ({
  display_name: name,
  volume_type: 'SEGMENTATION',
  required,
});

/** What the `app.json` of every network says about its outputs and its evaluation. */
export const written = {
  outputs: { Labels: segmentation('Labels') },
  inputs_evaluations: {
    'Overlap and surface distance': {
      'Evaluation.yml': {
        Labels: segmentation('Predicted labels'),
        Truth: segmentation('True labels'),
        Mask: segmentation('Region to evaluate', false),
      },
    },
  },
};

export const dataset = {
  channel_names: { 0: 'CT' },
  labels: { background: 0, liver: 1, tumour: 2 },
  numTraining: 131,
  file_ending: '.nii.gz',
  description: 'Liver and tumours in CT',
  licence: 'CC-BY-SA 4.0',
};

export const plans = {
  plans_name: 'nnUNetPlans',
  configurations: {
    '2d': { patch_size: [512, 512] },
    '3d_lowres': { inherits_from: '3d_fullres', next_stage: '3d_cascade_fullres' },
    '3d_fullres': { patch_size: [128, 112, 96] },
    '3d_cascade_fullres': { inherits_from: '3d_fullres', previous_stage: '3d_lowres' },
  },
};

export const resultsName = 'nnUNetTrainer__nnUNetPlans__3d_fullres';

/** The files of an nnU-Net v2 results folder, by name, for `plant`. */
export const nnunetFolder = (name = resultsName): Record<string, string | Buffer> => ({
  [`${name}/dataset.json`]: JSON.stringify(dataset),
  [`${name}/plans.json`]: JSON.stringify(plans),
  [`${name}/fold_0/checkpoint_final.pth`]: checkpoint,
  [`${name}/fold_1/checkpoint_final.pth`]: checkpoint,
});
