import { z } from 'zod';
import { readOwnFile } from '../../../files/own-file.js';
import { maxEndBytes, type RunEnd, type RunnerRecord, runFiles } from '../../../runner/protocol.js';
import type { Grant } from '../executor.js';
import { gpusOfEnvironment } from './environment.js';

/** Longest `run.json` and `runner.json` that are read, in bytes. */
const maxBytes = 64 << 20;

// Each schema is made when it is first used, so that a start does not wait for those of no job.
const identity = z.lazy(() =>
  z.object({
    pid: z.number().int().positive(),
    startTime: z.number().min(0),
    boot: z.string().default(''),
  }),
);

const runnerRecord = z.lazy(() =>
  z.object({
    runner: identity,
    // An earlier version did not note it.
    command: identity.nullable().default(null),
  }),
) satisfies z.ZodType<RunnerRecord>;

const runEnd = z.lazy(() =>
  z.object({
    exitCode: z.number().int().min(0).max(255).nullable(),
    signal: z
      .string()
      .regex(/^SIG[A-Z0-9]{1,12}$/)
      .nullable(),
    error: z.string().max(maxEndBytes).nullable(),
    lostLines: z.number().int().min(0).default(0),
    // An earlier version did not note it.
    fault: z.enum(['diskFull', 'outOfMemory']).nullable().default(null),
    wasAlone: z.boolean().default(false),
    endedAt: z.iso.datetime(),
  }),
) satisfies z.ZodType<RunEnd>;

/** The part of `run.json` that the server reads: the devices, which are in the environment of the command. */
const runRequest = z.lazy(() =>
  z.object({
    environment: z.record(z.string(), z.string()),
    // An earlier version did not note them.
    gpuUuids: z.array(z.string()).default([]),
  }),
);

/** Reads a file of a run; undefined if there is none. @throws for content that neither server nor runner writes */
function read<T>(schema: z.ZodType<T>, file: string, longest: number): T | undefined {
  const text = readOwnFile(file, longest);
  return text === undefined ? undefined : schema.parse(JSON.parse(text));
}

export const readRunnerRecord = (directory: string): RunnerRecord | undefined =>
  read(runnerRecord, runFiles(directory).record, maxBytes);

export const readRunEnd = (directory: string): RunEnd | undefined =>
  read(runEnd, runFiles(directory).end, 2 * maxEndBytes);

/** GPUs that a run was started with; undefined if that is not known. */
export function readRunGpus(directory: string): Pick<Grant, 'gpus' | 'gpuUuids'> | undefined {
  const request = read(runRequest, runFiles(directory).request, maxBytes);
  const gpus = request && gpusOfEnvironment(request.environment);
  return gpus && { gpus, gpuUuids: request.gpuUuids };
}
