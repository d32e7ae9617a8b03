/**
 * `npm run bench:konfai [-- MEASURE... --runs N]`: KonfAI's server as a yardstick of ours, both real, by turns in one run. Prints the
 * table of bench/README.md: medians, the first round left out.
 */
import { parseArgs } from 'node:util';
import { interleave } from '../../../bench/support/interleave.mjs';
import { withPrograms, withStandIns } from '../environment.mjs';
import { startOurs, startTheirs } from '../servers.mjs';
import { say, session } from '../session.mjs';
import { firstLine, infer, loadedInfer, log, result, start, upload } from './measures.mjs';

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
