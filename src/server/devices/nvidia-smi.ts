import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { oneLine, quoteName } from '../../contract/index.js';
import { errorCode, faultWithoutPath, type ProgramEnd, programEnd } from '../../files/index.js';

/** A GPU as nvidia-smi shows it at one moment. */
export interface GpuRow {
  /** nvidia-smi's index. */
  readonly id: number;
  /** Empty if nvidia-smi does not report it. */
  readonly uuid: string;
  readonly name: string;
  /** What nvidia-smi says in place of a value of a GPU that has failed, such as `[GPU is lost]`; otherwise null. */
  readonly fault: string | null;
  /** Bytes; null if nvidia-smi prints no number. */
  readonly used: number | null;
  readonly total: number | null;
  /** False for a GPU without memory of its own, or whose driver never reports it. */
  readonly isMemoryTold: boolean;
}

/** The columns that nvidia-smi is asked for. The name comes last because it may contain commas. */
const columns = ['index', 'uuid', 'memory.used', 'memory.total', 'name'] as const;

const mebibyte = 1024 ** 2;
/** More GPUs than any machine has. */
const mostRows = 1024;
const maxNameLength = 200;

/** Printed by nvidia-smi for a figure that the GPU does not have, or that its driver does not report to this user. */
const notTold = /^\[?(N\/A|Not Supported|Not Found|Function Not Found|Insufficient Permissions)\]?$/i;

/** Printed for a GPU that does not respond to the driver. */
const isFault = (cell: string): boolean => /^(\[.*\]|ERR!)$/.test(cell) && !notTold.test(cell);

/** Some versions print the unit despite being told not to. */
function bytes(cell: string): number | null {
  const [, figure] = /^(\d{1,9})( MiB)?$/.exec(cell) ?? [];
  return figure === undefined ? null : Number(figure) * mebibyte;
}

function parseRow(line: string): GpuRow | null {
  const [index = '', uuid = '', used = '', total = '', ...name] = line.split(',').map((cell) => cell.trim());
  if (!/^\d{1,4}$/.test(index) || name.length === 0) return null;
  const fault = [uuid, name.join(', '), used, total].find(isFault);
  return {
    id: Number(index),
    uuid: /^[\w-]{1,100}$/.test(uuid) ? uuid : '',
    name: oneLine(name.join(', ')).slice(0, maxNameLength),
    fault: fault === undefined ? null : oneLine(fault).slice(0, maxNameLength),
    used: bytes(used),
    total: bytes(total),
    isMemoryTold: !notTold.test(used) && !notTold.test(total),
  };
}

/**
 * The rows of nvidia-smi's answer (CSV, no header, no units). Skips other lines: nvidia-smi prints warnings between its
 * rows ("WARNING: infoROM is corrupted at gpu ..."). Skips a second row with the same index as well.
 */
export function parseRows(text: string): readonly GpuRow[] {
  const rows = new Map<number, GpuRow>();
  for (const line of text.split('\n')) {
    const row = parseRow(line);
    if (row && !rows.has(row.id)) rows.set(row.id, row);
    if (rows.size === mostRows) break;
  }
  return [...rows.values()];
}

/** The first line of an answer that is not a row, such as a warning; empty if there is none. */
const firstOddLine = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.trim())
    .find((line) => line !== '' && !parseRow(line)) ?? '';

/** nvidia-smi gave no usable answer. The message gives the reason, and may be shown to clients. */
export class NoGpuAnswer extends Error {
  override readonly name = 'NoGpuAnswer';
}

const closedMessage = 'the server is shutting down';
const program = 'nvidia-smi';
const args = [`--query-gpu=${columns.join(',')}`, '--format=csv,noheader,nounits'];

/** Milliseconds that an answer may take: without persistence mode the driver needs seconds to load. */
const defaultDeadline = 20_000;
/** Milliseconds that a killed process may take to end. */
const killGrace = 500;
/** Bytes of an answer that are read. */
const maxAnswerBytes = 1 << 20;
/**
 * Number of different oddities that are reported: a driver that puts the time into its warnings must not fill the log.
 */
const mostOddities = 20;

/** Whether there is a program of this name on PATH: a script without its interpreter is "not found" as well. */
export const isInstalled = (environment: NodeJS.ProcessEnv): boolean =>
  (environment.PATH ?? '')
    .split(path.delimiter)
    .some((directory) => directory !== '' && existsSync(path.resolve('/', directory, program)));

/** Reads a stream to its end. If it is longer than the limit, closes it and calls `onTooLong`. */
function collect(stream: Readable | null | undefined, onTooLong: () => void): () => string {
  const chunks: Buffer[] = [];
  let length = 0;
  stream?.on('error', () => {});
  stream?.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= maxAnswerBytes) {
      chunks.push(chunk);
      return;
    }
    chunks.length = 0;
    stream.destroy();
    onTooLong();
  });
  return () => Buffer.concat(chunks).toString('utf8');
}

const firstLine = (text: string): string => text.trim().split('\n')[0] ?? '';

/**
 * The answer of an nvidia-smi that has ended. Rows count whatever the exit code is: it is 14 where an infoROM is corrupted,
 * which harms no job. "No devices" is an answer too, with an exit code of its own.
 */
function rowsOf({ exitCode, signal, stdout, stderr }: ProgramEnd): readonly GpuRow[] {
  const rows = parseRows(stdout);
  if (rows.length > 0) return rows;
  if (exitCode === 6 || /No devices were found/i.test(`${stdout}\n${stderr}`)) return [];
  const words = firstLine(stdout.trim() === '' ? stderr : stdout);
  const saying = words === '' ? '' : `: ${quoteName(words)}`;
  if (signal !== null) throw new NoGpuAnswer(`nvidia-smi was ended by ${signal}`);
  if (exitCode !== 0) throw new NoGpuAnswer(`nvidia-smi failed (exit code ${exitCode})${saying}`);
  throw new NoGpuAnswer(`nvidia-smi printed no line that lists a GPU${saying}`);
}

/** A phrase for what is odd about an answer that lists GPUs; empty if nothing is. */
function oddityOf({ exitCode, signal, stdout, stderr }: ProgramEnd): string {
  const words = firstOddLine(stdout) || firstLine(stderr);
  return [
    signal === null ? exitCode !== 0 && `exit code ${exitCode}` : `ended by ${signal}`,
    words !== '' && quoteName(words),
  ]
    .filter(Boolean)
    .join(', ');
}

function killProcessGroup(leader: number): void {
  process.kill(-leader, 'SIGKILL');
}

/**
 * Asks nvidia-smi for the GPUs of this machine. Simultaneous calls share one process, which is killed when it takes too
 * long. If it survives that, because it hangs in the driver, no other one is started before it has ended.
 */
export class NvidiaSmi {
  #underWay: Promise<readonly GpuRow[]> | null = null;
  #isClosed = false;
  #giveUp: ((cause: NoGpuAnswer) => void) | null = null;
  #abandoned: { readonly pid: number; readonly end: Promise<unknown> } | null = null;
  readonly #oddities = new Set<string>();

  /**
   * @param killGroup ends all processes of a group
   * @param onOdd called once for each different oddity in answers that list GPUs
   */
  constructor(
    private readonly deadline = defaultDeadline,
    private readonly killGroup: (leader: number) => void = killProcessGroup,
    private readonly onOdd: (oddity: string) => void = () => {},
    readonly environment: NodeJS.ProcessEnv = process.env,
  ) {}

  /**
   * All GPUs; an empty list if the program is not installed, or finds no GPU.
   * @throws NoGpuAnswer
   */
  ask(): Promise<readonly GpuRow[]> {
    this.#underWay ??= this.#ask().finally(() => {
      this.#underWay = null;
    });
    return this.#underWay;
  }

  /** Ends a call in progress. Later calls fail. */
  close(): void {
    this.#isClosed = true;
    this.#giveUp?.(new NoGpuAnswer(closedMessage));
  }

  async #ask(): Promise<readonly GpuRow[]> {
    if (this.#isClosed) throw new NoGpuAnswer(closedMessage);
    // A process that was killed a moment ago will soon be gone.
    if (this.#abandoned) await Promise.race([this.#abandoned.end, delay(killGrace)]);
    if (this.#abandoned) {
      throw new NoGpuAnswer(
        `nvidia-smi (process ${this.#abandoned.pid}) hangs and could not be ended; no other is started before it has`,
      );
    }
    try {
      const end = await this.#run();
      const rows = rowsOf(end);
      if (rows.length > 0) this.#tellOdd(oddityOf(end));
      return rows;
    } catch (cause) {
      if (cause instanceof NoGpuAnswer) throw cause;
      if (errorCode(cause) === 'ENOENT' && !isInstalled(this.environment)) return [];
      throw new NoGpuAnswer(`nvidia-smi could not be started: ${faultWithoutPath(cause)}`, { cause });
    }
  }

  #tellOdd(oddity: string): void {
    if (oddity === '' || this.#oddities.has(oddity) || this.#oddities.size === mostOddities) return;
    this.#oddities.add(oddity);
    this.onOdd(oddity);
  }

  async #run(): Promise<ProgramEnd> {
    // In a group of its own, so that its children can be ended with it. Not execa: its promise settles only when the process
    // has ended and its pipes are closed, and a process that hangs in the driver must be given up before that.
    const child = spawn(program, args, {
      cwd: '/',
      env: this.environment,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let isClosed = false;
    let timer: NodeJS.Timeout | undefined;
    try {
      const given = new Promise<never>((_, reject) => {
        this.#giveUp = reject;
      });
      const fail = (problem: string) => this.#giveUp?.(new NoGpuAnswer(problem));
      const tooLong = () => fail(`nvidia-smi printed more than ${maxAnswerBytes} bytes`);
      const late = `nvidia-smi did not answer within ${this.deadline / 1000} seconds`;
      timer = setTimeout(() => fail(late), this.deadline);
      const end = await Promise.race([programEnd(child, (stream) => collect(stream, tooLong)), given]);
      isClosed = end.isClosed;
      return end;
    } finally {
      clearTimeout(timer);
      this.#giveUp = null;
      if (!isClosed && child.pid !== undefined) this.#abandon(child, child.pid);
    }
  }

  /** Kills a process that is no longer needed, and remembers it until it has ended and its pipes are closed. */
  #abandon(child: ChildProcess, pid: number): void {
    const end = once(child, 'close').finally(() => {
      this.#abandoned = null;
    });
    end.catch(() => {});
    this.#abandoned = { pid, end };
    child.unref();
    for (const pipe of [child.stdout, child.stderr]) if (pipe instanceof Socket) pipe.unref();
    try {
      this.killGroup(pid);
    } catch {
      // It has ended, or belongs to another user.
    }
  }
}
