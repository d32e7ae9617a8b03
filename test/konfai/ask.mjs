import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { argumentsOf, readProcess, runningProcesses } from '../support/processes.mjs';
import { until } from '../support/until.mjs';
import { differences } from './differences/index.mjs';
import { programOf, withStandIns } from './environment.mjs';
import { startOurs, startTheirs } from './servers.mjs';

const execute = promisify(execFile);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

/** Constants of KonfAI's server that no answer shows, as integers. */
async function constantsOf(...names) {
  const values = names.map((name) => `int(app_server.${name})`).join(', ');
  const source = `from konfai_apps import app_server; print(${values})`;
  return (await execute(programOf('python'), ['-c', source])).stdout.trim().split(' ');
}

async function limitsOfTheirs() {
  const names = ['MAX_ACTIVE_JOBS', 'MAX_FILE_BYTES', 'MAX_TOTAL_BYTES', 'MAX_SSE_GLOBAL', 'SSE_HEARTBEAT_S'];
  const [jobs, file, upload, streams, seconds] = await constantsOf(...names);
  return `${jobs}, ${file / 2 ** 30}GiB, ${upload / 2 ** 30}GiB, ${streams}, ${seconds}`;
}

const serveFlags = () =>
  JSON.parse(readFileSync(here('../../oclif.manifest.json'), 'utf8')).commands.serve.flags;

const datasetLimit = {
  ours: async () => serveFlags()['max-dataset-size'].default ?? 'none',
  theirs: async () => `${(await constantsOf('MAX_DATASET_BYTES'))[0] / 2 ** 30}GiB`,
};

async function limitsOfOurs() {
  const flags = serveFlags();
  const { maxStreams } = await import('../../dist/server/settings.js');
  const names = ['max-jobs', 'max-file-size', 'max-upload-size', 'keepalive'];
  const [jobs, file, upload, seconds] = names.map((name) => flags[name].default);
  return `${jobs}, ${file}, ${upload}, ${maxStreams}, ${seconds}`;
}

/** The nice value of the command of a job: the process whose arguments have the job's id and the engine. */
async function niceOf(id) {
  const isOfJob = (words) =>
    words.some((word) => word.includes(id)) && words.some((word) => word.endsWith('konfai-apps'));
  const find = () => runningProcesses().find((each) => isOfJob(argumentsOf(each)));
  const stat = readProcess(await until(`the process of job ${id} runs`, find), 'stat');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16];
}

/** What the server's environment has to make two GPUs seen. */
const gpuEnvironment = (count) =>
  count === 0 ? {} : { CUDA_VISIBLE_DEVICES: '0,1', FAKE_GPUS: String(count), PYTHONPATH: here('hardware') };

/**
 * What the questions of `differences` are asked with, of one side.
 * @param place `workshop`; `app` and `brokenApp`: directories of apps, which are their identifiers
 * @param isOurs the side
 */
async function sideOf({ workshop, app, brokenApp }, isOurs) {
  const startServer = isOurs ? startOurs : startTheirs;
  const start = ({ gpus = 0, grace, dataDirectory, token = 'secret', auth, tokenVariable } = {}) => {
    const graceFlags = grace === undefined || !isOurs ? [] : ['--grace', String(grace)];
    const retention = grace === undefined ? {} : { KONFAI_APPS_RESULT_RETENTION: String(grace) };
    return startServer(workshop, {
      apps: [app, brokenApp],
      token,
      auth,
      tokenVariable,
      dataDirectory: dataDirectory && path.join(workshop.root, dataDirectory),
      flags: graceFlags,
      env: { PATH: withStandIns, ...gpuEnvironment(gpus), ...retention },
    });
  };
  return {
    app,
    brokenApp,
    start,
    server: await start(),
    niceOf,
    constant: async (name) => (await constantsOf(name))[0],
    limits: isOurs ? limitsOfOurs : limitsOfTheirs,
    datasetLimit: isOurs ? datasetLimit.ours : datasetLimit.theirs,
  };
}

const appFiles = fileURLToPath(new URL('app', import.meta.url));

/** The apps that the questions need: the test's own, and one whose `app.json` lacks what has to be there. */
async function makeApps(workshop) {
  const root = await workshop.directory('asked');
  const [app, brokenApp] = [path.join(root, 'Contrast'), path.join(root, 'Broken')];
  for (const directory of [app, brokenApp]) await cp(appFiles, directory, { recursive: true });
  await writeFile(path.join(brokenApp, 'app.json'), '{ "display_name": "Broken" }');
  return { app, brokenApp };
}

/**
 * Asks both servers every question of the table of differences.
 * @param say called with a line for each question
 * @returns a sentence for each answer that the table does not have
 */
export async function askDifferences(workshop, say) {
  const place = { workshop, ...(await makeApps(workshop)) };
  const [theirs, ours] = [await sideOf(place, false), await sideOf(place, true)];
  const faults = [];
  for (const row of Object.values(differences).flat()) {
    const answers = [];
    for (const side of [theirs, ours]) {
      answers.push(await row.probe(side).catch(({ message }) => `the question failed: ${message}`));
    }
    const wrong = answers.flatMap((answer, index) =>
      answer === null || answer === row.seen[index]
        ? []
        : [`${row.what}: ${[theirs, ours][index].server.side} gave '${answer}', not '${row.seen[index]}'`],
    );
    faults.push(...wrong);
    const asked = answers.includes(null) ? 'not asked: this machine cannot show it' : 'ok';
    say(`${row.what}: ${wrong.length === 0 ? asked : 'FAILED'}`);
  }
  await Promise.all([theirs.server.stop(), ours.server.stop()]);
  return faults;
}
