/**
 * The fault harness: real servers, real jobs, real processes, and everything that can go wrong with them. It ends
 * with a table; exit code 0 says that not one promise was broken. It runs in mount and PID namespaces of its own, where these
 * can be had, and attacks only there.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { SlurmCluster } from '../support/slurm/cluster.mjs';
import { installMissing, whyNoCluster } from '../support/slurm/prerequisites.mjs';
import { Context } from './context.mjs';
import * as strangeApps from './families/apps.mjs';
import * as breakOut from './families/break-out.mjs';
import * as cohort from './families/cohort.mjs';
import * as descriptors from './families/descriptors.mjs';
import * as disk from './families/disk.mjs';
import * as grace from './families/grace.mjs';
import * as input from './families/input.mjs';
import * as kill from './families/kill.mjs';
import * as leaks from './families/leaks.mjs';
import * as load from './families/load.mjs';
import * as network from './families/network.mjs';
import * as powerCut from './families/power-cut.mjs';
import * as ownProcess from './families/process.mjs';
import * as removal from './families/removal.mjs';
import * as requests from './families/requests.mjs';
import * as residents from './families/residents.mjs';
import * as runnerDeath from './families/runner-death.mjs';
import * as secrets from './families/secrets.mjs';
import * as serverDeath from './families/server-death.mjs';
import * as strangeServer from './families/strange-server.mjs';
import * as terminal from './families/terminal.mjs';
import { readOptions } from './options.mjs';
import { isContained, runContained } from './support/namespaces.mjs';
import { Random } from './support/random.mjs';
import { table } from './table.mjs';

/** Lanes of about the same length: most of the time of a case is waiting. */
const lanes = [
  {
    'server-death': serverDeath,
    'runner-death': runnerDeath,
    disk,
    'power-cut': powerCut,
    residents,
  },
  {
    network,
    input,
    load,
    secrets,
    kill,
    grace,
    requests,
    apps: strangeApps,
    leaks,
    terminal,
  },
  {
    process: ownProcess,
    removal,
    'strange-server': strangeServer,
    descriptors,
    'break-out': breakOut,
    cohort,
  },
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
