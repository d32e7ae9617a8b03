import { readdirSync } from 'node:fs';
import path from 'node:path';
import { addressIn, serveWords } from '../../test/support/serve.mjs';
import { until } from '../../test/support/until.mjs';
import { productArgs } from './command.mjs';
import { ask } from './http.mjs';

/** Waits without a limit, because a row may be run at a hundred times its size. */
const eventually = (what, condition) => until(what, condition, Number.POSITIVE_INFINITY, 20);

/** Resolves with the address that a server prints when it listens. */
async function listening(child) {
  let stdout = '';
  let stderr = '';
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  for await (const chunk of child.stdout) {
    stdout += chunk;
    const url = addressIn(stdout);
    if (url) {
      child.stdout.resume();
      return url;
    }
  }
  throw new Error(`The server did not start: ${stdout}${stderr}`);
}

/** `remote-app serve` as an admin starts it, with a data directory of its own. */
export class Server {
  #workshop;
  #child;

  static async start(workshop, { apps, flags = [], env = {}, dataDirectory }) {
    const server = new Server();
    server.#workshop = workshop;
    server.dataDirectory = dataDirectory ?? (await workshop.directory('data'));
    // What the row's app is told.
    const passed = Object.keys(env)
      .filter((name) => name.startsWith('BENCH_'))
      .flatMap((name) => ['--pass-env', name]);
    const words = serveWords({
      dataDirectory: server.dataDirectory,
      apps,
      flags: ['--auth', 'off', ...flags, ...passed],
    });
    server.#child = workshop.start(process.execPath, productArgs(words), {
      stdio: ['ignore', 'pipe', 'pipe'],
      env,
    });
    server.url = await listening(server.#child);
    return server;
  }

  get pid() {
    return this.#child.pid;
  }

  /** Where a job is submitted. */
  submitUrl(app) {
    return `${this.url}/apps/${app}/infer`;
  }

  jobDirectory(id) {
    return path.join(this.dataDirectory, 'jobs', id);
  }

  /** Resolves when a job is final; `done`, unless it failed. */
  async ended(id) {
    await eventually(`job ${id} ends`, async () => {
      const { status, error } = await ask(this, `/jobs/${id}`);
      if (status === 'error' || status === 'killed') throw new Error(`Job ${id} is ${status}: ${error}`);
      return status === 'done';
    });
  }

  /** Resolves when every job has ended. */
  async quiet() {
    const isActive = ({ status }) => !['done', 'error', 'killed'].includes(status);
    await eventually('every job ends', async () => !(await ask(this, '/jobs')).jobs.some(isActive));
  }

  /** Resolves when no job directory is left, so that one measurement's removals do not run into the next. */
  async emptied() {
    const isEmpty = (name) => readdirSync(path.join(this.dataDirectory, name)).length === 0;
    await eventually('the jobs are removed', () => ['jobs', 'trash'].every(isEmpty));
  }

  stop() {
    return this.#workshop.end(this.#child);
  }
}
