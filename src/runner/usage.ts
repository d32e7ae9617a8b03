import { readFileSync } from 'node:fs';
import { formatBytes } from '../contract/text.js';
import { hasProc, isAnswer, readStatus } from '../files/process-status.js';
import type { RunEnd, RunRequest, Usage } from './protocol.js';
import { descendantsOf, processesInside } from './sandboxed.js';

/** Milliseconds before the first measurement. The pause doubles each time, up to one of the values of `longestPause`. */
const firstPause = 50;
/** Shorter with a memory limit, because memory use may grow fast; longer without one, because each measurement costs time. */
const longestPause = { limited: 500, measured: 1000 };
/** Maximum share of a processor's time for measuring, without a memory limit: measuring thousands of processes takes long. */
const maxShare = 1 / 20;
/** Clock ticks per second in `/proc`, on every architecture. */
const ticksPerSecond = 100;

/**
 * The kernel limits the number of processes of ordinary users (`server/sandbox/limits`), but not that of root, for which it is
 * checked here.
 */
const isRoot = process.getuid?.() === 0;

/** Why a job was terminated, and what was at fault on the machine. */
export type Excess = Pick<RunEnd, 'error' | 'fault'>;

/** Why a job was terminated that exceeded its memory limit. */
export const memoryExcess = (limit: number): Excess => ({
  error: `It was stopped for using more than the ${formatBytes(limit)} of memory that a job may use on this server`,
  fault: 'outOfMemory',
});

/** Reads a number of bytes from a line of the kernel's files about a process's memory. */
function bytesOf(text: string, name: string): number {
  return 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);
}

/** The text of a kernel file about a process; empty if the process has ended or the file does not exist. */
function readText(pid: number, name: 'status' | 'smaps_rollup'): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch (cause) {
    if (isAnswer(cause)) return '';
    throw cause;
  }
}

const sum = (figures: readonly number[]): number => figures.reduce((total, each) => total + each, 0);

/**
 * The memory in bytes that processes use together. Shared memory counts once; its exact size is determined only if the limit
 * depends on it.
 */
function memoryOf(pids: readonly number[], limit: number): number {
  const all = pids.map((pid) => readText(pid, 'status'));
  const own = sum(all.map((status) => bytesOf(status, 'RssAnon')));
  const shared = all.map((status) => bytesOf(status, 'RssShmem'));
  const least = own + Math.max(0, ...shared);
  if (least > limit || own + sum(shared) <= limit) return least;
  // Exact, but slow: the kernel walks every page for this.
  return own + sum(pids.map((pid) => bytesOf(readText(pid, 'smaps_rollup'), 'Pss_Shmem')));
}

/** Measures what the processes of a job or a worker use, and enforces the limits of a sandbox. */
export class UsageWatch {
  /** What was exceeded; null if nothing was. */
  excess: Excess | null = null;
  readonly #limits: RunRequest['limits'];
  #timer: NodeJS.Timeout | undefined;
  /** Peak memory in bytes; null before the first measurement. */
  #peak: number | null = null;
  /** Clock ticks so far, and clock ticks at the start of a worker's current job. */
  #ticks = 0;
  #ticksBefore = 0;

  /** @param end kills the job at once */
  constructor(
    private readonly leader: number,
    private readonly request: Pick<RunRequest, 'isSandboxed' | 'limits'>,
    private readonly end: () => void,
  ) {
    const { memory, processes } = request.limits;
    this.#limits = request.isSandboxed
      ? { memory, processes: isRoot ? processes : null }
      : { memory: null, processes: null };
    if (hasProc) this.#lookIn(firstPause);
  }

  /** Starts the measurement of a worker's next job. */
  begin(): void {
    this.#tryToLook();
    this.#peak = null;
    this.#ticksBefore = this.#ticks;
  }

  /** What the processes have used since the job began. @param waited clock ticks of those that have ended, if known */
  usage(waited?: number): Usage {
    this.#tryToLook();
    const isKnown = waited !== undefined || this.#peak !== null;
    const ticks = Math.max(this.#ticks, waited ?? 0) - this.#ticksBefore;
    return { peakMemory: this.#peak, cpuSeconds: isKnown ? ticks / ticksPerSecond : null };
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #lookIn(pause: number): void {
    this.#timer = setTimeout(() => {
      const begin = performance.now();
      this.#tryToLook();
      if (this.excess !== null) this.end();
      // Limits are enforced even if the machine is busy.
      const isLimited = this.#limits.memory !== null;
      const rest = isLimited ? 0 : (performance.now() - begin) / maxShare;
      const longest = isLimited ? longestPause.limited : longestPause.measured;
      this.#lookIn(Math.max(Math.min(2 * pause, longest), rest));
    }, pause).unref();
  }

  #tryToLook(): void {
    try {
      this.#look();
    } catch {
      // Repeated at the next measurement; the cause may be too many open files.
    }
  }

  #look(): void {
    const { leader, request } = this;
    const pids = request.isSandboxed ? processesInside(leader) : [leader, ...descendantsOf(leader)];
    const all = pids.flatMap((pid) => readStatus(pid) ?? []);
    if (all.length === 0) return;
    const { memory: most, processes } = this.#limits;
    const memory = memoryOf(pids, most ?? Number.POSITIVE_INFINITY);
    const ticks = sum(all.map(({ ownTicks, childTicks }) => ownTicks + childTicks));
    this.#peak = Math.max(this.#peak ?? 0, memory);
    this.#ticks = Math.max(this.#ticks, ticks);
    if (processes !== null && sum(all.map(({ threads }) => threads)) > processes) {
      const error = `It was stopped for using more than the ${processes} processes and threads that a job may have on this server`;
      this.excess ??= { error, fault: null };
    } else if (most !== null && memory > most) {
      this.excess ??= memoryExcess(most);
    }
  }
}
