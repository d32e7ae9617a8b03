import { setTimeout as delay } from 'node:timers/promises';
import { orElse } from '../files/errors.js';
import { isGroupAlive } from '../files/process-status.js';
import { type Age, processesOfJob } from './process-table.js';
import { outputFifo } from './protocol.js';
import { removeShortTemporary } from './start-program.js';

/** Milliseconds between two checks whether processes have ended. */
const pollInterval = 20;
/** Maximum number of searches for processes that started while others were being stopped. */
const maxSearches = 50;

/** Sends a signal to a process, or to a group (a negative id). Does nothing if the process or group has ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process or group has already ended.
  }
}

/** Whether anything is left; true if that cannot be determined, for example because of too many open files. */
const mayBeLeft = (isLeft: () => boolean): boolean => orElse(isLeft, true);

/** Waits until `isLeft` is false, at most `patience` milliseconds. Returns whether it became false. */
async function becomesFalse(isLeft: () => boolean, patience: number): Promise<boolean> {
  const deadline = performance.now() + patience;
  while (mayBeLeft(isLeft)) {
    if (performance.now() >= deadline) return false;
    await delay(pollInterval);
  }
  return true;
}

const isAsked = (group: number): boolean => {
  signal(-group, 'SIGTERM');
  return true;
};

/**
 * Terminates a process group: SIGTERM, then SIGKILL for what is left of it after `grace` milliseconds. Resolves when no process
 * of the group is running.
 * @param ask sends the SIGTERM; called again until it returns true
 */
export async function terminateGroup(
  group: number,
  grace: number,
  ask: (group: number) => boolean = isAsked,
): Promise<void> {
  const isLeft = () => isGroupAlive(group);
  if (!mayBeLeft(isLeft)) return;
  let isAsking = true;
  const isLeftAsked = () => {
    if (isAsking) isAsking = !ask(group);
    return isLeft();
  };
  if (await becomesFalse(isLeftAsked, grace)) return;
  signal(-group, 'SIGKILL');
  // A process in an uninterruptible disk wait may stay for a long time, and holds its devices until it is gone.
  await becomesFalse(isLeft, Number.POSITIVE_INFINITY);
}

/**
 * Stops (SIGSTOP) the processes that `find` returns, and repeats this until it returns no new ones. If they were killed one by
 * one, a program that forks constantly could start new ones; stopped processes do not fork.
 * @param stopped collects all of them
 * @throws what `find` throws
 */
async function freeze(find: () => Promise<readonly number[]>, stopped: Set<number>): Promise<void> {
  for (let search = 0; search <= maxSearches; search += 1) {
    const running = (await find()).filter((pid) => !stopped.has(pid));
    if (running.length === 0) return;
    for (const pid of running) {
      signal(pid, 'SIGSTOP');
      stopped.add(pid);
    }
  }
}

/**
 * Kills every process that has the job's mark in its environment or prints to its log: processes that left the group for their
 * own session. No SIGTERM is sent, because the group has already had its grace period. Resolves when none of them is running.
 * Also removes the short name of the job's directory for temporary files.
 * @param age see `processesOfJob`
 */
export async function terminateStrays(jobId: string, workspace: string, age: Age = 'any'): Promise<void> {
  const strays = () => processesOfJob(jobId, outputFifo(workspace), age);
  for (;;) {
    const stopped = new Set<number>();
    try {
      await freeze(strays, stopped);
      if (stopped.size === 0) break;
    } catch {
      // Processes that could not be examined (too many open files) may still be running.
    }
    for (const pid of stopped) signal(pid, 'SIGKILL');
    await delay(pollInterval);
  }
  removeShortTemporary(jobId);
}
