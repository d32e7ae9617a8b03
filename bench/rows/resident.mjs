import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { residentApp } from '../support/apps.mjs';
import { logLines, submit } from '../support/http.mjs';
import { median, samplesOf } from '../support/interleave.mjs';
import { plus, times } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';

const jobs = 20;
/** Seconds that the app needs to load its model, and that one job takes. */
const loading = 5;
const working = 1;
const line = 'first line';
const roundsPerRun = 30;
/** Milliseconds after a job until the next one, so that the server is idle again. */
const pause = 200;

/** The app as its protocol has it, spoken to over its pipes, without a server. */
class BareApp {
  #answers;

  constructor(workshop, app) {
    this.child = workshop.start(
      process.execPath,
      [path.join(app, 'main.mjs'), 'resident', app, '--cpu', '1'],
      {
        stdio: ['pipe', 'pipe', 'inherit', 'pipe'],
        env: { REMOTE_APP_ANSWERS: '3' },
      },
    );
    this.#answers = createInterface({ input: this.child.stdio[3] })[Symbol.asyncIterator]();
  }

  /** The next answer. */
  async answer() {
    return JSON.parse((await this.#answers.next()).value);
  }

  give(directory) {
    const call = { job: '0', arguments: ['infer'], directory, environment: {} };
    this.child.stdin.write(`${JSON.stringify(call)}\n`);
  }

  async end() {
    const ended = once(this.child, 'close');
    this.child.stdin.end();
    this.child.stdout.resume();
    await ended;
  }
}

/** Submits a job and waits for its end. */
async function whole(server, app) {
  const { job_id } = await submit(server, app);
  for await (const _ of logLines(server, job_id));
  await server.ended(job_id);
}

/** Twenty jobs one after another, of which the first loads the app. */
async function throughServer(workshop, app) {
  const server = await Server.start(workshop, { apps: [app] });
  try {
    const startedAt = performance.now();
    for (let left = jobs; left > 0; left -= 1) await whole(server, path.basename(app));
    return { milliseconds: performance.now() - startedAt };
  } finally {
    await server.stop();
  }
}

/** The load once and twenty bare calls of its work. */
async function bare(workshop, app) {
  const directory = await workshop.directory('bare');
  const startedAt = performance.now();
  const loaded = new BareApp(workshop, app);
  loaded.child.stdout.resume();
  await loaded.answer();
  for (let left = jobs; left > 0; left -= 1) {
    loaded.give(directory);
    await loaded.answer();
  }
  const milliseconds = performance.now() - startedAt;
  await loaded.end();
  return { milliseconds };
}

async function measureLoad({ workshop }) {
  const app = await residentApp(workshop, 'slow-to-load', { loading, working });
  // One that counts: each takes half a minute.
  const { figure, yardstick } = await samplesOf(1, {
    figure: () => throughServer(workshop, app),
    yardstick: () => bare(workshop, app),
  });
  const milliseconds = (samples) => median(samples.map((each) => each.milliseconds));
  return { figure: milliseconds(figure), yardstick: milliseconds(yardstick) };
}

async function measureFirstLine({ workshop, rounds }) {
  const app = await residentApp(workshop, 'warm', { loading: 0, working: 0, line });
  const server = await Server.start(workshop, { apps: [app] });
  const loaded = new BareApp(workshop, app);
  const directory = await workshop.directory('bare');
  try {
    await loaded.answer();
    // Loads it.
    await whole(server, 'warm');
    const { figure, yardstick } = await samplesOf(rounds * roundsPerRun, {
      figure: async () => {
        await delay(pause);
        const startedAt = performance.now();
        const { job_id } = await submit(server, 'warm');
        for await (const each of logLines(server, job_id)) if (each === line) break;
        const milliseconds = performance.now() - startedAt;
        await server.ended(job_id);
        return milliseconds;
      },
      yardstick: async () => {
        await delay(pause);
        const printed = once(loaded.child.stdout, 'data');
        const startedAt = performance.now();
        loaded.give(directory);
        await printed;
        const milliseconds = performance.now() - startedAt;
        await loaded.answer();
        return milliseconds;
      },
    });
    return { figure: median(figure), yardstick: median(yardstick) };
  } finally {
    await loaded.end();
    await server.stop();
  }
}

export const rows = [
  {
    name: 'resident-load',
    what: `${jobs} jobs one after another of a resident app that needs ${loading} s to load`,
    yardstick: `its load once and ${jobs} bare calls of its work`,
    unit: 'ms',
    reach: times(1.1),
    measure: measureLoad,
  },
  {
    name: 'warm-first-line',
    what: 'submit (1 KiB) to the first line of a resident app that is loaded',
    yardstick: "the app's own line over a pipe",
    unit: 'ms',
    reach: plus(40, 'ms'),
    measure: measureFirstLine,
  },
];
