import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { ended, job, kill, request, steps, submit } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { giveAway } from '../../support/unprivileged.mjs';
import { until } from '../../support/until.mjs';

const noise = 8;

/**
 * A data directory with jobs in every state, of which no process is left: it can be copied, damaged and started on
 * again and again. Jobs: state (`done`, `error`, `killed`, `ended`: its command has, which no server has seen, or
 * `waiting`), id, content, result (bytes, of a done one).
 */
export class World {
  jobs = [];

  constructor(context, user) {
    this.context = context;
    this.data = path.join(user.home, 'data');
    this.template = path.join(user.home, 'template');
    this.witness = path.join(user.home, 'witness');
    this.gate = path.join(user.home, 'gate-');
    this.user = user;
  }

  server(environment = {}, grace = 600) {
    return new Server(this.context, {
      dataDirectory: this.data,
      launcher: this.user.launcher,
      environment: { ...this.user.environment, ...environment },
      flags: ['--cpu-slots', '2', '--grace', String(grace)],
    });
  }

  async make() {
    await this.#expire();
    const server = await this.server().start();
    for (let more = 4; more > 0; more -= 1) await this.#add(server, 'done');
    await this.#add(server, 'error', { code: 3 });
    await this.#add(server, 'killed', { gate: `${this.gate}never` });
    const gate = this.gate;
    for (let more = 2; more > 0; more -= 1) await this.#add(server, 'ended', { gate });
    for (let more = 2; more > 0; more -= 1) await this.#add(server, 'waiting');
    await server.kill();
    writeFileSync(`${gate}1`, '');
    await until('the commands end without a server', () => server.processes().length === 0);
    this.#cutUpload();
    execFileSync('cp', ['-a', this.data, this.template]);
  }

  /** Removes the data directory, also while a runner that was left writes how its job ended, and the notes of its commands. */
  async clear() {
    for (const left of [this.data, this.witness]) {
      // Unlike `rmSync`, it begins anew with a directory that has got another file.
      await rm(left, { recursive: true, force: true, maxRetries: 10 });
    }
  }

  /** Restores the data directory as it was made, before any command began. */
  async reset() {
    await this.clear();
    execFileSync('cp', ['-a', this.template, this.data]);
  }

  /** How often a job's command has begun since the last reset. */
  begins(id) {
    const told = existsSync(this.witness) ? readFileSync(this.witness, 'utf8').split('\n') : [];
    return told.filter((line) => line.startsWith(`start ${id} `)).length;
  }

  /** A job that has ended and was removed, so that the list of expired jobs exists. */
  async #expire() {
    const server = await this.server({}, 1).start();
    this.removed = (await this.#submit(server, 'removed', {})).id;
    const isRemoved = async () => (await request(server, `/jobs/${this.removed}`)).status === 410;
    await until('a job is removed', isRemoved, 20_000);
    await server.kill();
  }

  /** The files that a server leaves when it dies during an upload. */
  #cutUpload() {
    this.upload = this.context.random.bytes(6).toString('hex');
    const directory = path.join(this.data, 'jobs', this.upload);
    mkdirSync(path.join(directory, 'Incoming'), { recursive: true });
    writeFileSync(path.join(directory, 'Incoming', '0'), 'half of a scan');
    giveAway(directory, path.join(directory, 'Incoming'), path.join(directory, 'Incoming', '0'));
  }

  async #submit(server, state, settings) {
    const content = `${state} ${this.context.random.word(40)}`;
    const options = steps({ witness: this.witness, nonce: 'any', noise, ...settings });
    const id = await submit(server, 'witness', 'infer', {
      inputs: file('scan.nii', content),
      options,
      cpu: '1',
    });
    return { id, state, content, noise };
  }

  async #add(server, state, settings = {}) {
    const added = await this.#submit(server, state, settings);
    this.jobs.push(added);
    if (state === 'ended' || state === 'killed') {
      await until('it runs', async () => (await job(server, added.id)).status === 'running');
      if (state === 'ended') await until('its command runs', () => this.begins(added.id) === 1);
    }
    if (state === 'killed') await kill(server, added.id);
    if (state === 'done' || state === 'error') await ended(server, added.id);
    if (state === 'done') added.result = (await request(server, `/jobs/${added.id}/result`)).bytes;
  }
}
