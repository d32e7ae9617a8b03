import { setTimeout as delay } from 'node:timers/promises';
import { isGroupAlive, processesWith } from './process-table.js';
import { jobMarker, outputFifo } from './protocol.js';

/** Milliseconds between two looks at whether processes are gone. */
const pollInterval = 20;
/** Milliseconds that the system may take to end what SIGKILL was sent to. */
const killPatience = 10_000;

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It ended first, which is what was wanted.
  }
}

/** Waits, for at most `patience` milliseconds, until `isLeft` is false; says whether it became so. */
async function becomesFalse(isLeft: () => boolean, patience: number): Promise<boolean> {
  const deadline = Date.now() + patience;
  while (isLeft()) {
    if (Date.now() >= deadline) return false;
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
  if (!isLeft()) return;
  signal(-group, 'SIGTERM');
  if (await becomesFalse(isLeft, grace)) return;
  signal(-group, 'SIGKILL');
  await becomesFalse(isLeft, killPatience);
}

/**
 * Ends every process that carries the job's mark or prints into its log: what left the group for a session of
 * its own. It was asked to end with the group, by the command that started it or not at all, so it gets no second
 * grace.
 */
export async function terminateStrays(jobId: string, workspace: string): Promise<void> {
  const strays = () => processesWith(`${jobMarker}=${jobId}`, outputFifo(workspace));
  const isLeft = () => {
    const left = strays();
    for (const pid of left) signal(pid, 'SIGKILL');
    return left.length > 0;
  };
  await becomesFalse(isLeft, killPatience);
}
