import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isRunning } from '../../support/processes.mjs';
import { addressIn, hasEnded, serverEnvironment, serveWords } from '../../support/serve.mjs';
import { jobProcesses, memoryOf } from './processes.mjs';
import { patience, until, within } from './until.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

/** The product under test. */
export const product = here('../../..');
export const bin = path.join(product, 'bin', 'run.js');

export const apps = {
  witness: here('../apps/witness'),
  rogue: here('../apps/rogue'),
  planter: here('../apps/planter'),
  intruder: here('../apps/intruder'),
};

/** Characters of the server's stderr that are kept. */
const keptOutput = 1 << 20;

/** Milliseconds in which a server ends that was asked to. */
const stopBound = 30_000;

/** Warnings of Node about a program's mistakes: a file that was never closed, an unhandled rejection. */
const forgotten = /^.*(Closing file descriptor|Unhandled|MaxListenersExceeded|Possible .* leak).*$/im;

/** The error that ended a program, without the source that Node prints above it and the stack below. */
const lastWords = (stderr) => /^\w*Error.*$/m.exec(stderr)?.[0].slice(0, 500) ?? stderr.slice(-500);

/** The running servers, which an interrupted harness must not leave behind. */
const running = new Set();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A server of the built program on a data directory, to be killed and started again. */
export class Server {
  url = '';
  stdout = '';
  stderr = '';
  /** Why it ended, if the harness did not end it. */
  death = null;
  /** Whether it may end by itself, because its start should be refused. */
  mayEnd = false;
  #child = null;
  #isEndedByUs = false;
  #options;

  /**
   * @param context of the family; takes the figures and the violations
   * @param options dataDirectory, apps, flags, gpus, token, environment, launcher (words put before the command)
   */
  constructor(context, options) {
    this.context = context;
    this.#options = options;
    this.dataDirectory = options.dataDirectory ?? path.join(context.scratch, `data-${context.serial()}`);
    this.token = options.token ?? null;
  }

  get pid() {
    return this.#child?.pid ?? 0;
  }

  get isAlive() {
    return !this.hasEnded;
  }

  get jobsDirectory() {
    return path.join(this.dataDirectory, 'jobs');
  }

  jobDirectory(id) {
    return path.join(this.jobsDirectory, id);
  }

  jobDirectories() {
    try {
      return readdirSync(this.jobsDirectory);
    } catch {
      return [];
    }
  }

  processes() {
    return jobProcesses(this.dataDirectory).filter(({ pid }) => pid !== this.pid);
  }

  /** Begins to start it; `listening` says when it answers. */
  spawn(flags = []) {
    const { apps: sources = [apps.witness], gpus = 0, environment = {}, launcher = [] } = this.#options;
    const words = serveWords({
      dataDirectory: this.dataDirectory,
      apps: sources,
      flags: [...(this.#options.flags ?? []), ...flags],
    });
    const all = [...launcher, process.execPath, bin, ...words];
    this.stdout = '';
    this.stderr = '';
    this.url = '';
    this.#isEndedByUs = false;
    const child = spawn(all[0], all.slice(1), {
      cwd: this.context.scratch,
      env: { ...serverEnvironment({ home: this.context.scratch, gpus, token: this.token }), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    running.add(child);
    child.once('exit', () => running.delete(child));
    child.stdout.on('data', (chunk) => {
      this.stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      this.stderr = (this.stderr + chunk).slice(-keptOutput);
    });
    child.once('exit', (code, signal) => {
      if (this.#isEndedByUs || this.mayEnd) return;
      this.death = `exit code ${code}, signal ${signal}: ${lastWords(this.stderr)}`;
      this.context.violation(`The server ended by itself: ${this.death}`);
    });
    this.#child = child;
    return child;
  }

  get hasEnded() {
    return this.#child === null || hasEnded(this.#child);
  }

  async listening(limit = patience) {
    const child = this.#child;
    const look = () => {
      if (this.hasEnded) {
        throw new Error(`serve ended (${child.exitCode ?? child.signalCode}): ${this.stderr.slice(-2000)}`);
      }
      return addressIn(this.stdout);
    };
    this.url = await until('the server listens', look, limit);
  }

  async start(flags = []) {
    this.spawn(flags);
    await this.listening();
    return this;
  }

  /** Starts it again if it ended by itself, which was already reported as a violation. */
  async revive() {
    if (this.death === null) return;
    this.death = null;
    await this.start();
  }

  /** Kills it, as a crash does. */
  kill() {
    return this.#end('SIGKILL');
  }

  /** Asks it to stop. */
  stop() {
    return this.#end('SIGTERM');
  }

  noteMemory() {
    this.context.highest('peak memory of a server', memoryOf(this.pid, 'VmHWM'), 'bytes');
  }

  /** Stops it. Processes of its jobs that are still running are a violation, and are killed. */
  async close() {
    await this.stop();
    const left = await until('no process is left', () => this.processes().length === 0, 15_000).then(
      () => [],
      () => this.processes(),
    );
    for (const { pid, id, command } of left) {
      this.context.violation(`A process of job ${id} outlives the server: ${pid} ${command}`);
      if (isRunning(pid)) process.kill(pid, 'SIGKILL');
    }
  }

  async #end(signal) {
    const child = this.#child;
    if (this.hasEnded) return;
    this.noteMemory();
    const warning = forgotten.exec(this.stderr)?.[0];
    this.context.check(warning === undefined, `The server was warned by Node: ${warning}`);
    this.#isEndedByUs = true;
    const exit = once(child, 'exit');
    child.kill(signal);
    await within(`the server ends after ${signal}`, exit, stopBound).catch((cause) => {
      this.context.violation(cause.message);
      child.kill('SIGKILL');
    });
  }
}
