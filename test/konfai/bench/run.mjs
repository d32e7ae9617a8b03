/**
 * `npm run bench:konfai [-- MEASURE... --runs N]`: KonfAI's server as a yardstick of ours, both real, by turns in one run. Prints the
 * table of bench/README.md: medians, the first round left out.
 */

import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { curl } from '../../../bench/support/command.mjs';
import { GiB, randomFile } from '../../../bench/support/data.mjs';
import { interleave } from '../../../bench/support/interleave.mjs';
import { residentMemory } from '../../../bench/support/usage.mjs';
import { clients, runProgram } from '../clients.mjs';
import { withPrograms, withStandIns } from '../environment.mjs';
import { doing, logOf, reaches, submit } from '../jobs.mjs';
import { startOurs, startTheirs } from '../servers.mjs';
import { say, session } from '../session.mjs';

const prober = fileURLToPath(new URL('../../../bench/programs/probe-health.mjs', import.meta.url));

/** Seconds since a moment of `performance.now()`. */
const since = (moment) => (performance.now() - moment) / 1000;

/** Resolves when a job and its files are gone, so that one measurement's removal does not run into the next. */
async function removed(server, id) {
  for (let status = 200; status === 200; ) {
    status = (await server.fetch(`/jobs/${id}`)).status;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Uploads 1 GiB by curl, while another process asks for /health every 10 ms: the seconds, and its slowest answer. */
async function upload({ workshop, app }, server) {
  const file = await randomFile(workshop, GiB);
  const probe = workshop.start(process.execPath, [prober, `${server.url}/health`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const took = text(probe.stdout);
  const form = ['inputs=@', file, ';filename=scan.mha'].join('');
  const words = ['-F', 'inputs_groups=1', '-F', 'cpu=1', '-F', form, `${server.url}/apps/${app}/infer`];
  const { seconds, stdout } = await curl(workshop, words);
  const ended = once(probe, 'close');
  probe.stdin.end();
  await ended;
  await removed(server, JSON.parse(stdout).job_id);
  return { upload: seconds, health: Math.max(...JSON.parse(await took)) };
}

/** A job that prints 200,000 lines, its log read from the start: how many lines arrive, and after how many seconds all. */
async function log({ app }, server) {
  const startedAt = performance.now();
  const id = await submit(server, app, { cpu: '1', ...doing('LINES=200000') });
  const lines = await logOf(server, id, { limit: 120_000 });
  const seconds = since(startedAt);
  await removed(server, id);
  return { lines: lines.filter((line) => / of the log$/.test(line)).length, log: seconds };
}

/** The moment at which a line of a job's log arrives, and its stream, which is read on by `rest`. */
async function untilLine(server, id, wanted) {
  const response = await server.fetch(`/jobs/${id}/logs`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let all = '';
  while (!all.includes(wanted)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`The log of ${server.side} has no '${wanted}': ${all.slice(-500)}`);
    all += value;
  }
  const at = performance.now();
  const rest = async () => {
    while (!(await reader.read()).done);
  };
  return { at, rest };
}

/** Milliseconds from the submission of a small job to the first line that its command prints. */
async function firstLine({ app }, server) {
  const startedAt = performance.now();
  const id = await submit(server, app, { cpu: '1' });
  const { at, rest } = await untilLine(server, id, 'data: konfai-apps ');
  await rest();
  await removed(server, id);
  return { line: at - startedAt };
}

/** Seconds from the last act of an app that wrote 200 MB to the result on the client's disk. */
async function result({ workshop, app }, server) {
  const id = await submit(server, app, { cpu: '1', ...doing('MIB=191') });
  const { at, rest } = await untilLine(server, id, 'data: written');
  await rest();
  await reaches(server, id, 'done');
  const file = path.join(workshop.root, 'result.zip');
  await curl(workshop, ['--output', file, `${server.url}/jobs/${id}/result`]);
  const seconds = since(at);
  await rm(file);
  await removed(server, id);
  return { result: seconds };
}

/** Seconds of a whole infer with KonfAI's engine: from the start of the command to its end. */
async function inferBy(client, { workshop, root, app }, server) {
  const output = path.join(await workshop.directory('result'), 'Output');
  const operation = { theirs: ['infer', '-i', 'scan.mha'], ours: ['infer', '-i', 'scan.mha'] };
  const startedAt = performance.now();
  const { code, printed } = await runProgram(workshop, client.words(server, app, operation, output), root);
  if (code !== 0) throw new Error(`${client.name}, ${server.side}: ${printed.slice(-1000)}`);
  return since(startedAt);
}

/** The same by each client. */
async function infer(place, server) {
  const figures = {};
  for (const client of clients) figures[client.name] = await inferBy(client, place, server);
  return figures;
}

/** The same on a server of ours that has the engine loaded, by our client, and by theirs on theirs. */
async function loadedInfer(place, server) {
  const own = server.isLoaded ? 'our client' : 'their client';
  const client = clients.find(({ name }) => name === own);
  return { loaded: await inferBy(client, place, server) };
}

/** Seconds from the start of a server to its first answer, and MiB that it has in memory then. */
async function start({ startServer }) {
  const startedAt = performance.now();
  const server = await startServer();
  await (await server.fetch('/health')).text();
  const seconds = since(startedAt);
  const memory = residentMemory(server.pid);
  await server.stop();
  return { start: seconds, memory };
}

const { values: flags, positionals: words } = parseArgs({
  allowPositionals: true,
  options: { runs: { type: 'string', default: '3' } },
});
const rounds = Number(flags.runs);

/** What is measured: `real` with KonfAI's engine, the others with the program of `test/konfai/engine` in its place. */
const measures = [
  { name: 'start', measure: start },
  { name: 'upload', measure: upload },
  { name: 'first line', measure: firstLine },
  { name: 'log', measure: log },
  { name: 'result', measure: result },
  { name: 'infer', measure: infer, real: true },
  { name: 'loaded', measure: loadedInfer, real: true, isLoaded: true },
];

/** All of them, or those whose names were given. */
const isChosen = ({ name }) => words.length === 0 || words.includes(name);

/** The lines of the table: of which figure, in which unit. */
const lines = [
  ['start of the server to its first answer', 'start', 's'],
  ['memory of the idle server', 'memory', 'MiB'],
  ['upload of 1 GiB in one file, by curl', 'upload', 's'],
  ['slowest `/health` during that upload', 'health', 'ms'],
  ['submission to the first line of the log', 'line', 'ms'],
  ['lines that arrive of 200,000', 'lines', ''],
  ['seconds until the log of 200,000 lines has ended', 'log', 's'],
  ['end of the app to a result of 200 MB on disk, by curl', 'result', 's'],
  ['a whole infer by our client', 'our client', 's'],
  ['a whole infer by their client', 'their client', 's'],
  ['the same by the own client, the engine loaded', 'loaded', 's'],
];

const amount = (value, unit) => {
  if (unit === '') return Math.round(value).toLocaleString('en');
  return `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ${unit}`;
};

function tableOf({ ours, theirs }) {
  const measured = lines.filter(([, figure]) => figure in ours);
  const rows = measured.map(([what, figure, unit]) => [
    what,
    amount(ours[figure], unit),
    amount(theirs[figure], unit),
    (ours[figure] / theirs[figure]).toFixed(2),
  ]);
  const all = [['what', 'our server', 'their server', 'ratio'], ...rows];
  const widths = all[0].map((_, index) => Math.max(...all.map((row) => row[index].length)));
  const text = (row) => `| ${row.map((cell, index) => cell.padEnd(widths[index])).join(' | ')} |`;
  return [text(all[0]), text(widths.map((width) => '-'.repeat(width))), ...all.slice(1).map(text)].join('\n');
}

/** Both servers with an engine; jobs are gone a second after their end. */
function startersOf(workshop, app, { real: isReal = false, isLoaded = false }) {
  const env = { PATH: isReal ? withPrograms : withStandIns };
  const apps = [app];
  return {
    ours: () => startOurs(workshop, { apps, env, isLoaded, flags: ['--grace', isReal ? '120' : '1'] }),
    theirs: () =>
      startTheirs(workshop, { apps, env: { ...env, KONFAI_APPS_RESULT_RETENTION: isReal ? '600' : '1' } }),
  };
}

async function bench({ workshop, root, app }) {
  const figures = { ours: {}, theirs: {} };
  for (const { name, measure, ...how } of measures.filter(isChosen)) {
    const starters = startersOf(workshop, app, how);
    const servers = name === 'start' ? {} : { ours: await starters.ours(), theirs: await starters.theirs() };
    const sideOf = (side) => () =>
      measure({ workshop, root, app, startServer: starters[side] }, servers[side]);
    const sides = { ours: sideOf('ours'), theirs: sideOf('theirs') };
    const medians = await interleave(rounds, sides);
    for (const side of ['ours', 'theirs']) Object.assign(figures[side], medians[side]);
    for (const server of Object.values(servers)) await server.stop();
    say(`${name}: ${JSON.stringify(medians)}`);
  }
  process.stdout.write(`${tableOf(figures)}\n`);
}

if (!Number.isInteger(rounds) || rounds < 1) {
  say(`--runs ${flags.runs} is no number of rounds`);
  process.exit(2);
}
await session('konfai-bench', bench, process.env.REMOTE_APP_BENCH_DIR);
