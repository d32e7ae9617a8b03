import { closeSync, openSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { execa } from 'execa';
import { deferred, isGroupAlive, startError } from '../files/index.js';

export interface ProgramOptions {
  /** Milliseconds after which the program is terminated. */
  readonly limit: number;
  /** Maximum number of bytes of stdout and of stderr that are kept; by default none. */
  readonly maxBytes?: number;
  /** What happens to output beyond `maxBytes`: the program is terminated, or only the first or the last bytes are kept. */
  readonly beyond?: 'end' | 'keepFirst' | 'keepLast';
  /** The program's complete environment; nothing is inherited. */
  readonly environment: NodeJS.ProcessEnv;
  /** The program's working directory; by default the root, so that the program does not keep any other directory in use. */
  readonly cwd?: string;
  /** The program's standard input; by default none. */
  readonly input?: string | Uint8Array;
  /**
   * What happens to the output: stdout and stderr are kept separately, kept as one text in `stdout`, or passed on to a stream.
   */
  readonly output?: 'apart' | 'merged' | Writable;
  /** Whether the first word is a command line for the system's shell. */
  readonly shell?: boolean;
  /** Terminates the program when it is aborted. */
  readonly stop?: AbortSignal;
  /**
   * Whether a signal that would end this process first kills the program, which does not get a Ctrl-C because it has its own
   * process group.
   */
  readonly endsOnSignals?: boolean;
  /** Signals a process group; tests use it to simulate a program that survives SIGKILL. */
  readonly killGroup?: (leader: number, signal: NodeJS.Signals) => void;
}

/** How a program ended, and what it printed. */
export interface ProgramEnd {
  /** Null if a signal ended the program, or if it has not ended. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Why this process terminated the program; null if the program ended without that. */
  readonly endedFor: 'limit' | 'output' | 'stop' | null;
  /** A program that survived SIGKILL, for example because it hangs in a driver; null if there is none. */
  readonly remains: { readonly pid: number; readonly gone: Promise<unknown> } | null;
}

/** Milliseconds between SIGTERM and SIGKILL. */
const termGrace = 1000;
/** Milliseconds that a killed program is given to end. */
const killGrace = 500;
/** Milliseconds that a pipe may stay open after the program has ended, because a child of the program may still hold it. */
const pipeGrace = 500;

/** Number of descriptors needed to start a program with three pipes. */
const neededDescriptors = 16;

/**
 * Fails if too few descriptors are free for starting a program. Otherwise execa, without pipes, throws before anybody can listen
 * to the process, whose error Node emits a moment later and which would then end this process.
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

/**
 * Signals a process group. Ignores the error if the group is gone. Windows has no groups, so only the program is signalled there.
 */
function killProcessGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(process.platform === 'win32' ? leader : -leader, signal);
  } catch {
    // The group has ended, or belongs to another user.
  }
}

/** Reads a stream to its end, and keeps a limited part of it. Returns a function that gives the text so far. */
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

/** Calls `end` before a signal ends this process. @returns a function that cancels this */
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

/** Terminates the process group of a program, starting with SIGTERM. */
class GroupEnd {
  /** Why the program was terminated; null if it was not. */
  why: ProgramEnd['endedFor'] = null;
  /** Resolves when the program has survived even SIGKILL. */
  readonly failed = deferred<null>();
  readonly #timers: NodeJS.Timeout[] = [];

  /** Process id of the program, which leads its group; undefined until the program is started. */
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
   * Terminates what the program left of its group, and waits for that no longer than both grace periods together: a zombie
   * remains until its parent reaps it. Zombies are waited for only if this process terminated the program.
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
 * Runs a program in its own process group until it ends, then terminates what the program left of that group. After the time
 * limit, the whole group gets SIGTERM and, a second later, SIGKILL. Resolves a few seconds after that at the latest, whatever the
 * program does.
 * @throws the system's error if the program could not be started
 */
export async function runProgram(words: readonly string[], options: ProgramOptions): Promise<ProgramEnd> {
  const group = new GroupEnd(options.killGroup ?? killProcessGroup);
  // Registered before the start, because a signal may come right after it.
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
    // Windows would otherwise open a window for the program.
    detached: process.platform !== 'win32',
    buffer: false,
    reject: false,
  });
}

/** Waits until a program and what it left of its group have ended, or until they cannot be ended. */
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
