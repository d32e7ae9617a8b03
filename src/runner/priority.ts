import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { errorCode } from '../files/error-code.js';

/**
 * The lowest there is. Fifty jobs that print at full speed are a hundred busy processes: with less between them and
 * the server, it answers late (bench, live-logs). The runner's is its command's, or a busy command would hold back
 * its own log.
 */
const niceness = constants.priority.PRIORITY_LOW;

/** Milliseconds of a session's full share: a start, and a short job, do not wait for what else the machine does. */
const headStart = 1000;

/** Milliseconds, at most, until the next attempt where another process was first. */
const retryPause = 400;
/** Ten processes a second get their turn: these are enough for a hundred. */
const retries = 100;

/**
 * Makes a child that was just started, and what it starts, give way to the server. It must have been started
 * detached: Linux shares the processor out between sessions first (sched(7), The autogroup feature), where it does
 * so niceness is only good within one, and what is lowered then is the whole session.
 */
export function lowerPriority(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    // At once: threads and children inherit it, and only from here on.
    setPriority(child.pid, niceness);
  } catch {
    // It has ended, or the system does not allow it: the job runs as well without.
  }
  setTimeout(() => lowerSession(child, retries), headStart).unref();
}

function lowerSession(child: ChildProcess, attempts: number): void {
  // The process id of a child that has ended may be another's.
  if (child.exitCode !== null || child.signalCode !== null) return;
  try {
    writeFileSync(`/proc/${child.pid}/autogroup`, String(niceness));
  } catch (cause) {
    // Without privileges the system takes one such write in 100 ms, of all processes together. Any other fault is
    // that of a system without these groups: there, niceness does.
    if (errorCode(cause) !== 'EAGAIN' || attempts === 0) return;
    setTimeout(() => lowerSession(child, attempts - 1), Math.random() * retryPause).unref();
  }
}
