/**
 * The fault harness: real servers, real jobs, real processes, and everything that can go wrong with them. It ends
 * with a table; exit code 0 says that not one promise was broken. It runs in mount and PID namespaces of its own, where these
 * can be had, and attacks only there.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { SlurmCluster } from '../support/slurm/cluster.mjs';
import { installMissing, whyNoCluster } from '../support/slurm/prerequisites.mjs';
import { Context } from './context.mjs';
import * as strangeApps from './families/apps.mjs';
import * as breakOut from './families/break-out.mjs';
import * as cohort from './families/cohort.mjs';
import * as descriptors from './families/descriptors.mjs';
import * as disk from './families/disk.mjs';
import * as input from './families/input.mjs';
import * as jsonSubmissions from './families/json.mjs';
import * as kill from './families/kill.mjs';
import * as load from './families/load.mjs';
import * as network from './families/network.mjs';
import * as powerCut from './families/power-cut.mjs';
import * as removal from './families/removal.mjs';
import * as requests from './families/requests.mjs';
import * as residents from './families/residents.mjs';
import * as runnerDeath from './families/runner-death.mjs';
import * as secrets from './families/secrets.mjs';
import * as serverDeath from './families/server-death.mjs';
import * as uploads from './families/uploads.mjs';
import { isContained, runContained } from './support/namespaces.mjs';
import { Random } from './support/random.mjs';

const usage = `Usage: npm run faults -- [--seed N] [--rounds N] [--only NAME,...] [--serial] [--keep]
                             [--executor local|slurm]

  --seed N      makes the random choices of an earlier run again; by default a new one
  --rounds N    how much of everything; 10 (the default) takes about six minutes, 0.5 some seconds
  --only NAMES  these families alone
  --serial      one family after the other, instead of three lanes side by side
  --keep        leaves the scratch directory behind
  --executor X  where jobs run: on this machine (local, the default), or on a Slurm cluster that is started for the run
                (slurm), over which these families go: server-death`;

/** The families whose cases are those of every executor, and not of this machine's processes, disks and GPUs. */
const ofEveryExecutor = ['server-death'];

/** The command line of the harness; ends the process where it is wrong. */
function readOptions(families, words) {
  const fail = (problem) => {
    console.error(`${problem}\n\n${usage}\n\nFamilies: ${families.join(', ')}`);
    process.exit(2);
  };
  let values;
  try {
    ({ values } = parseArgs({
      args: words,
      options: {
        seed: { type: 'string', default: String(Date.now() % 1_000_000) },
        rounds: { type: 'string', default: '10' },
        only: { type: 'string' },
        executor: { type: 'string', default: 'local' },
        serial: { type: 'boolean', default: false },
        keep: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }));
  } catch (cause) {
    return fail(cause.message);
  }
  if (values.help) {
    console.log(usage);
    process.exit(0);
  }
  if (!['local', 'slurm'].includes(values.executor)) fail(`There is no executor '${values.executor}'`);
  const possible = values.executor === 'local' ? families : ofEveryExecutor;
  const only = values.only?.split(',') ?? possible;
  const unknown = only.filter((name) => !families.includes(name));
  if (unknown.length > 0) fail(`There is no family '${unknown[0]}'`);
  const local = only.filter((name) => !possible.includes(name));
  if (local.length > 0) fail(`The family '${local[0]}' does not go over the executor '${values.executor}'`);
  if (!(Number(values.rounds) > 0)) fail('--rounds must be a number above 0');
  if (!/^\d+$/.test(values.seed)) fail('--seed must be a number');
  return { ...values, rounds: Number(values.rounds), only };
}

const mebibyte = 2 ** 20;

const units = {
  bytes: (value) => `${(value / mebibyte).toFixed(0)} MiB`,
  ms: (value) => `${value.toFixed(value < 100 ? 1 : 0)} ms`,
  count: (value) => String(value),
};

function rows(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  const cell = (text, column) => (column === 0 ? text.padEnd(widths[0]) : text.padStart(widths[column]));
  return lines.map((line) => line.map(cell).join('   ').trimEnd());
}

/** The table at the end of a run: kinds of fault, their numbers, violations and figures. */
function table(contexts, figures) {
  const faults = contexts.flatMap(({ name, counts, violations }) => [
    [name, '', String(violations.length)],
    ...[...counts].map(([kind, count]) => [`  ${kind}`, String(count), '']),
  ]);
  const all = contexts.reduce((sum, { violations }) => sum + violations.length, 0);
  const lines = rows([['Kind of fault', 'How many', 'Violations'], ...faults, ['All', '', String(all)]]);
  const notes = contexts.flatMap(({ name, notes: own }) => own.map((note) => `${name}: ${note}`));
  const shown = [...figures].map(([name, { value, unit }]) => [name, units[unit](value)]);
  return [
    ...lines,
    '',
    ...rows([['Figure', 'Value'], ...shown]),
    ...(notes.length > 0 ? ['', ...notes] : []),
  ];
}

/** Lanes that take about the same time, side by side: a case mostly waits. */
const lanes = [
  { 'server-death': serverDeath, 'runner-death': runnerDeath, disk, 'power-cut': powerCut, residents },
  { network, input, load, secrets, kill, requests, json: jsonSubmissions, apps: strangeApps },
  { removal, descriptors, uploads, 'break-out': breakOut, cohort },
];
const families = Object.assign({}, ...lanes);
const all = Object.keys(families);
const options = readOptions(all, process.argv.slice(2));
if (options.executor === 'local' && !isContained()) {
  const code = await runContained();
  if (code !== null) process.exit(code);
}
let cluster = null;
// An interrupted run ends by `exit`, whose handlers end its servers and unmount its disks.
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    await cluster?.stop();
    process.exit(130);
  });
}
if (options.executor === 'slurm') {
  installMissing();
  const why = whyNoCluster();
  if (why !== null) {
    console.log(`skipped: ${why}`);
    process.exit(0);
  }
  cluster = await SlurmCluster.start();
}
const root = mkdtempSync(path.join(tmpdir(), 'remote-app-faults-'));
const figures = new Map();
const began = performance.now();
const seconds = () => `${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s`;
const say = (text) => console.error(`${seconds()}  ${text}`);

say(`--seed ${options.seed} --rounds ${options.rounds}, executor ${options.executor}, scratch in ${root}`);
const random = new Random(options.seed);
const contexts = new Map(
  options.only.map((name) => [
    name,
    new Context({
      name,
      random: random.fork(name),
      rounds: options.rounds,
      scratch: path.join(root, name),
      figures,
      cluster,
      say,
    }),
  ]),
);

async function inTurn(chosen) {
  for (const name of chosen) {
    const context = contexts.get(name);
    if (context === undefined) continue;
    say(`[${name}] begins`);
    await context.attempt('The family broke off', () => families[name].run(context));
    say(`[${name}] ends, ${context.violations.length} violations`);
  }
}

await (options.serial ? inTurn(all) : Promise.all(lanes.map((lane) => inTurn(Object.keys(lane)))));

await cluster?.stop();
const violations = [...contexts.values()].reduce((sum, each) => sum + each.violations.length, 0);
console.log(table([...contexts.values()], figures).join('\n'));
console.log(
  `\n--seed ${options.seed} --rounds ${options.rounds}: ${violations} violations in ${seconds().trim()}`,
);
if (options.keep) say(`Left behind: ${root}`);
else rmSync(root, { recursive: true, force: true });
process.exitCode = violations === 0 ? 0 : 1;
