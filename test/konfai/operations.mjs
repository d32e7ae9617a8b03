/**
 * The rows of the matrix: each operation, and each form of volume that KonfAI reads, as both clients spell it. Paths are
 * relative to what `make.py` made. The app, the server, the output and the CPU are added by `clients.mjs`.
 */
export const operations = [
  {
    name: 'infer .mha',
    theirs: ['infer', '-i', 'scan.mha', '--ensemble_models', 'first', 'second', '-uncertainty'],
    ours: ['infer', '-i', 'scan.mha', '--ensemble-models', 'first,second', '--uncertainty'],
    writes: /Contrast\.mha$/,
  },
  {
    name: 'infer .nii.gz, options',
    theirs: [
      ...['infer', '-i', 'scan.nii.gz', '--ensemble', '1', '--patch-size', '1', '8', '8'],
      ...['--batch-size', '2', '--max-voxels', '100000', '--set', 'gain=2.0'],
    ],
    ours: [
      ...['infer', '-i', 'scan.nii.gz', '--ensemble', '1', '--patch-size', '1,8,8'],
      ...['--batch-size', '2', '--max-voxels', '100000', '--set', 'gain=2.0'],
    ],
    writes: /Contrast\.mha$/,
  },
  {
    name: 'infer DICOM series',
    theirs: ['infer', '-i', 'series'],
    ours: ['infer', 'series'],
    writes: /Contrast\/000003\.dcm$/,
  },
  {
    name: 'infer two series',
    theirs: ['infer', '-i', 'patients'],
    ours: ['infer', 'patients'],
    writes: /P001\/Contrast\/000003\.dcm$/,
  },
  {
    name: 'infer OME-Zarr store',
    theirs: ['infer', '-i', 'scan.ome.zarr'],
    ours: ['infer', 'scan.ome.zarr'],
    writes: /Contrast\.ome\.zarr\/zarr\.json$/,
  },
  {
    name: 'evaluate',
    theirs: ['eval', '-i', 'scan.mha', '--gt', 'reference.mha', '--mask', 'mask.mha'],
    ours: ['evaluate', '-i', 'scan.mha', '--gt', 'reference.mha', '--mask', 'mask.mha'],
    writes: /Metric_TRAIN\.json$/,
  },
  {
    name: 'uncertainty',
    theirs: ['uncertainty', '-i', 'stack.mha'],
    ours: ['uncertainty', '-i', 'stack.mha'],
    writes: /Spread\.mha$/,
  },
  {
    name: 'pipeline',
    theirs: [
      ...['pipeline', '-i', 'scan.mha', '--gt', 'reference.mha', '--mask', 'mask.mha'],
      ...['--ensemble', '2', '-uncertainty'],
    ],
    ours: [
      ...['pipeline', '-i', 'scan.mha', '--gt', 'reference.mha', '--mask', 'mask.mha'],
      ...['--ensemble', '2'],
    ],
    writes: /Uncertainties\/Contrast\/Metric_TRAIN\.json$/,
  },
  {
    name: 'fine-tune',
    theirs: [
      ...['fine-tune', 'Tuned', '-d', 'dataset', '--epochs', '2', '--it-validation', '1'],
      ...['--models', 'second', '--lr', '0.005', '--batch-size', '2', '--set', 'gain=1.5'],
    ],
    ours: [
      ...['fine-tune', '--name', 'Tuned', '-d', 'dataset', '--epochs', '2', '--it-validation', '1'],
      ...['--models', 'second', '--lr', '0.005', '--batch-size', '2', '--set', 'gain=1.5'],
    ],
    writes: /second\.pt$/,
  },
];

/** What the app's configuration does not have: the engine refuses it, and says so in a sentence of its own. */
export const refused = {
  name: 'a refusal',
  theirs: ['infer', '-i', 'scan.mha', '--set', 'gian=2.0'],
  ours: ['infer', '-i', 'scan.mha', '--set', 'gian=2.0'],
  sentence: /gian/,
};
