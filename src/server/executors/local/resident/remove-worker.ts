import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  isAlive,
  isSignalable,
  keeperNaming,
  type ProcessIdentity,
} from '../../../../runner/process-table.js';
import { signal, terminateGroup, terminateStrays } from '../../../../runner/terminate.js';
import { workerFiles } from '../../../../runner/worker-files.js';
import { readKeeperRecord } from './read-worker.js';

/** Milliseconds that a keeper may take to end after it has closed its socket, and between two looks. */
const endPatience = 2000;
const pollInterval = 20;

/** Whether a process runs; true if that cannot be told. */
function mayRun(found: ProcessIdentity): boolean {
  try {
    return isAlive(found);
  } catch {
    return true;
  }
}

/** The keeper of a directory, by its record or by its arguments. */
function keeperOf(directory: string): ProcessIdentity | undefined {
  try {
    return readKeeperRecord(directory)?.keeper ?? keeperNaming(directory);
  } catch {
    return undefined;
  }
}

/** Ends the keeper of a directory at once, if it runs. What it kept is ended by who notices that it is gone. */
export function killKeeper(directory: string): void {
  const keeper = keeperOf(directory);
  if (keeper && mayRun(keeper)) signal(keeper.pid, 'SIGKILL');
}

/**
 * Removes what is left of a keeper that nobody can reach any more: the keeper itself if it does not end, every process of
 * its worker, and its directory. Only for a directory directly below that of the workers, whose socket is closed. Never
 * rejects.
 */
export async function removeWorker(directory: string): Promise<void> {
  const record = readKeeperRecord(directory);
  const keeper = keeperOf(directory);
  const deadline = performance.now() + endPatience;
  while (keeper && mayRun(keeper)) {
    if (performance.now() > deadline) signal(keeper.pid, 'SIGKILL');
    await delay(pollInterval);
  }
  // A keeper that ends by itself has ended its worker, and removes its directory last.
  if (!existsSync(directory)) return;
  try {
    const worker = record?.worker;
    // If the process id belongs to another process by now, the worker's group is gone.
    if (worker && !(isSignalable(worker.pid) && !isAlive(worker))) await terminateGroup(worker.pid, 0);
  } catch {
    // Its processes are found by their environment.
  }
  await terminateStrays(path.basename(directory), workerFiles(directory).home);
  await rm(directory, { recursive: true, force: true }).catch(() => {});
}
