import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Milliseconds that a process has to end before it is killed. `serve` itself needs at most 10 s. */
const patience = 12_000;

/**
 * Where a run of the bench or of the KonfAI tests works: a temporary directory and the processes it started. Both are
 * gone after `close`, whatever happened before.
 */
export class Workshop {
  #children = new Set();
  #made = new Map();
  /** Environment variables of every process. */
  environment = {};
  #others = new Set();

  constructor(root) {
    this.root = root;
  }

  /**
   * @param {string} name what works there
   * @param {string} [parent] where the directory is made: another disk than that of the system's temporary directory
   */
  static async open(name, parent = tmpdir()) {
    const workshop = new Workshop(await mkdtemp(path.join(parent, `remote-app-${name}-`)));
    await workshop.#spread();
    return workshop;
  }

  /**
   * Asks ext4 for another block group for each directory of this one. Without a journal, ext4 does not reuse an
   * inode for minutes after its removal and looks at each such one, one by one, whenever it makes a file: what
   * an earlier run removed would make this one's files ten times as dear. Elsewhere this does nothing.
   */
  async #spread() {
    const chattr = this.start('chattr', ['+T', this.root], { stdio: 'ignore' });
    await new Promise((resolve) => chattr.once('close', resolve).once('error', resolve));
  }

  /** A new empty directory, with a name that no earlier run had, because the name decides on the block group. */
  async directory(label) {
    const directory = path.join(this.root, `${label}-${randomBytes(6).toString('hex')}`);
    await mkdir(directory, { recursive: true });
    return directory;
  }

  /** The result of `make`, which is called once a run, because several rows use the same data. */
  once(key, make) {
    if (!this.#made.has(key)) this.#made.set(key, make());
    return this.#made.get(key);
  }

  /** Removes what `once` made under these keys, so that gigabytes of one row do not stay for the others. */
  forget(...keys) {
    for (const key of keys) this.#made.delete(key);
  }

  /**
   * Starts a process of which none is left after `close`. Its environment is small and the same on every machine:
   * no profile, no token and no proxy of the person who measures.
   */
  start(command, args, options = {}) {
    const environment = {
      PATH: process.env.PATH,
      HOME: this.root,
      TMPDIR: this.root,
      ...this.environment,
      ...options.env,
    };
    const child = spawn(command, args, { cwd: this.root, ...options, env: environment });
    this.#children.add(child);
    child.once('close', () => this.#children.delete(child));
    child.once('error', () => this.#children.delete(child));
    return child;
  }

  /** Calls `stop` of something that is not a process when the workshop closes, at the latest. */
  keep(other) {
    this.#others.add(other);
    return other;
  }

  /** Ends one process: SIGTERM, then SIGKILL if it does not end. */
  async end(child) {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), patience);
    await exit;
    clearTimeout(timer);
  }

  /** @throws if the disk is too small, before anything fails in a less clear way */
  async needs(bytes) {
    const { bavail, bsize } = await statfs(this.root);
    if (bavail * bsize >= bytes) return;
    const gib = (count) => (count / 2 ** 30).toFixed(0);
    throw new Error(
      `needs ${gib(bytes)} GiB free under ${path.dirname(this.root)}, which has ${gib(bavail * bsize)}; ` +
        'name another place in REMOTE_APP_BENCH_DIR',
    );
  }

  async close() {
    await Promise.all([...this.#children].map((child) => this.end(child)));
    await Promise.all([...this.#others].map((other) => other.stop()));
    await rm(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}
