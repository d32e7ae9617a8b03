import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { isSignalable, orElse } from '../../../files/index.js';
import {
  isAlive,
  type ProcessIdentity,
  signal,
  terminateGroup,
  terminateStrays,
  type WorkerHostRecord,
  type WorkerRequest,
  type WorkerState,
  workerFiles,
  workerHostIn,
} from '../../../runner/index.js';
import { processIdentity, readRunFile } from '../index.js';

const workerId = /^worker-[0-9a-f]{12}$/;

/** Whether this is the name of a worker's directory. */
export const isWorkerId = (name: string): boolean => workerId.test(name);

const words = z.array(z.string());
const count = z.number().min(0).nullable();

const workerRequest = z.object({
  id: z.string().regex(workerId),
  command: words,
  wrapper: words,
  isSandboxed: z.boolean(),
  filter: z.string().optional(),
  limits: z.object({ memory: count, processes: count }),
  inherited: words,
  environment: z.record(z.string(), z.string()),
  killGrace: z.number().min(0),
  idle: z.number().min(0),
  sharedBy: z.string(),
  content: z.string(),
  name: z.string(),
  owner: z.string().nullable(),
  isShared: z.boolean().default(false),
  gpus: z.array(z.number().int().min(0)),
  gpuUuids: words,
  gpuMemory: count.default(null),
  watched: words,
  seen: z.string(),
}) satisfies z.ZodType<WorkerRequest>;

const hostRecord = z.object({
  host: processIdentity,
  worker: processIdentity.nullable(),
}) satisfies z.ZodType<WorkerHostRecord>;

const workerState = z.object({
  state: z.enum(['loading', 'idle', 'busy', 'leaving']),
  job: z.string().nullable(),
}) satisfies z.ZodType<WorkerState>;

/** Reads a file of a worker host; undefined if there is none, or if its content was not written by a server or worker host. */
const read = <T>(schema: z.ZodType<T>, file: string): T | undefined =>
  orElse(() => readRunFile(schema, file), undefined);

export const readWorkerRequest = (directory: string): WorkerRequest | undefined =>
  read(workerRequest, workerFiles(directory).request);

const readHostRecord = (directory: string): WorkerHostRecord | undefined =>
  read(hostRecord, workerFiles(directory).record);

/** Checks the report of a worker host. @throws ZodError */
export const parseWorkerState = (state: unknown): WorkerState => workerState.parse(state);

/** Milliseconds that a worker host may take to exit after it has closed its socket, and between two checks. */
const endPatience = 2000;
const pollInterval = 20;

/** Whether a process runs; true if that cannot be determined. */
const mayRun = (found: ProcessIdentity): boolean => orElse(() => isAlive(found), true);

/** The worker host of a directory, found by its record or by its working directory. */
const hostOf = (directory: string): ProcessIdentity | undefined =>
  orElse(() => readHostRecord(directory)?.host ?? workerHostIn(directory), undefined);

/** Kills the worker host of a directory, if it is running. Its worker is ended afterwards, by `removeWorker`. */
export function killHost(directory: string): void {
  const host = hostOf(directory);
  if (host && mayRun(host)) signal(host.pid, 'SIGKILL');
}

/**
 * Removes what is left of an unreachable worker host: the worker host itself if it does not end, every process of its worker, and
 * its directory. Only for a directory directly below the directory of all workers, once its socket is closed. Never rejects.
 */
export async function removeWorker(directory: string): Promise<void> {
  const record = readHostRecord(directory);
  const host = hostOf(directory);
  const deadline = performance.now() + endPatience;
  while (host && mayRun(host)) {
    if (performance.now() > deadline) signal(host.pid, 'SIGKILL');
    await delay(pollInterval);
  }
  // A worker host that exits on its own has already ended its worker, and removes its directory last.
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
