import { readFileSync } from 'node:fs';
import { formatBytes } from '../contract/bytes.js';
import { isAnswer, readStatus } from './process-table.js';
import type { RunEnd, RunRequest } from './protocol.js';
import { processesInside } from './sandboxed.js';

/** Milliseconds between two looks, each of which goes through the processes of the whole machine. Memory grows faster. */
const intervals = { memory: 500, processes: 1000 };

/** For an ordinary user the kernel holds the number of processes (`server/sandbox/limits`), so that nobody has to look. */
const isRoot = process.getuid?.() === 0;

/** Why a job was ended, and what of the machine was at fault. */
export type Excess = Pick<RunEnd, 'error' | 'fault'>;

/** Bytes of a line of one of the kernel's files about a process that counts memory. */
function bytesOf(text: string, name: string): number {
  return 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);
}

/** What the kernel says of a process in a file; an empty text if the process has ended, or the kernel has no such file. */
function told(pid: number, name: 'status' | 'smaps_rollup'): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch (cause) {
    if (isAnswer(cause)) return '';
    throw cause;
  }
}

const sum = (figures: readonly number[]): number => figures.reduce((total, each) => total + each, 0);

/** Whether processes have more memory than this: what each has by itself, and what they share once. */
function haveMore(pids: readonly number[], most: number): boolean {
  const all = pids.map((pid) => told(pid, 'status'));
  const own = sum(all.map((status) => bytesOf(status, 'RssAnon')));
  const shared = all.map((status) => bytesOf(status, 'RssShmem'));
  if (own + Math.max(0, ...shared) > most) return true;
  if (own + sum(shared) <= most) return false;
  // Each has its part of what it shares. The kernel looks at every page for this.
  return own + sum(pids.map((pid) => bytesOf(told(pid, 'smaps_rollup'), 'Pss_Shmem'))) > most;
}

/** What of the limits is exceeded by a sandbox's processes; null for nothing. */
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

/** Holds the limits of a job in its sandbox, from now on. */
export class LimitWatch {
  /** What was exceeded; null for nothing. */
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
          // What cannot be looked at now (too many open files) is looked at again.
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
