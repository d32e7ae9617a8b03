import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { nodeApp, residentApp } from '../support/apps.mjs';
import { logLines, submit } from '../support/http.mjs';
import { interleave, median, percentile, samplesOf } from '../support/interleave.mjs';
import { atMost, nothing, plus } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';
import { cpuSeconds, peakMemory } from '../support/usage.mjs';

const line = 'first line';
/** A submission takes a tenth of a second: many of them tell what the slowest ones take. */
const roundsPerRun = 30;
const roundsPerRunOfTwo = 5;
const burst = 20;
/** Milliseconds after a job until the next one, so that the server is idle again. */
const pause = 200;
/** The same after a burst. */
const pauseOfBurst = 3000;

/** From the submission of 1 KiB to the app's line on the log stream, over HTTP: the start of a client is another row. */
async function firstLineOf(server) {
  const { job_id } = await submit(server, 'hello');
  for await (const each of logLines(server, job_id)) if (each === line) break;
  return { job_id, at: performance.now() };
}

async function throughServer(server) {
  const startedAt = performance.now();
  const { job_id, at } = await firstLineOf(server);
  await server.ended(job_id);
  return { milliseconds: at - startedAt };
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

const ordinaryApp = (workshop) => nodeApp(workshop, 'hello', `console.log('${line}');`);
const warmApp = (workshop) => residentApp(workshop, 'hello', { loading: 0, working: 0, line });

/** Measures submissions to a server and starts of its app by turns. */
async function againstDirect(bench, rounds, wait, throughServer, direct) {
  const { workshop } = bench;
  const app = await ordinaryApp(workshop);
  const server = await Server.start(workshop, { apps: [app] });
  try {
    const before = cpuSeconds(server.pid);
    const { figure, yardstick } = await samplesOf(rounds, {
      figure: async () => {
        await delay(wait);
        return throughServer(server);
      },
      yardstick: async () => {
        await delay(wait);
        return direct(workshop, app);
      },
    });
    return {
      figure: figure.map(({ milliseconds }) => milliseconds),
      yardstick: yardstick.map(({ milliseconds }) => milliseconds),
      cpu: [(cpuSeconds(server.pid) - before) / (rounds + 1)],
      memory: [peakMemory(server.pid)],
    };
  } finally {
    await server.stop();
  }
}

/** What all rows of one submission are taken from. */
const oneSubmission = (bench) =>
  bench.workshop.once('first-lines', () =>
    againstDirect(bench, bench.rounds * roundsPerRun, pause, throughServer, direct),
  );

const measure = (share) => async (bench) => {
  const { figure, yardstick, ...more } = await oneSubmission(bench);
  return { figure: percentile(figure, share), yardstick: percentile(yardstick, share), ...more };
};

/** Does something twenty times at once; from the first begin to the last end. */
async function atOnce(task) {
  const startedAt = performance.now();
  const ends = await Promise.all(Array.from({ length: burst }, task));
  return { milliseconds: Math.max(...ends) - startedAt };
}

async function measureBurst(bench) {
  const { figure, yardstick, ...more } = await againstDirect(
    bench,
    bench.rounds * roundsPerRunOfTwo,
    pauseOfBurst,
    async (server) => {
      const sample = await atOnce(async () => (await firstLineOf(server)).at);
      await server.quiet();
      return sample;
    },
    (workshop, app) =>
      atOnce(async () => {
        const startedAt = performance.now();
        return startedAt + (await direct(workshop, app)).milliseconds;
      }),
  );
  return { figure: median(figure), yardstick: median(yardstick), ...more };
}

/** The same on two servers in turn: one with a sandbox, and one without, which is the yardstick. */
const measureSandbox =
  (makeApp) =>
  async ({ workshop, rounds }) => {
    const app = await makeApp(workshop);
    const ours = await Server.start(workshop, { apps: [app], flags: ['--sandbox', 'bwrap'] });
    const other = await Server.start(workshop, { apps: [app], flags: ['--sandbox', 'off'] });
    try {
      const { figure, yardstick } = await interleave(rounds * roundsPerRunOfTwo, {
        figure: () => throughServer(ours),
        yardstick: () => throughServer(other),
      });
      return { figure: figure.milliseconds, yardstick: yardstick.milliseconds };
    } finally {
      await ours.stop();
      await other.stop();
    }
  };

export const rows = [
  {
    name: 'first-line',
    what: 'submit (1 KiB) to the first line of a Node app that prints at once',
    yardstick: 'spawning that app',
    unit: 'ms',
    reach: atMost(150, 'ms'),
    measure: measure(0.5),
  },
  {
    name: 'first-line-p99',
    what: 'the same, 99th percentile',
    yardstick: 'its own',
    unit: 'ms',
    reach: plus(160, 'ms'),
    measure: measure(0.99),
  },
  {
    name: 'first-line-burst',
    what: `${burst} submissions at once to the last of their first lines`,
    yardstick: `spawning that app ${burst} times at once`,
    unit: 'ms',
    reach: nothing,
    measure: measureBurst,
  },
  {
    name: 'sandbox-first-line',
    what: 'submit to the first line of that app in a sandbox',
    yardstick: 'the same without one',
    tools: ['bwrap'],
    unit: 'ms',
    reach: nothing,
    measure: measureSandbox(ordinaryApp),
  },
  {
    name: 'sandbox-warm-first-line',
    what: 'submit to the first line of a resident app that is loaded, in a sandbox',
    yardstick: 'the same without one',
    tools: ['bwrap'],
    unit: 'ms',
    reach: nothing,
    measure: measureSandbox(warmApp),
  },
];
