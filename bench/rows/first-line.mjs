import { once } from 'node:events';
import path from 'node:path';
import { thousandTokens } from '../support/access.mjs';
import { nodeApp } from '../support/apps.mjs';
import { logLines, submit } from '../support/http.mjs';
import { interleave } from '../support/interleave.mjs';
import { plus } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory } from '../support/usage.mjs';

const line = 'first line';
const roundsPerRun = 5;

/** From the submission of 1 KiB to the app's line on the log stream, over HTTP: the start of a client is another row. */
async function throughServer(server) {
  const startedAt = performance.now();
  const { job_id } = await submit(server, 'hello');
  for await (const each of logLines(server, job_id)) if (each === line) break;
  const milliseconds = performance.now() - startedAt;
  await server.ended(job_id);
  return { milliseconds };
}

async function direct(workshop, app) {
  const startedAt = performance.now();
  const child = workshop.start(process.execPath, [path.join(app, 'main.mjs')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  await once(child.stdout, 'data');
  const milliseconds = performance.now() - startedAt;
  await ended;
  return { milliseconds };
}

async function measure({ workshop, rounds }) {
  const app = await nodeApp(workshop, 'hello', `console.log('${line}');`);
  const server = await Server.start(workshop, { apps: [app] });
  try {
    await throughServer(server);
    const before = cpuSeconds(server.pid);
    const { figure, yardstick } = await interleave(rounds * roundsPerRun, {
      figure: () => throughServer(server),
      yardstick: () => direct(workshop, app),
    });
    return {
      figure: figure.milliseconds,
      yardstick: yardstick.milliseconds,
      cpu: [(cpuSeconds(server.pid) - before) / (rounds * roundsPerRun)],
      memory: [peakMemory(server.pid)],
    };
  } finally {
    await server.stop();
  }
}

/** The same on two servers in turn, of which the second is the yardstick. */
async function measureBoth({ workshop, rounds }, figureOptions, yardstickOptions) {
  const app = await nodeApp(workshop, 'hello', `console.log('${line}');`);
  const ours = await Server.start(workshop, { apps: [app], ...figureOptions });
  const other = await Server.start(workshop, { apps: [app], ...yardstickOptions });
  try {
    for (const server of [ours, other]) await throughServer(server);
    const { figure, yardstick } = await interleave(rounds * roundsPerRun, {
      figure: () => throughServer(ours),
      yardstick: () => throughServer(other),
    });
    return { figure: figure.milliseconds, yardstick: yardstick.milliseconds };
  } finally {
    await ours.stop();
    await other.stop();
  }
}

const measureSandbox = (bench) =>
  measureBoth(bench, { flags: ['--sandbox', 'bwrap'] }, { flags: ['--sandbox', 'off'] });

const measureAccess = async (bench) => measureBoth(bench, await thousandTokens(bench.workshop), {});

export const rows = [
  {
    name: 'first-line',
    what: 'submit (1 KiB) to the first line of a Node app that prints at once',
    yardstick: 'spawning that app',
    unit: 'ms',
    reach: plus(80, 'ms'),
    measure,
  },
  {
    name: 'sandbox-first-line',
    what: 'submit to the first line of that app in a sandbox',
    yardstick: 'the same without one',
    tools: ['bwrap'],
    unit: 'ms',
    reach: plus(20, 'ms'),
    measure: measureSandbox,
  },
  {
    name: 'access-first-line',
    what: 'submit to the first line of that app with 1,000 named tokens and an audit log',
    yardstick: 'the same open to all',
    unit: 'ms',
    reach: plus(5, 'ms'),
    measure: measureAccess,
  },
];
