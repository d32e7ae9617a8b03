import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { thisBoot } from '../files/boot-clock.js';
import { errorCode } from '../files/error-code.js';
import { spareArgument } from './spare-protocol.js';

/** Identifies a process, also against a later one with the same id. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from the machine's start to the process's start; 0 if the system does not tell. */
  readonly startTime: number;
  /** Id of the machine's boot; empty if the system does not tell. */
  readonly boot: string;
}

interface ProcessStatus extends Omit<ProcessIdentity, 'boot'> {
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  readonly threads: number;
  /** Ended, and waiting only for its parent to notice. */
  readonly isZombie: boolean;
  /** It does nothing until it is continued. */
  readonly isStopped: boolean;
}

/** Whether an error means that the process is gone or another user's. Others, like too many open files, say nothing. */
export const isAnswer = (cause: unknown): boolean =>
  ['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(errorCode(cause));

/**
 * Reads `/proc/<pid>/stat`. The name in parentheses may contain anything, so fields are counted from its end.
 * @throws the system's error if it cannot be determined whether the process exists
 */
export function readStatus(pid: number): ProcessStatus | undefined {
  try {
    // The encoding that is read fastest; a name in another one only looks different.
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
      threads: Number(fields[17]),
      startTime: Number(fields[19]),
    };
  } catch (cause) {
    if (isAnswer(cause)) return undefined;
    throw cause;
  }
}

/** Whether the system tells about its processes. */
export const hasProc = existsSync('/proc/self/stat');

/** The ids of all processes. */
export function processIds(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}

/** Whether a signal could be sent to it: a process id, or minus a group's. */
export function isSignalable(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return errorCode(cause) === 'EPERM';
  }
}

/** The identity of a running process, by which a later server finds it again. */
export const identify = (pid: number): ProcessIdentity => ({
  pid,
  startTime: readStatus(pid)?.startTime ?? 0,
  boot: thisBoot(),
});

/**
 * Whether that very process still runs.
 * @throws the system's error where that cannot be told
 */
export function isAlive({ pid, startTime, boot }: ProcessIdentity): boolean {
  if (!hasProc) return isSignalable(pid);
  if (boot !== '' && boot !== thisBoot()) return false;
  const status = readStatus(pid);
  return status !== undefined && !status.isZombie && status.startTime === startTime;
}

/**
 * Whether any process of the group still runs. A zombie that nobody reaps does not count.
 * @throws the system's error where that cannot be told
 */
export function isGroupAlive(group: number): boolean {
  if (!isSignalable(-group)) return false;
  if (!hasProc) return true;
  return processIds().some((pid) => {
    const status = readStatus(pid);
    return status !== undefined && status.group === group && !status.isZombie;
  });
}

/** The name of a runner that was a spare one before it had a job: the job directory follows. */
const runnerName = 'remote-app-runner ';
const spareName = 'remote-app-spare-runner';

/**
 * Bytes of arguments that a spare runner is started with. It writes its name over them, as `ps` shows it, when it is given a
 * job; a name that is longer is cut.
 */
export const nameRoom = 2048;

/** Whether there is room for the name of this directory's runner. */
export const hasNameRoom = (directory: string): boolean =>
  Buffer.byteLength(runnerName + directory) < nameRoom;

/** Gives this process the name of a spare runner. */
export function nameSpare(): void {
  if (hasProc) process.title = spareName;
}

/** Whether a process is a runner that has no job. */
export const isSpare = (pid: number): boolean => argumentsOf(pid)[0] === spareName;

/**
 * Whether a runner that had this directory's job is done with it: it has no job, or another one. Jobs are compared by their
 * ids, since a later server may name their place in other words.
 */
export function isDoneWith(pid: number, directory: string): boolean {
  const [name = ''] = argumentsOf(pid);
  if (name === spareName) return true;
  return name.startsWith(runnerName) && path.basename(name) !== path.basename(directory);
}

/** Gives this process the name of a job's runner. @throws Error if others do not see it */
export function nameRunner(directory: string): void {
  if (!hasProc) return;
  process.title = runnerName + directory;
  if (argumentsOf(process.pid)[0] !== process.title)
    throw new Error('The name of this process cannot be set');
}

/**
 * All runners of this machine, by the process id and the job directory that each was started with or given later. Linux only.
 * @throws the system's error where a process could not be looked at
 */
export function* runners(): Generator<{ readonly pid: number; readonly directory: string }> {
  if (!hasProc) return;
  for (const pid of processIds()) {
    const [name = '', program = '', directory] = pid === process.pid ? [] : argumentsOf(pid);
    if (name.startsWith(runnerName)) yield { pid, directory: name.slice(runnerName.length) };
    else if (directory && directory !== spareArgument && program.endsWith('/runner/main.js'))
      yield { pid, directory };
  }
}

/**
 * Finds the runner of a job directory by its arguments, for when its record cannot be read.
 * @throws the system's error where a process could not be looked at
 */
export function runnerNaming(wanted: string): ProcessIdentity | undefined {
  for (const { pid, directory } of runners()) if (directory === wanted) return identify(pid);
  return undefined;
}

/**
 * Finds the keeper of a worker's directory by its arguments.
 * @throws the system's error where a process could not be looked at
 */
export function keeperNaming(wanted: string): ProcessIdentity | undefined {
  for (const pid of hasProc ? processIds() : []) {
    const [, program = '', directory] = argumentsOf(pid);
    if (directory === wanted && program.endsWith('/keeper/main.js')) return identify(pid);
  }
  return undefined;
}

function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch (cause) {
    if (isAnswer(cause)) return [];
    throw cause;
  }
}
