// @ts-check
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, openSync, readlinkSync } from 'node:fs';
import { argumentsOf, isRunning, readProcess, runningProcesses } from '../processes.mjs';
import { until } from '../until.mjs';

/**
 * The children of a process; none if it has ended.
 * @param {number} pid
 */
function childrenOf(pid) {
  const text = readProcess(pid, `task/${pid}/children`).trim();
  return text === '' ? [] : text.split(' ').map(Number);
}

/** Names the machine, starts the words, and takes in the processes whose parents have ended, as an init does. */
const init = 'test -z "$1" || echo "$1" > /proc/sys/kernel/hostname; shift; "$@" & sleep infinity & wait';

/**
 * When the first process of a PID namespace is killed, the kernel kills all others. It is killed with `unshare`, and
 * `unshare` when this program ends, in whatever way.
 */
const namespaces = ['unshare', '--pid', '--mount', '--uts', '--fork', '--kill-child', '--mount-proc'];

/**
 * A daemon in a container of its own, as on a machine of its own: whoever kills the container kills all that was started
 * in it, and no process outside has a process id of the inside.
 */
export class Contained {
  #child;
  #init = 0;
  #output;
  #environment;

  /**
   * @param {readonly string[]} words
   * @param {{ hostname?: string | undefined, environment: NodeJS.ProcessEnv, output: string }} options the file where its output goes
   */
  constructor(words, { hostname = '', environment, output }) {
    this.words = words;
    this.#output = output;
    this.#environment = environment;
    this.#child = this.#spawn([...namespaces, 'sh', '-c', init, 'sh', hostname, ...words]);
  }

  /** Resolves when the daemon runs. */
  async started() {
    const ready = () => {
      this.#init = childrenOf(this.#child.pid ?? 0)[0] ?? 0;
      return this.daemon !== undefined;
    };
    await until(`${this.words[0]} starts`, ready);
    return this;
  }

  /** The process of the words themselves, by its id outside; undefined if it has ended. */
  get daemon() {
    return runningProcesses().find(
      (pid) => argumentsOf(pid).join(' ') === this.words.join(' ') && this.#isInside(pid),
    );
  }

  /** Starts the daemon again in the same container, after its process has ended. */
  async restart() {
    this.#spawn(this.#entering(this.words));
    await until(`${this.words[0]} starts again`, () => this.daemon);
  }

  /**
   * Runs a command inside to its end.
   * @param {readonly string[]} words
   */
  run(words) {
    const [program = '', ...rest] = this.#entering(words);
    return spawnSync(program, rest, { env: this.#environment, encoding: 'utf8' });
  }

  /** Kills all that runs inside; resolves when nothing of it is left. */
  async kill() {
    this.#child.kill('SIGKILL');
    // The first process of a namespace ends after all others.
    await until(`${this.words[0]} is gone`, () => ![this.#child.pid ?? 0, this.#init].some(isRunning));
  }

  /** @param {readonly string[]} words */
  #entering(words) {
    return ['nsenter', '-t', String(this.#init), '-p', '-m', '-u', ...words];
  }

  /** @param {number} pid */
  #isInside(pid) {
    try {
      const [own, other] = [this.#init, pid].map((each) => readlinkSync(`/proc/${each}/ns/pid`));
      return own === other;
    } catch {
      return false;
    }
  }

  /**
   * Starts a command in a session of its own, so that Ctrl-C in a terminal does not reach it before its cluster is stopped in order.
   * @param {readonly string[]} words
   */
  #spawn(words) {
    const file = openSync(this.#output, 'a');
    try {
      return spawn('setpriv', ['--pdeathsig', 'KILL', ...words], {
        detached: true,
        cwd: '/',
        env: this.#environment,
        stdio: ['ignore', file, file],
      });
    } finally {
      closeSync(file);
    }
  }
}
