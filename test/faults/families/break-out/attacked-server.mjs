import { execFileSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { ended, isFinal, job, kill, logOf, submit } from '../../support/api.mjs';
import { apps, Server } from '../../support/server.mjs';
import { giveAway } from '../../support/unprivileged.mjs';
import { until } from '../../support/until.mjs';

/** What a job may use here: little, so that an attack which works harms nobody. */
export const limits = { processes: 100, mebibytes: 256 };

/** Words that start a server in a `/dev` with these two GPUs, which hold their secrets; null where that cannot be made. */
function withGpus(directory, secrets) {
  const dev = path.join(directory, 'dev');
  const make = [
    `mkdir -p ${dev} && mount -t tmpfs tmpfs ${dev} && cd ${dev} && mkdir pts shm`,
    'cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty .',
    'ln -s /proc/self/fd fd && ln -s pts/ptmx ptmx && chmod 1777 shm',
    ...secrets.map((secret, id) => `echo ${secret} > nvidia${id} && chmod 644 nvidia${id}`),
    `mount --move ${dev} /dev && cd /`,
  ].join(' && ');
  const words = ['unshare', '--mount', 'sh', '-c', `${make} && exec "$@"`, 'sh'];
  try {
    execFileSync(words[0], [...words.slice(1), 'true'], { stdio: 'ignore' });
    return words;
  } catch {
    return null;
  }
}

/** A server with a job of somebody else, and what an intruder may look for around it. */
export class AttackedServer {
  connections = 0;
  /** Attacks by an app that was loaded already. */
  warm = 0;
  #listeners = [];

  constructor(context, user, sandbox) {
    Object.assign(this, { context, user, sandbox });
    this.secret = `secret-${context.random.word(20)}`;
    this.gpuSecrets = [0, 1].map(() => `secret-${context.random.word(20)}`);
    const gpus = withGpus(user.home, this.gpuSecrets);
    this.hasGpus = gpus !== null;
    this.server = new Server(context, {
      dataDirectory: path.join(user.home, `data-${context.serial()}`),
      apps: [apps.intruder, apps.witness],
      gpus: 2,
      token: `secret-${context.random.word(30)}`,
      launcher: [...(gpus ?? []), ...user.launcher],
      environment: user.environment,
      flags: [
        ...['--sandbox', sandbox, '--grace', '600', '--cpu-slots', '8'],
        ...(user.isLoaded
          ? ['--share-workers', 'intruder', '--resident-idle', '5s']
          : ['--resident-idle', '0']),
        ...(sandbox === 'off' ? [] : ['--processes-per-job', String(limits.processes)]),
        ...(sandbox === 'off' ? [] : ['--memory-per-job', `${limits.mebibytes}MiB`]),
      ],
    });
  }

  async open() {
    const { home } = this.user;
    this.private = path.join(home, 'private');
    writeFileSync(this.private, this.secret, { mode: 0o600 });
    giveAway(this.private);
    await this.server.start();
    const form = { inputs: file('scan.nii', this.secret), cpu: '1' };
    this.victim = await submit(this.server, 'witness', 'infer', form);
    await ended(this.server, this.victim);
    await this.#listen({ host: '127.0.0.1', port: 0 });
    const socket = path.join(home, `socket-${this.context.serial()}`);
    await this.#listen({ path: socket });
    chmodSync(socket, 0o777);
    await this.#listen({ path: `\0remote-app-${this.context.random.word(12)}` });
    return this;
  }

  /** Where somebody listens. */
  get targets() {
    return this.#listeners.map((each) => {
      const address = each.address();
      return typeof address === 'string' ? { path: address } : { host: '127.0.0.1', port: address.port };
    });
  }

  async #listen(where) {
    const listener = createServer((socket) => {
      this.connections += 1;
      socket.on('error', () => {});
      socket.end('open');
    });
    listener.listen(where);
    await until('somebody listens', () => listener.listening);
    this.#listeners.push(listener);
  }

  /** Starts an app that may attack this server and what is in its data directory. */
  send(plan, device = { cpu: '1' }) {
    const { pid, dataDirectory } = this.server;
    const named = { ...plan, pids: [pid], directories: [dataDirectory] };
    return submit(this.server, 'intruder', 'infer', {
      inputs: file('plan.json', JSON.stringify(named)),
      ...device,
    });
  }

  /** Runs such an app to its end: how it ended, and what its log says. */
  async visit(plan, device) {
    const id = await this.send(plan, device);
    const view = await ended(this.server, id);
    if (view.start === 'warm') this.warm += 1;
    const log = await logOf(this.server, id);
    return { id, view, log, said: log.join('\n') };
  }

  async hasEnded(id) {
    return isFinal(await job(this.server, id));
  }

  end(id) {
    return ended(this.server, id);
  }

  kill(id) {
    return kill(this.server, id);
  }

  async close() {
    for (const each of this.#listeners) each.close();
    await this.server.close();
  }
}
