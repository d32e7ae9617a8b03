import { readdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { productArgs } from './command.mjs';
import { getJson } from './http.mjs';

/** Resolves with the address that a server prints when it listens. */
async function listening(child) {
  let printed = '';
  child.stderr.on('data', (chunk) => {
    printed += chunk;
  });
  for await (const chunk of child.stdout) {
    printed += chunk;
    const url = /Listening on (http:\S+)\n/.exec(printed)?.[1];
    if (url) {
      child.stdout.resume();
      return url;
    }
  }
  throw new Error(`The server did not start: ${printed}`);
}

/** `remote-app serve` as an admin starts it, with a data directory of its own. */
export class Server {
  #workshop;
  #child;

  static async start(workshop, { apps, flags = [], env = {}, dataDirectory }) {
    const server = new Server();
    server.#workshop = workshop;
    server.dataDirectory = dataDirectory ?? (await workshop.directory('data'));
    const args = ['serve', '--port', '0', '--auth', 'off', '--data-dir', server.dataDirectory];
    const sources = apps.flatMap((app) => ['--apps', app]);
    server.#child = workshop.start(process.execPath, productArgs([...args, ...sources, ...flags]), {
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
    for (;;) {
      const { status, error } = await getJson(`${this.url}/jobs/${id}`);
      if (status === 'done') return;
      if (status === 'error' || status === 'killed') throw new Error(`Job ${id} is ${status}: ${error}`);
      await delay(20);
    }
  }

  /** Resolves when every job has ended. */
  async quiet() {
    const isActive = ({ status }) => !['done', 'error', 'killed'].includes(status);
    while ((await getJson(`${this.url}/jobs`)).jobs.some(isActive)) await delay(20);
  }

  /** Resolves when no job directory is left, so that one measurement's removals do not run into the next. */
  async emptied() {
    const isEmpty = (name) => readdirSync(path.join(this.dataDirectory, name)).length === 0;
    while (!['jobs', 'trash'].every(isEmpty)) await delay(20);
  }

  stop() {
    return this.#workshop.end(this.#child);
  }
}
