import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { Parser } from '@oclif/core';
import type { InputStream, OutputStream } from '../../src/cli/terminal/command-io.js';
import { built, builtCommands, builtServer } from './built.js';
import { shareCode } from './code-cache.js';
import { nodeFlags } from './node-flags.mjs';
import { withOwnEnvironment } from './own-environment.js';
import { temporary } from './temporary.js';

const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly bytes: Buffer;
  readonly stderr: string;
}

/** A running command: its process and its end. */
export interface Running {
  readonly process: ChildProcessWithoutNullStreams;
  readonly ended: Promise<Ended>;
}

/** The streams of a command; one that is a terminal says so. */
export interface Streams {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
}

/** A command that runs in the process of the test: what it writes, and its end. */
export interface Begun {
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Sends it a signal, as a process would receive it. A second one would end the test's own process. */
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<Ended>;
}

/** A stream that keeps what is written to it, and passes it on. */
function kept(): { readonly stream: PassThrough; readonly bytes: () => Buffer } {
  const chunks: Buffer[] = [];
  const stream = new PassThrough().on('data', (chunk: Buffer) => chunks.push(chunk));
  return { stream, bytes: () => Buffer.concat(chunks) };
}

/** The built program, with its own working directory and home. */
export class Cli {
  private constructor(
    readonly home: string,
    readonly directory: string,
    readonly remove: () => PromiseLike<void>,
  ) {}

  static async create(): Promise<Cli> {
    const root = await temporary();
    const directory = path.join(root.path, 'work');
    const home = path.join(root.path, 'home');
    mkdirSync(directory);
    shareCode(home);
    return new Cli(home, directory, () => root[Symbol.asyncDispose]());
  }

  /** The same home directory with another working directory. */
  from(directory: string): Cli {
    return new Cli(this.home, directory, this.remove);
  }

  #environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
    const { PATH, SystemRoot } = process.env;
    // Windows has its own names for the home directory and that of temporary files, and starts few programs without SystemRoot.
    const windows = { SystemRoot, USERPROFILE: this.home, TEMP: process.env.TEMP };
    const system = process.platform === 'win32' ? windows : {};
    return { PATH, ...system, HOME: this.home, XDG_CONFIG_HOME: this.home, ...env };
  }

  /** Runs a command to its end in the process of the test, with this on stdin. */
  run(args: readonly string[], env: NodeJS.ProcessEnv = {}, stdin = ''): Promise<Ended> {
    return this.begin(args, env, stdin).ended;
  }

  /** Starts a command in the process of the test, with this on stdin. */
  begin(args: readonly string[], env: NodeJS.ProcessEnv = {}, stdin = ''): Begun {
    const [out, err] = [kept(), kept()];
    const input = Readable.from(stdin === '' ? [] : [Buffer.from(stdin)]);
    const run = async (): Promise<Ended> => {
      const streams = { stdin: input, stdout: out.stream, stderr: err.stream };
      const code = await this.runOn(streams, args, env);
      await Promise.all([out, err].map(({ stream }) => finished(stream.end())));
      const bytes = out.bytes();
      return { code, signal: null, bytes, stdout: bytes.toString(), stderr: err.bytes().toString() };
    };
    const signal = (name: NodeJS.Signals) => process.emit(name, name);
    return { stdout: out.stream, stderr: err.stream, signal, ended: run() };
  }

  /** Runs a command to its end in the process of the test, on these streams. Returns its exit code. */
  async runOn(streams: Streams, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
    if (args[0] === 'serve' && !args.some((each) => ['--check', '--help', '-h'].includes(each)))
      throw new Error('serve takes its process for its own: use runProcess');
    const { main, CommandIo } = await builtCommands();
    const environment = this.#environment(env);
    return withOwnEnvironment(this.directory, environment, async () => {
      const io = new CommandIo({ ...streams, env: environment });
      await main(fileURLToPath(built('start')), args, io);
      return io.exitCode;
    });
  }

  /** What `serve` prints when it refuses its flags or settings, in the test's process. */
  async refusedStart(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
    const { serveFlags, serverSettings, startLogged, ServerLog } = await builtServer();
    const environment = this.#environment(env);
    const log = new ServerLog({ write: () => true });
    const start = async () => {
      const { flags } = await Parser.parse(args.slice(1), { flags: serveFlags });
      const place = {
        version: 'test',
        root: fileURLToPath(new URL('../..', import.meta.url)),
        dataDir: this.home,
      };
      const hurry = new AbortController().signal;
      return startLogged(serverSettings(flags, place, environment), log, { isOpenAsked: false, hurry });
    };
    const refused = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause));
    const said = await withOwnEnvironment(this.directory, environment, () => start().catch(refused));
    if (typeof said === 'string') return said;
    await said.server.close();
    throw new Error(`The server started: ${args.join(' ')}`);
  }

  /**
   * Starts a command in a process of its own.
   * @param wrapper a program with its arguments that runs the command
   */
  start(args: readonly string[], env: NodeJS.ProcessEnv = {}, wrapper: readonly string[] = []): Running {
    const [program = process.execPath, ...more] = [...wrapper, process.execPath, ...nodeFlags, bin, ...args];
    const child = spawn(program, more, { cwd: this.directory, env: this.#environment(env) });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
    const ended = new Promise<Ended>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => {
        const bytes = Buffer.concat(out);
        resolve({ code, signal, bytes, stdout: bytes.toString(), stderr: Buffer.concat(err).toString() });
      });
    });
    return { process: child, ended };
  }

  /** Runs a command to its end in a process of its own, with this on stdin. */
  async runProcess(
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
    stdin = '',
    wrapper: readonly string[] = [],
  ): Promise<Ended> {
    const running = this.start(args, env, wrapper);
    running.process.stdin.on('error', () => {}).end(stdin);
    return running.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.remove();
  }
}
