import { closeSync, openSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { execa } from 'execa';
import { deferred, isGroupAlive, startError } from '../files/index.js';

export interface ProgramOptions {
  /** Milliseconds until the program is ended. */
  readonly limit: number;
  /** Bytes of stdout and of stderr that are kept; by default none. */
  readonly maxBytes?: number;
  /** What happens beyond `maxBytes`: the program is ended, or only the first or the last bytes are kept. */
  readonly beyond?: 'end' | 'keepFirst' | 'keepLast';
  /** All of its environment. */
  readonly environment: NodeJS.ProcessEnv;
  /** Its working directory; by default the root, so that it holds no other directory. */
  readonly cwd?: string;
  /** Its standard input; by default there is none. */
  readonly input?: string | Uint8Array;
  /** Where it writes to: kept separately, kept as one text in `stdout`, or passed on to a stream. */
  readonly output?: 'apart' | 'merged' | Writable;
  /** Whether the first word is a command line for the system's shell. */
  readonly shell?: boolean;
  /** Ends the program when it is aborted. */
  readonly stop?: AbortSignal;
  /**
   * Whether a signal that would end this process ends the program first: in a group of its own it does not get a Ctrl-C.
   */
  readonly endsOnSignals?: boolean;
  /** Signals a group of processes; tests imitate a program that SIGKILL does not end. */
  readonly killGroup?: (leader: number, signal: NodeJS.Signals) => void;
}

/** How a program ended, and what it printed. */
export interface ProgramEnd {
  /** Null if a signal ended it, or if it has not ended. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Why this process ended it; null if it ended by itself. */
  readonly endedFor: 'limit' | 'output' | 'stop' | null;
  /** A program that SIGKILL has not ended, because it hangs in a driver for instance; null for every other one. */
  readonly remains: { readonly pid: number; readonly gone: Promise<unknown> } | null;
}

/** Milliseconds between SIGTERM and SIGKILL. */
const termGrace = 1000;
/** Milliseconds that a killed program may take to end. */
const killGrace = 500;
/** Milliseconds that a pipe may stay open after the program has ended: one of its children may hold it. */
const pipeGrace = 500;

/** Descriptors that are needed to start a program with three pipes. */
const neededDescriptors = 16;

/**
 * Fails if there are too few descriptors for a program. Without pipes execa throws at once, so that nobody can listen to the
 * process, whose error Node emits a moment later: it would end this process.
 * @throws the system's error
 */
function checkDescriptors(): void {
  const open: number[] = [];
  try {
    while (open.length < neededDescriptors) open.push(openSync('/', 'r'));
  } finally {
    for (const each of open) closeSync(each);
  }
}

/** Signals a group, unless all of it has ended. Windows has no groups. */
function killProcessGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(process.platform === 'win32' ? leader : -leader, signal);
  } catch {
    // It has ended, or belongs to another user.
  }
}

/** Keeps a bounded part of a stream, which is read to its end. */
function collect(
  stream: Readable | null | undefined,
  { maxBytes = 0, beyond = 'end' }: ProgramOptions,
  onTooLong: () => void,
): () => string {
  let chunks: Buffer[] = [];
  let length = 0;
  stream?.on('error', () => {});
  stream?.on('data', (chunk: Buffer) => {
    if (length + chunk.length <= maxBytes) {
      chunks.push(chunk);
      length += chunk.length;
      return;
    }
    const all = Buffer.concat([...chunks, chunk]);
    chunks = [beyond === 'keepLast' ? all.subarray(-maxBytes) : all.subarray(0, maxBytes)];
    length = maxBytes;
    if (beyond === 'end') onTooLong();
  });
  return () => Buffer.concat(chunks).toString();
}

const endingSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Calls `end` at a signal that ends this process, before it does. @returns a function that stops this */
function beforeEndOfProcess(end: () => void): () => void {
  const onSignal = (signal: NodeJS.Signals) => {
    end();
    stop();
    process.kill(process.pid, signal);
  };
  const stop = () => {
    for (const each of endingSignals) process.off(each, onSignal);
  };
  for (const each of endingSignals) process.on(each, onSignal);
  return stop;
}

/** Ends the process group of a program, first with SIGTERM. */
class GroupEnd {
  /** Why it was ended; null as long as it was not. */
  why: ProgramEnd['endedFor'] = null;
  /** Resolves when SIGKILL has not ended the program either. */
  readonly failed = deferred<null>();
  readonly #timers: NodeJS.Timeout[] = [];

  /** The program's process; undefined until it is started. */
  leader: number | undefined;

  constructor(private readonly killGroup: NonNullable<ProgramOptions['killGroup']>) {}

  begin(why: ProgramEnd['endedFor']): void {
    if (this.why !== null) return;
    this.why = why;
    this.signal('SIGTERM');
    this.after(termGrace, () => this.signal('SIGKILL'));
    this.after(termGrace + killGrace, () => this.failed.resolve(null));
  }

  signal(name: NodeJS.Signals): void {
    if (this.leader !== undefined) this.killGroup(this.leader, name);
  }

  after(milliseconds: number, act: () => void): void {
    this.#timers.push(setTimeout(act, milliseconds));
  }

  /**
   * Ends what the program has left of its group, and waits for it, but not longer than both grace periods: a zombie stays
   * until its parent reaps it. Zombies are waited for only if this process ended the program.
   */
  async finish(): Promise<void> {
    if (!this.#isThere()) return;
    this.signal('SIGTERM');
    await this.#gone(termGrace);
    this.signal('SIGKILL');
    await this.#gone(killGrace);
  }

  clear(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #isThere(): boolean {
    if (this.leader === undefined || process.platform === 'win32') return false;
    try {
      return this.why === null ? isGroupAlive(this.leader) : process.kill(-this.leader, 0);
    } catch {
      return false;
    }
  }

  async #gone(milliseconds: number): Promise<void> {
    const last = performance.now() + milliseconds;
    while (this.#isThere() && performance.now() < last) await delay(20);
  }
}

/**
 * Runs a program in a process group of its own until it ends, and ends what it leaves of that group. A program that takes
 * too long gets SIGTERM, and a second later SIGKILL, with its whole group. Resolves a few seconds after that at the latest,
 * whatever the program does.
 * @throws the system's error if it could not be started
 */
export async function runProgram(words: readonly string[], options: ProgramOptions): Promise<ProgramEnd> {
  const group = new GroupEnd(options.killGroup ?? killProcessGroup);
  // Before the start, because a signal may come right after it.
  const release = options.endsOnSignals ? beforeEndOfProcess(() => group.signal('SIGKILL')) : () => {};
  const onAbort = () => group.begin('stop');
  try {
    const child = start(words, options);
    group.leader = child.pid;
    group.after(options.limit, () => group.begin('limit'));
    options.stop?.addEventListener('abort', onAbort);
    if (options.stop?.aborted) onAbort();
    return await untilEnd(child, options, group);
  } catch (cause) {
    throw startError(cause, words[0] ?? '', options.environment.PATH ?? '');
  } finally {
    group.clear();
    options.stop?.removeEventListener('abort', onAbort);
    release();
  }
}

function start([program = '', ...args]: readonly string[], options: ProgramOptions) {
  if (process.platform !== 'win32') checkDescriptors();
  const { output } = options;
  return execa(program, args, {
    cwd: options.cwd ?? '/',
    env: options.environment,
    extendEnv: false,
    shell: options.shell ?? false,
    ...(options.input === undefined ? { stdin: 'ignore' } : { input: options.input }),
    stdout: 'pipe',
    stderr: 'pipe',
    all: output === 'merged',
    // Windows would open a window for it.
    detached: process.platform !== 'win32',
    buffer: false,
    reject: false,
  });
}

/** Waits until a program has ended, with what it leaves of its group, or until it can't be ended. */
async function untilEnd(
  child: ReturnType<typeof start>,
  options: ProgramOptions,
  group: GroupEnd,
): Promise<ProgramEnd> {
  const tooLong = () => group.begin('output');
  const { output } = options;
  const isMerged = output === 'merged';
  const isKept = typeof output !== 'object';
  if (!isKept)
    for (const each of [child.stdout, child.stderr]) each?.on('data', (chunk) => output.write(chunk));
  const stdout = collect(isMerged ? child.all : isKept ? child.stdout : null, options, tooLong);
  const stderr = collect(isMerged || !isKept ? null : child.stderr, options, tooLong);
  const closePipes = () => {
    for (const each of [child.stdout, child.stderr]) each?.destroy();
  };
  child.once('exit', () =>
    group.after(pipeGrace, () => {
      group.signal('SIGKILL');
      closePipes();
    }),
  );
  const end = await Promise.race([child, group.failed.promise]);
  if (end === null) {
    closePipes();
    child.unref();
  } else if (end.exitCode === undefined && end.signal === undefined) throw end.cause ?? end;
  else await group.finish();
  return {
    exitCode: end?.exitCode ?? null,
    signal: end?.signal ?? null,
    stdout: stdout(),
    stderr: stderr(),
    endedFor: group.why,
    remains: end === null && child.pid !== undefined ? { pid: child.pid, gone: child } : null,
  };
}
