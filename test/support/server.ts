import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Parser } from '@oclif/core';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import type { LoggedServer } from '../../src/cli/serve/serve-until-stopped.js';
import { systemClock } from '../../src/files/index.js';
import type { ExecutorContext, OpenedExecutor } from '../../src/server/open-executor.js';
import type { ServerSettings } from '../../src/server/settings.js';
import { Api } from './api.js';
import { builtServer } from './built.js';
import { shareCode } from './code-cache.js';
import { least, steps } from './form.js';
import { nodeFlags } from './node-flags.mjs';
import { openFilesOf, processesWith } from './processes.js';
import { type Play, ScriptedExecutor, ScriptedRuns } from './scripted-executor.js';
import { addressIn, hasEnded, serverEnvironment, serveWords } from './serve.mjs';
import type { TestClock } from './test-clock.js';
import { until } from './until.mjs';

const fixture = (name: string): string => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
const repository = fileURLToPath(new URL('../..', import.meta.url));
const bin = path.join(repository, 'bin/run.js');
const { version } = JSON.parse(readFileSync(path.join(repository, 'package.json'), 'utf8')) as {
  version: string;
};

export const apps = {
  probe: fixture('apps/probe'),
  shell: fixture('apps/shell'),
  broken: fixture('apps/broken'),
  resident: fixture('apps/resident'),
  masker: fixture('apps/masker'),
  bright: fixture('apps/bright'),
} as const;

export interface ServerOptions {
  /** Sources of `--apps`; by default the probe. */
  readonly apps?: readonly string[];
  /** What `Api.submit` submits to. */
  readonly app?: string;
  readonly flags?: readonly string[];
  /** How many GPUs nvidia-smi shows. */
  readonly gpus?: number;
  readonly token?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * Whether the server runs in its own process, for tests of crashes, signals, descriptors and the output of the start.
   * Otherwise it runs in the test's process.
   */
  readonly ownProcess?: boolean;
  /**
   * Whether jobs are run by runners, as processes, for tests of how they are run or of other apps. Otherwise they are scripts
   * in the test's process: they do the steps of the probe, or of a copy of it, and outlive the server, which leaves them to the
   * next one.
   */
  readonly runners?: boolean;
  /** What the scripts do instead of the steps of the probe, as the app's own `play.mjs` would. */
  readonly play?: Play;
  /** The clocks of the server and of its scripted jobs. */
  readonly clock?: TestClock;
  /** The program of another installation. This option and those below need a separate process. */
  readonly program?: string;
  /** Options of Node itself. */
  readonly node?: readonly string[];
  /** An open file for stderr; by default a pipe that the test reads. */
  readonly stderr?: number;
  /** An open file that the starting process leaves open, as a descriptor with a high number. */
  readonly leftOpen?: number;
  /** How many files and connections it may have open. */
  readonly descriptors?: number;
  /** Whether file permissions apply to it, even if root runs the tests. */
  readonly asOrdinaryUser?: boolean;
  /** Used instead of a temporary directory, and not removed. */
  readonly dataDirectory?: string;
}

/** The stdio entries after stderr that make a file descriptor 40 of a program. Node itself hides lower ones. */
export const leftOpenAt40 = (file: number | undefined) =>
  file === undefined ? [] : [...Array.from({ length: 37 }, () => 'ignore' as const), file];

/** Removes the capabilities that override file permissions. */
const readAnyFile = '-dac_override,-dac_read_search';

/** A file that an app waits for. */
export interface Gate {
  readonly path: string;
  open(): void;
}

/** Whether a server with these options needs its own process. */
const isProcess = ({
  ownProcess,
  program,
  node,
  stderr,
  leftOpen,
  descriptors,
  asOrdinaryUser,
}: ServerOptions) =>
  ownProcess ||
  [program, node, stderr, leftOpen, descriptors, asOrdinaryUser].some((each) => each !== undefined);

/** A server of the built program, in the test's process or in its own, as an admin starts it. */
export class TestServer implements AsyncDisposable {
  readonly api: Api;
  readonly token: string | null;
  url = '';
  stdout = '';
  stderr = '';
  #child: ChildProcess | null = null;
  /** The server in this process. */
  #running: LoggedServer | null = null;
  readonly #scripted: ScriptedRuns;
  #executor: ScriptedExecutor | null = null;
  #root = '';
  #jobIds = new Set<string>();
  #gates = 0;

  constructor(private options: ServerOptions = {}) {
    this.token = options.token ?? null;
    this.#scripted = new ScriptedRuns(options.play);
    this.api = new Api(this, options.app ?? 'probe');
  }

  static async start(options: ServerOptions = {}): Promise<TestServer> {
    const server = new TestServer(options);
    try {
      await server.start();
    } catch (cause) {
      await rm(server.#root, { recursive: true, force: true });
      throw cause;
    }
    return server;
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /** The server's own process. */
  get #process(): ChildProcess {
    if (this.#child === null) throw new Error('The server is no process of its own: ask for ownProcess');
    return this.#child;
  }

  get dataDirectory(): string {
    return this.options.dataDirectory ?? path.join(this.#root, 'data');
  }

  /** A directory for the test, removed with the server. */
  get scratch(): string {
    return this.#root;
  }

  jobDirectory(id: string): string {
    return path.join(this.dataDirectory, 'jobs', id);
  }

  /** Ids of the jobs on the disk, including uploads under way. */
  jobDirectories(): string[] {
    return ['jobs', 'incoming'].flatMap((name) => readdirSync(path.join(this.dataDirectory, name)));
  }

  /** The files that the server has open, or the test's process if it runs there. */
  openFiles(): string[] {
    return [...openFilesOf(this.#child?.pid ?? process.pid).values()];
  }

  /** A gate that is shut until the test opens it or ends. */
  gate(): Gate {
    this.#gates += 1;
    const gate = path.join(this.#root, `gate-${this.#gates}`);
    const open = () => writeFileSync(gate, '');
    // So that a failed test does not block a slot for the next one.
    onTestFinished(() => {
      if (existsSync(this.#root)) open();
    });
    return { path: gate, open };
  }

  /** Runs a job until its gate is open. Resolves when it runs. */
  async heldJob(fields: Readonly<Record<string, string>> = {}): Promise<{ id: string; gate: Gate }> {
    const gate = this.gate();
    const form = { ...least.infer, ...steps('print=x', `wait=${gate.path}`), ...fields };
    return { id: await this.api.running('infer', form, 'x'), gate };
  }

  /** Starts it, or starts it again on the same data directory; resolves when it answers. */
  async start(flags: readonly string[] = []): Promise<void> {
    const { options } = this;
    if (this.#root === '') {
      this.#root = await mkdtemp(path.join(tmpdir(), 'test-'));
      shareCode(this.#root);
    }
    this.stdout = '';
    this.stderr = '';
    const words = serveWords({
      dataDirectory: this.dataDirectory,
      apps: options.apps ?? [apps.probe],
      flags: [...(options.flags ?? []), ...flags],
    });
    const environment = {
      ...serverEnvironment({ home: this.#root, gpus: options.gpus, token: this.token }),
      ...options.environment,
    };
    if (isProcess(options)) await this.#startProcess(words, environment);
    else await this.#startHere(words, environment);
  }

  async #startHere(words: readonly string[], environment: NodeJS.ProcessEnv): Promise<void> {
    const { startLogged, introduce, ServerLog, ...given } = await builtServer();
    const { runners, clock } = this.options;
    const left = runners ? [] : ['--on-exit', 'keep'];
    const { flags } = await Parser.parse([...words.slice(1), ...left], { flags: given.serveFlags });
    const place = { version, root: repository, dataDir: path.join(this.#root, 'unused') };
    const settings = given.serverSettings(flags, place, environment);
    const output = (name: 'stdout' | 'stderr') => ({
      write: (text: string) => {
        this[name] += text;
        return true;
      },
    });
    const log = new ServerLog(output('stderr'), { format: flags['log-format'], level: flags['log-level'] });
    this.#running = await startLogged(settings, log, {
      isOpenAsked: flags.auth === 'off',
      hurry: new AbortController().signal,
      ...(clock ? { clock } : {}),
      ...(runners ? {} : { openExecutor: await this.#scriptedExecutor(settings) }),
    });
    introduce(this.#running.server, log, output('stdout'));
    this.url = this.#running.server.url;
  }

  async #scriptedExecutor({ cpuSlots }: ServerSettings) {
    const { gpus = 0, clock = systemClock } = this.options;
    const make = await ScriptedExecutor.maker(this.#scripted, { gpus, cpuSlots, clock });
    return async (_: ServerSettings, { limits }: ExecutorContext): Promise<OpenedExecutor> => {
      this.#executor = make(limits);
      const found = { sandbox: null, problem: '' };
      return { executor: this.#executor, local: null, gpus: null, cluster: null, found };
    };
  }

  async #startProcess(words: readonly string[], environment: NodeJS.ProcessEnv): Promise<void> {
    const { options } = this;
    // Node raises its soft limit of descriptors to the hard limit, so the hard limit counts.
    const { descriptors } = options;
    const limit = descriptors === undefined ? '' : `ulimit -Sn ${descriptors}; ulimit -Hn ${descriptors}; `;
    const isLimited = options.asOrdinaryUser && process.getuid?.() === 0;
    const wrapper = isLimited
      ? ['setpriv', `--bounding-set=${readAnyFile}`, `--inh-caps=${readAnyFile}`]
      : [];
    const node = [process.execPath, ...nodeFlags, ...(options.node ?? [])];
    const command = [...wrapper, ...node, options.program ?? bin, ...words];
    const child = spawn('/bin/sh', ['-c', `${limit}exec "$@"`, 'sh', ...command], {
      cwd: this.#root,
      env: environment,
      stdio: ['ignore', 'pipe', options.stderr ?? 'pipe', ...leftOpenAt40(options.leftOpen)],
    });
    this.#child = child;
    child.stderr?.on('data', (chunk: Buffer) => {
      this.stderr += chunk;
    });
    child.stdout?.on('data', (chunk: Buffer) => {
      this.stdout += chunk;
    });
    this.url = await until('the server listens', () => {
      if (child.exitCode !== null) throw new Error(`serve ended with ${child.exitCode}: ${this.stderr}`);
      return addressIn(this.stdout);
    });
  }

  /** Asks it to stop; resolves with its exit code. */
  async stop(): Promise<number | null> {
    return this.#end('SIGTERM');
  }

  /** Stops it and starts it again on the same data directory, optionally with other GPUs. */
  async restart(flags: readonly string[] = [], change: Pick<ServerOptions, 'gpus'> = {}): Promise<void> {
    await this.stop();
    this.options = { ...this.options, ...change };
    await this.start(flags);
  }

  /** Closes the pipe that its stderr goes to. */
  stopReading(): void {
    this.#process.stderr?.destroy();
  }

  /** Sends it a signal. */
  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  /** Reads the tokens and the apps again, as SIGHUP makes a process do. */
  reload(): void {
    this.#running?.reload();
  }

  /** Resolves with its exit code, or the signal that ended it, when it has ended by itself. */
  async ended(): Promise<number | NodeJS.Signals | null> {
    const child = this.#process;
    if (!hasEnded(child)) await once(child, 'exit');
    this.#child = null;
    return child.exitCode ?? child.signalCode;
  }

  /** Kills it, as in a crash. */
  async crash(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Stops it and removes its files. Fails if a process of its jobs is left. */
  async [Symbol.asyncDispose](): Promise<void> {
    // Scripts have no processes, and looking for some takes longer than stopping a server.
    const hasProcesses = this.options.runners || isProcess(this.options);
    let left: number[] = [];
    const isAlone = () => {
      left = this.processes();
      return left.length === 0;
    };
    try {
      const code = await this.stop();
      await this.#scripted.close();
      if (code !== 0) throw new Error(`serve ended with ${code} when it was asked to stop: ${this.stderr}`);
      if (hasProcesses) await until('no process of the server is left', isAlone);
    } catch (cause) {
      if (hasProcesses) isAlone();
      throw cause;
    } finally {
      for (const pid of left) process.kill(pid, 'SIGKILL');
      await rm(this.#root, { recursive: true, force: true, maxRetries: 5 });
    }
  }

  /** Resolves when the script of a job has ended, even without a server. */
  async scriptEnded(id: string): Promise<void> {
    await this.#scripted.of({ path: this.jobDirectory(id) })?.ended;
  }

  /** The processes of all its jobs, their runners, and its workers. */
  processes(): number[] {
    this.#noteJobs();
    const { dataDirectory } = this;
    const marks = {
      jobs: this.#jobIds,
      argument: dataDirectory,
      directory: dataDirectory,
      environment: this.#workerFiles,
    };
    return processesWith(marks).filter((pid) => pid !== this.#child?.pid);
  }

  /** The processes of all its workers: the loaded apps and what they started. */
  workers(): number[] {
    return processesWith({ environment: this.#workerFiles });
  }

  get #workerFiles(): string {
    return path.join(this.dataDirectory, 'workers/');
  }

  /** Remembers the existing jobs, whose processes may outlive their directories. */
  #noteJobs(): void {
    for (const id of this.jobDirectories()) this.#jobIds.add(id);
  }

  async #end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> {
    const child = this.#child;
    if (child === null) {
      if (this.#running !== null && signal === 'SIGKILL') return this.#process.exitCode;
      this.#executor?.leave();
      if (this.#running !== null) this.#noteJobs();
      await this.#running?.server.close();
      this.#running = null;
      return 0;
    }
    this.#noteJobs();
    if (!hasEnded(child)) {
      const exit = once(child, 'exit');
      child.kill(signal);
      await exit;
    }
    this.#child = null;
    return child.exitCode;
  }
}

/** One server for all the tests of a file. */
export function sharedServer(options: ServerOptions = {}): TestServer {
  const server = new TestServer(options);
  beforeAll(() => server.start());
  afterAll(() => server[Symbol.asyncDispose]());
  return server;
}
