import { z } from 'zod';
import { readOwnFile } from '../../../../files/own-file.js';
import {
  type KeeperRecord,
  type KeeperState,
  type WorkerRequest,
  workerFiles,
} from '../../../../runner/worker-files.js';

/** Longest `worker.json` and `keeper.json` that are read, in bytes. */
const maxBytes = 64 << 20;

// Each schema is made when it is first used: most servers have no workers, and need not wait for them when they start.
const identity = z.lazy(() =>
  z.object({
    pid: z.number().int().positive(),
    startTime: z.number().min(0),
    boot: z.string().default(''),
  }),
);

const workerId = /^worker-[0-9a-f]{12}$/;

/** Whether a name is that of a worker's directory. */
export const isWorkerId = (name: string): boolean => workerId.test(name);

const workerRequest = z.lazy(() => {
  const words = z.array(z.string());
  const count = z.number().min(0).nullable();
  return z.object({
    id: z.string().regex(workerId),
    command: words,
    wrapper: words,
    isSandboxed: z.boolean(),
    filter: z.string().optional(),
    hasStage: z.boolean(),
    limits: z.object({ memory: count, processes: count }),
    inherited: words,
    environment: z.record(z.string(), z.string()),
    killGrace: z.number().min(0),
    idle: z.number().min(0),
    place: z.string(),
    content: z.string(),
    name: z.string(),
    owner: z.string().nullable(),
    gpus: z.array(z.number().int().min(0)),
    gpuUuids: words,
    watched: words,
    seen: z.string(),
  });
}) satisfies z.ZodType<WorkerRequest>;

const keeperRecord = z.lazy(() =>
  z.object({
    keeper: identity,
    worker: identity.nullable(),
  }),
) satisfies z.ZodType<KeeperRecord>;

const keeperState = z.lazy(() =>
  z.object({
    state: z.enum(['loading', 'idle', 'busy', 'leaving']),
    job: z.string().nullable(),
  }),
) satisfies z.ZodType<KeeperState>;

/** Reads a file of a keeper; undefined if there is none, or if it is not what server and keeper write. */
function read<T>(schema: z.ZodType<T>, file: string): T | undefined {
  try {
    const text = readOwnFile(file, maxBytes);
    return text === undefined ? undefined : schema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export const readWorkerRequest = (directory: string): WorkerRequest | undefined =>
  read(workerRequest, workerFiles(directory).request);

export const readKeeperRecord = (directory: string): KeeperRecord | undefined =>
  read(keeperRecord, workerFiles(directory).record);

/** What a keeper has told. @throws for what no keeper tells */
export const parseKeeperState = (text: string): KeeperState => keeperState.parse(JSON.parse(text));
