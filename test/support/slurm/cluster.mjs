// @ts-check
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { isRunning } from '../processes.mjs';
import { until } from '../until.mjs';
import { startAccounting } from './accounting.mjs';
import { gpuNodes, partitions, placesIn } from './configuration.mjs';
import { Contained } from './contained.mjs';
import { makeDirectory } from './directory.mjs';
import { programPath, whyNoCluster } from './prerequisites.mjs';

/**
 * @typedef {Partial<import('./configuration.mjs').Shape>} ClusterOptions
 */

/**
 * A Slurm cluster on this machine, of Debian's programs: a controller, and nodes that are containers with host names of
 * their own. All of its files lie in one temporary directory. GPUs are device files that stand in for those of NVIDIA:
 * Slurm grants them and sets CUDA_VISIBLE_DEVICES as on real ones.
 */
export class SlurmCluster {
  /** @type {Contained | null} */
  #controller = null;
  /** @type {Contained | null} */
  #munge = null;
  /** @type {Map<string, Contained>} */
  #nodes = new Map();

  /**
   * @param {string} directory
   * @param {import('./configuration.mjs').Shape} shape
   * @param {import('./configuration.mjs').Ports} ports
   */
  constructor(directory, shape, ports) {
    this.directory = directory;
    this.shape = shape;
    this.#ports = ports;
    this.#places = placesIn(directory);
  }

  #places;
  #ports;
  /** @type {Contained[]} */
  #accounting = [];

  /**
   * Starts a cluster; resolves when all its nodes are idle.
   * @param {ClusterOptions} [options]
   */
  static async start(options = {}) {
    const why = whyNoCluster();
    if (why !== null) throw new Error(`No Slurm cluster can be started: ${why}`);
    const shape = { nodes: gpuNodes, partitions, settings: [], accounting: false, ...options };
    const { directory, ports } = await makeDirectory(shape);
    const cluster = new SlurmCluster(directory, shape, ports);
    try {
      await cluster.#start();
    } catch (cause) {
      const said = cluster.logs();
      await cluster.stop();
      throw new Error(`The Slurm cluster did not start.\n${said}`, { cause });
    }
    return cluster;
  }

  /** What a program needs to use the cluster. */
  get environment() {
    return { SLURM_CONF: this.#places.configuration };
  }

  /** A directory that everybody may write to, for what the nodes share. */
  get shared() {
    return this.#places.shared;
  }

  /** What the daemons have written. */
  logs() {
    const { logs } = this.#places;
    return readdirSync(logs)
      .map((name) => `${name}:\n${readFileSync(path.join(logs, name), 'utf8')}`)
      .join('\n');
  }

  /**
   * The output of a program of Slurm.
   * @param {readonly string[]} words
   */
  output([program = '', ...rest]) {
    return execFileSync(program, rest, { env: this.#environment, encoding: 'utf8' });
  }

  /** Ends the controller in order: it saves its state. */
  async stopController() {
    const pid = this.#controller?.daemon;
    if (pid !== undefined) {
      process.kill(pid, 'SIGTERM');
      await until('slurmctld ends', () => !isRunning(pid));
    }
    await this.killController();
  }

  /** Ends the controller as a crash does: it forgets the jobs that were submitted in the last seconds. */
  async killController() {
    await this.#controller?.kill();
    this.#controller = null;
  }

  /** Starts the controller on the state that the last one saved; resolves when it answers. */
  async startController() {
    this.#controller = await this.#contain(
      ['slurmctld', '-D', '-f', this.#places.configuration],
      'slurmctld',
    );
    await until('slurmctld answers', () => this.#states() !== null);
  }

  /**
   * Stops the controller where it is, or lets it go on: it accepts connections and does not answer.
   * @param {boolean} isHanging
   */
  hangController(isHanging) {
    const pid = this.#controller?.daemon;
    if (pid !== undefined) process.kill(pid, isHanging ? 'SIGSTOP' : 'SIGCONT');
  }

  /**
   * Ends all that runs on a node, as a power cut does.
   * @param {string} name
   */
  async killNode(name) {
    await this.#nodes.get(name)?.kill();
    this.#nodes.delete(name);
  }

  /**
   * Kills a node, and has the controller notice it at once; by itself it takes half a minute.
   * @param {string} name
   */
  async failNode(name) {
    await this.killNode(name);
    this.output(['scontrol', 'update', `NodeName=${name}`, 'State=DOWN', 'Reason=killed']);
  }

  /**
   * Starts a node that was killed.
   * @param {string} name
   */
  async startNode(name) {
    const words = ['slurmd', '-D', '-N', name, '-f', this.#places.configuration];
    this.#nodes.set(name, await this.#contain(words, name, name));
  }

  /**
   * Kills the daemon of a node alone: its jobs go on.
   * @param {string} name
   */
  async killDaemon(name) {
    const pid = this.#nodes.get(name)?.daemon;
    if (pid === undefined) throw new Error(`No slurmd runs on ${name}`);
    process.kill(pid, 'SIGKILL');
    await until(`slurmd of ${name} is gone`, () => this.#nodes.get(name)?.daemon === undefined);
  }

  /**
   * Starts the daemon of a node again.
   * @param {string} name
   */
  async startDaemon(name) {
    await this.#nodes.get(name)?.restart();
  }

  /**
   * Runs a command on a node.
   * @param {string} name
   * @param {readonly string[]} words
   */
  onNode(name, words) {
    const node = this.#nodes.get(name);
    if (node === undefined) throw new Error(`${name} does not run`);
    return node.run(words);
  }

  /** Resolves when every node is idle. */
  async idle() {
    await until('all nodes are idle', () => {
      const states = this.#states();
      return states?.length === this.shape.nodes.length && states.every((state) => state === 'idle');
    });
  }

  /** Ends all of it, jobs too, and removes its directory. A second call does nothing. */
  async stop() {
    const all = [...this.#nodes.values(), this.#controller, ...this.#accounting, this.#munge];
    this.#nodes.clear();
    await Promise.all(all.map((each) => each?.kill()));
    rmSync(this.directory, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose]() {
    await this.stop();
  }

  get #environment() {
    return { PATH: programPath(), ...this.environment };
  }

  /** The states of its nodes; null while the controller does not answer. */
  #states() {
    const words = [
      '--noheader',
      '--Format=StateCompact',
      '--Node',
      '--partition',
      this.shape.partitions[0]?.name ?? '',
    ];
    const { status, stdout } = spawnSync('sinfo', words, { env: this.#environment, encoding: 'utf8' });
    return status === 0
      ? stdout
          .split('\n')
          .map((line) => line.trim())
          .filter(Boolean)
      : null;
  }

  /**
   * @param {readonly string[]} words
   * @param {string} name
   * @param {string} [host]
   */
  #contain(words, name, host) {
    const output = path.join(this.#places.logs, `${name}.output`);
    return new Contained(words, { hostname: host, environment: this.#environment, output }).started();
  }

  async #start() {
    const { munge, socket } = this.#places;
    const files = { 'key-file': 'key', 'pid-file': 'pid', 'log-file': 'log', 'seed-file': 'seed' };
    const flags = Object.entries(files).map(([flag, name]) => `--${flag}=${path.join(munge, name)}`);
    this.#munge = await this.#contain(['munged', '--foreground', `--socket=${socket}`, ...flags], 'munged');
    await until('munged answers', () => this.#encodes());
    if (this.shape.accounting) {
      const contain = this.#contain.bind(this);
      this.#accounting = await startAccounting(this.directory, this.#ports, contain);
    }
    await this.startController();
    await Promise.all(this.shape.nodes.map(({ name }) => this.startNode(name)));
    await this.idle();
  }

  #encodes() {
    const words = ['--no-input', `--socket=${this.#places.socket}`];
    return spawnSync('munge', words, { env: this.#environment, stdio: 'ignore' }).status === 0;
  }
}
