import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { isGroupAlive, processesWith } from './process-table.js';
import { jobMarker, outputFifo } from './protocol.js';

/** Milliseconds between two looks at whether processes are gone. */
const pollInterval = 20;
/** Most looks for processes that started while the others were being stopped. */
const maxSweeps = 50;

/** Sends a signal to a process, or to minus a group; one that has ended is no fault. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It ended first, which is what was wanted.
  }
}

/** What cannot be looked at (too many open files) may still be there. */
function mayBeLeft(isLeft: () => boolean): boolean {
  try {
    return isLeft();
  } catch {
    return true;
  }
}

/** Waits, for at most `patience` milliseconds, until `isLeft` is false; says whether it became so. */
async function becomesFalse(isLeft: () => boolean, patience: number): Promise<boolean> {
  const deadline = performance.now() + patience;
  while (mayBeLeft(isLeft)) {
    if (performance.now() >= deadline) return false;
    await delay(pollInterval);
  }
  return true;
}

/**
 * Ends a process group: SIGTERM, then SIGKILL `grace` milliseconds later for what is left of it.
 * Resolves when no process of the group runs.
 */
export async function terminateGroup(group: number, grace: number): Promise<void> {
  const isLeft = () => isGroupAlive(group);
  if (!mayBeLeft(isLeft)) return;
  signal(-group, 'SIGTERM');
  if (await becomesFalse(isLeft, grace)) return;
  signal(-group, 'SIGKILL');
  // A process that waits for a disk may stay for long; while it is there, so are the devices that it holds.
  await becomesFalse(isLeft, Number.POSITIVE_INFINITY);
}

/**
 * Stops (SIGSTOP) what `find` finds, until a look finds nothing new. What is killed at once makes room for another
 * under the user's limit of processes, and a program that forks all the time takes it; what is stopped keeps its place
 * and forks no more.
 * @returns what there is now
 * @throws what `find` throws
 */
async function freeze(find: () => readonly number[]): Promise<readonly number[]> {
  const stopped = new Set<number>();
  for (let sweep = 0; ; sweep += 1) {
    const found = find();
    const running = found.filter((pid) => !stopped.has(pid));
    if (running.length === 0 || sweep === maxSweeps) return found;
    for (const pid of running) {
      signal(pid, 'SIGSTOP');
      stopped.add(pid);
    }
    // The server has others to answer in between.
    await nextTurn();
  }
}

/**
 * Ends every process that carries the job's mark or prints into its log: what left the group for a session of
 * its own. It was asked to end with the group, by the command that started it or not at all, so it gets no second
 * grace. Resolves when none of them runs.
 */
export async function terminateStrays(jobId: string, workspace: string): Promise<void> {
  const strays = () => processesWith(`${jobMarker}=${jobId}`, outputFifo(workspace));
  for (;;) {
    try {
      const left = await freeze(strays);
      if (left.length === 0) return;
      for (const pid of left) signal(pid, 'SIGKILL');
    } catch {
      // What cannot be looked at (too many open files) may still be there.
    }
    await delay(pollInterval);
  }
}
