import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { errorCode } from './errors.js';

/** What the kernel reports about a process. */
export interface ProcessStatus {
  readonly pid: number;
  /** Clock ticks from the machine's boot to the start of the process. */
  readonly startTime: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  readonly threads: number;
  /** Clock ticks on a processor: of the process itself, and of its children that have ended. */
  readonly ownTicks: number;
  readonly childTicks: number;
  /** Whether the process has ended and its parent has not reaped it yet. */
  readonly isZombie: boolean;
  /** Whether the process is stopped, and does nothing until it is continued. */
  readonly isStopped: boolean;
}

/** Whether an error means that the process is gone or another user's. Others, like too many open files, say nothing. */
export const isAnswer = (cause: unknown): boolean =>
  ['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(errorCode(cause));

/**
 * Reads `/proc/<pid>/stat`. The name in parentheses may contain anything, so fields are counted from the end.
 * @throws the system's error if it cannot be determined whether the process exists
 */
export function readStatus(pid: number): ProcessStatus | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state = ''] = fields;
    return {
      pid,
      isZombie: state === 'Z' || state === 'X',
      isStopped: state === 'T' || state === 't',
      parent: Number(fields[1]),
      group: Number(fields[2]),
      session: Number(fields[3]),
      ownTicks: Number(fields[11]) + Number(fields[12]),
      childTicks: Number(fields[13]) + Number(fields[14]),
      threads: Number(fields[17]),
      startTime: Number(fields[19]),
    };
  } catch (cause) {
    if (isAnswer(cause)) return undefined;
    throw cause;
  }
}

/** Whether this system has `/proc`. */
export const hasProc = existsSync('/proc/self/stat');

/** The ids of all processes. */
export function processIds(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}

/** Whether a signal could be sent to a process, given its id, or to a group, given its id negated. */
export function isSignalable(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return errorCode(cause) === 'EPERM';
  }
}

/**
 * Whether any process of a group is still running. A zombie that nobody reaps does not count.
 * @throws the system's error if that cannot be determined
 */
export function isGroupAlive(group: number): boolean {
  if (!isSignalable(-group)) return false;
  if (!hasProc) return true;
  return processIds().some((pid) => {
    const status = readStatus(pid);
    return status !== undefined && status.group === group && !status.isZombie;
  });
}
