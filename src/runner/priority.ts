import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { errorCode } from '../files/error-code.js';

/**
 * The lowest priority. Fifty jobs that print at full speed are a hundred busy processes; with a higher priority they make
 * the server answer late (bench row `live-logs`). Runner and command have the same priority, because a busy command would
 * otherwise delay its own log.
 */
const niceness = constants.priority.PRIORITY_LOW;

/** Milliseconds at normal priority, so that a start, or a short job, is not slowed down by what else the machine does. */
const headStart = 1000;

/** Most milliseconds until the next attempt, if another process was first. */
const retryPause = 400;
/** Number of attempts. The system allows ten such writes a second: this is enough for a hundred processes. */
const retries = 100;

/** Lowers the priority of a child that was just started, and of what it starts later. */
export function lowerNiceness({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    // Must be set at once: only threads and children that start later inherit it.
    setPriority(pid, niceness);
  } catch {
    // The child has ended, or the system does not allow it: the job runs at normal priority.
  }
}

/**
 * Lowers the priority of a child that was just started, or was just given a job, and of its children, below the server's.
 * The child must be started detached: with Linux's autogroups (sched(7)) niceness counts only within a session, so the
 * priority of its whole session is lowered as well, after a head start.
 * @param onLower called just before that
 * @returns what waits for the end of the head start
 */
export function lowerPriority(child: ChildProcess, onLower = () => {}): NodeJS.Timeout {
  lowerNiceness(child);
  return setTimeout(() => {
    onLower();
    lowerSession(child, retries);
  }, headStart).unref();
}

function lowerSession(child: ChildProcess, attempts: number): void {
  // The process id of a child that has ended may belong to another process.
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    writeFileSync(`/proc/${child.pid}/autogroup`, String(niceness));
  } catch (cause) {
    // Without privileges the system allows one such write in 100 ms, for all processes together. Any other error means
    // that the system has no autogroups, and there niceness is enough.
    if (errorCode(cause) !== 'EAGAIN' || attempts === 0) return;
    setTimeout(() => lowerSession(child, attempts - 1), Math.random() * retryPause).unref();
  }
}
