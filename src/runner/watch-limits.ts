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

/** Bytes of a line of `/proc/<pid>/status` that counts memory. */
function bytesOf(status: string, name: string): number {
  return 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0);
}

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch (cause) {
    if (isAnswer(cause)) return '';
    throw cause;
  }
}

/** The memory of processes: what each has by itself, and once what they share, which the largest share tells of. */
function memoryOf(pids: readonly number[]): number {
  const all = pids.map(statusOf);
  const own = all.reduce((sum, status) => sum + bytesOf(status, 'RssAnon'), 0);
  return own + Math.max(0, ...all.map((status) => bytesOf(status, 'RssShmem')));
}

/** What of the limits is exceeded by a sandbox's processes; null for nothing. */
function excessOf(leader: number, { memory, processes }: RunRequest['limits']): Excess | null {
  const inside = processesInside(leader);
  const threads = inside.reduce((sum, pid) => sum + (readStatus(pid)?.threads ?? 0), 0);
  if (processes !== null && threads > processes) {
    const error = `It was ended with more than the ${processes} processes and threads that a job may have on this server`;
    return { error, fault: null };
  }
  if (memory === null || memoryOf(inside) <= memory) return null;
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
