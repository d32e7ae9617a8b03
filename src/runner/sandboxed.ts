import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { formatBytes } from '../contract/text.js';
import { isAnswer, processIds, readStatus } from '../files/process-status.js';
import type { RunEnd, RunRequest } from './protocol.js';
import { signal } from './terminate.js';

/** Characters kept of bwrap's report: two short lines. */
const maxStatus = 64 * 1024;
/** Shells, and bwrap, add a signal's number to this. */
const signalBase = 128;

/** The signal that an exit code from 129 on stands for. */
const signalOf = (code: number): string | undefined =>
  Object.entries(constants.signals).find(([, number]) => number === code - signalBase)?.[0];

/**
 * Reads from bwrap how the command ended.
 * @returns the exit code, after the end of the stream; undefined if the command was never started
 */
export function readStatusOf(stream: Readable): Promise<number | undefined> {
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    if (text.length < maxStatus) text += chunk.toString('latin1');
  });
  stream.on('error', () => {});
  return new Promise((resolve) => {
    stream.once('close', () => {
      const code = /"exit-code"\s*:\s*(\d+)/.exec(text)?.[1];
      resolve(code === undefined ? undefined : Number(code));
    });
  });
}

/**
 * How a command in a sandbox ended. bwrap reports a signal as an exit code from 129 on, as shells do. A command that exits with
 * such a code counts as ended by the signal.
 */
export function endInSandbox(code: number): Pick<RunEnd, 'exitCode' | 'signal'> {
  const name = code > signalBase ? signalOf(code) : undefined;
  return name === undefined ? { exitCode: code, signal: null } : { exitCode: null, signal: name };
}

/** The descendants of a process, each with its distance. */
function* familyOf(leader: number): Generator<{ readonly pid: number; readonly depth: number }, void> {
  const parents = new Map<number, number>();
  for (const pid of processIds()) {
    const status = readStatus(pid);
    if (status && !status.isZombie) parents.set(pid, status.parent);
  }
  for (const pid of parents.keys()) {
    let depth = 0;
    let current: number | undefined = pid;
    for (; current !== undefined && current !== leader; depth += 1) current = parents.get(current);
    if (current === leader && depth > 0) yield { pid, depth };
  }
}

/** All processes that descend from one and whose parents all live. */
export const descendantsOf = (leader: number): number[] => [...familyOf(leader)].map(({ pid }) => pid);

/**
 * The processes inside a sandbox. bwrap itself does not count: the process that was started, and its child, which is the
 * first process of the sandbox. All others descend from that one, whatever they have done, as long as they live.
 */
export const processesInside = (leader: number): number[] =>
  [...familyOf(leader)].flatMap(({ pid, depth }) => (depth > 1 ? [pid] : []));

/**
 * Signals every process inside a sandbox, and not bwrap, whose end would end them all at once.
 * @returns whether there was one
 */
export function signalInside(leader: number, name: NodeJS.Signals): boolean {
  const inside = processesInside(leader);
  for (const pid of inside) signal(pid, name);
  return inside.length > 0;
}

/** Milliseconds between two checks, each of which examines all processes of the machine. Memory grows faster. */
const intervals = { memory: 500, processes: 1000 };

/** For ordinary users the kernel limits the number of processes (`server/sandbox/limits`), so it is not checked. */
const isRoot = process.getuid?.() === 0;

/** Why a job was ended, and what of the machine was at fault. */
export type Excess = Pick<RunEnd, 'error' | 'fault'>;

/** Bytes per line in the kernel's files about a process's memory. */
function bytesOf(text: string, name: string): number {
  return 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);
}

/** A kernel file about a process; empty if the process has ended or there is no such file. */
function readText(pid: number, name: 'status' | 'smaps_rollup'): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch (cause) {
    if (isAnswer(cause)) return '';
    throw cause;
  }
}

const sum = (figures: readonly number[]): number => figures.reduce((total, each) => total + each, 0);

/** Whether processes use more memory than this. What they share counts once. */
function haveMore(pids: readonly number[], max: number): boolean {
  const all = pids.map((pid) => readText(pid, 'status'));
  const own = sum(all.map((status) => bytesOf(status, 'RssAnon')));
  const shared = all.map((status) => bytesOf(status, 'RssShmem'));
  if (own + Math.max(0, ...shared) > max) return true;
  if (own + sum(shared) <= max) return false;
  // Exact, but slow: the kernel examines every page for this.
  return own + sum(pids.map((pid) => bytesOf(readText(pid, 'smaps_rollup'), 'Pss_Shmem'))) > max;
}

/** Which limit a sandbox's processes exceed; null if none. */
function excessOf(leader: number, { memory, processes }: RunRequest['limits']): Excess | null {
  const inside = processesInside(leader);
  const threads = inside.reduce((sum, pid) => sum + (readStatus(pid)?.threads ?? 0), 0);
  if (processes !== null && threads > processes) {
    const error = `It was ended with more than the ${processes} processes and threads that a job may have on this server`;
    return { error, fault: null };
  }
  if (memory === null || !haveMore(inside, memory)) return null;
  const error = `It was ended with more than the ${formatBytes(memory)} of memory that a job may use on this server`;
  return { error, fault: 'outOfMemory' };
}

/** Enforces the limits of a job in its sandbox from now on. */
export class LimitWatch {
  /** What was exceeded; null if nothing was. */
  excess: Excess | null = null;
  readonly #timer: NodeJS.Timeout | undefined;

  /** @param end ends the job at once */
  constructor(leader: number, { memory, processes }: RunRequest['limits'], end: () => void) {
    const limits = { memory, processes: isRoot ? processes : null };
    if (limits.memory === null && limits.processes === null) return;
    this.#timer = setInterval(
      () => {
        try {
          this.excess ??= excessOf(leader, limits);
        } catch {
          // Retried the next time, for example after too many open files.
        }
        if (this.excess !== null) end();
      },
      memory === null ? intervals.processes : intervals.memory,
    ).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
