import { z } from 'zod';
import {
  gpuUses,
  jobErrorKinds,
  jobStarts,
  jobStates,
  type KillCause,
  killErrors,
  longestDuration,
  type Needs,
  type OperationName,
  operationNames,
  unknownNeeds,
} from '../../contract/index.js';

/** The version of `job.json`. */
const currentVersion = 1;

const time = z.iso.datetime();
const id = z.number().int().min(0);

/** A time on the monotonic clock. */
const bootTime = z.object({ boot: z.string(), seconds: z.number() });

const deviceRequest = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('gpus'), ids: z.array(id).min(1) }),
  z.object({ kind: z.literal('anyGpu') }),
  z.object({ kind: z.literal('cpu'), workers: z.number().int().min(1) }),
]);

const value = z.union([z.string(), z.number(), z.boolean(), z.array(z.string()), z.array(z.number())]);

/** Files by field, one list of absolute paths per group. An archive is one group with one directory. */
const jobFiles = z.record(z.string(), z.array(z.array(z.string())));

/** What is null until it is known. */
const later = <T extends z.ZodType>(type: T) => type.nullable().default(null);

const measure = later(z.number().min(0));

/** What its app declared that it needs when the job was submitted. */
const needs = z.object({
  gpu: z.enum(gpuUses),
  gpuMemory: measure,
  memory: measure,
  cpus: measure,
  disk: measure,
}) satisfies z.ZodType<Needs>;

const jobRequest = z.object({
  app: z.string(),
  operation: z.enum(operationNames as [OperationName, ...OperationName[]]),
  values: z.record(z.string(), value),
  device: deviceRequest,
  needs: needs.default(unknownNeeds),
  acceptedOptions: z.array(z.string()),
  tag: z.string().nullable(),
  /** Whether the client stated that nothing it sent identifies a person. */
  deidentified: z.boolean(),
  /** Names of the first input files, as the client sent them. */
  inputs: z.array(z.string()),
  idempotencyKey: z.string().nullable(),
  /** Name of the token used for the submission; null for the admin. */
  owner: z.string().nullable(),
  /** Seconds that it is kept after its end. */
  keep: z.number().min(0).max(longestDuration).nullable(),
  /** Seconds that it may run; null for no limit. */
  timeLimit: z.number().min(0).max(longestDuration).nullable(),
  /** Whether it runs once more, with its devices to itself, if it runs out of memory. */
  retryAlone: z.boolean().default(false),
});

const jobRecord = z.object({
  version: z.literal(currentVersion),
  id: z.string(),
  request: jobRequest,
  state: z.enum(jobStates),
  error: later(z.string()),
  /** Whether the app refused its input; the error then gives the reason. */
  isRefused: z.boolean().default(false),
  /** What kind of error it is, if that is known. */
  kind: later(z.enum(jobErrorKinds)),
  createdAt: time,
  /** Size of its submission in bytes. */
  uploadBytes: z.number().min(0),
  startedAt: later(time),
  finishedAt: later(time),
  /** Seconds that its command ran; null before its end, and if it never ran. */
  ranFor: measure,
  /**
   * Number of files left in its output if it failed, up to the counting limit.
   */
  leftFiles: later(id),
  /**
   * What it used, as far as it was measured: peak memory in bytes, peak memory on any one GPU in bytes, and CPU time in seconds.
   */
  peakMemory: measure,
  peakGpuMemory: measure,
  cpuSeconds: measure,
  /** Exit code of its command; null before its end, and if the command never ran. */
  exitCode: later(z.number().int()),
  /**
   * Whether the program of `serve --on-end` must still run for its end (`due`) or was about to run (`begun`); null if it need not
   * run.
   */
  endNotice: later(z.enum(['due', 'begun'])),
  /** Bytes of its result, as counted by `resultSize`; null without one. */
  resultBytes: measure,
  /** Until when it is kept, as announced at its end: a later server keeps that promise. */
  expiresAt: later(time),
  /** `expiresAt` on the monotonic clock. */
  expiresAtBootTime: later(bootTime),
  /** When its result was fetched to the last byte; null until then. */
  fetchedAt: later(time),
  /** When its run time is used up, on the monotonic clock; null before it runs, and without a limit. */
  limitAtBootTime: later(bootTime),
  /** Whether it ran out of memory once, and has had its devices to itself since then. */
  isAlone: z.boolean().default(false),
  gpus: z.array(id).default([]),
  gpuUuids: z.array(z.string()).default([]),
  cpuSlots: id.default(0),
  /**
   * Whether its app was already loaded; null if its app does not stay loaded.
   */
  start: later(z.enum(jobStarts)),
  /** The version of its app when its command began; null if that is not known. */
  appVersion: later(z.string()),
  /** Whether somebody asked to end it: it then counts as killed, however its command ends. */
  killRequested: z.boolean().default(false),
  /** Who first asked to end it. */
  killCause: z.enum(Object.keys(killErrors) as [KillCause, ...KillCause[]]).default('user'),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** `job.json`: the request and every transition. Times are ISO 8601. */
export type JobRecord = DeepReadonly<z.infer<typeof jobRecord>>;

/** The request: all that is needed to run the job except its list of files, which may be long and is not kept in memory. */
export type JobRequest = JobRecord['request'];
export type JobFiles = DeepReadonly<z.infer<typeof jobFiles>>;

/** The fields of the record of a job that has no devices. */
export const notPlaced = {
  startedAt: null,
  limitAtBootTime: null,
  gpus: [],
  gpuUuids: [],
  cpuSlots: 0,
  start: null,
} as const;

/** The record of a new job. */
export const newRecord = (
  jobId: string,
  request: JobRequest,
  createdAt: string,
  uploadBytes: number,
): JobRecord =>
  jobRecord.parse({
    ...{ version: currentVersion, id: jobId, state: 'queued' },
    ...{ request, createdAt, uploadBytes },
  });

/** Reads the text of a `files.json`. @throws Error if it is not one */
export function parseFiles(text: string): JobFiles {
  const parsed = jobFiles.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error('its files.json is of another shape');
  return parsed.data;
}

/**
 * Reads the text of a `job.json`.
 * @param jobId the name of its directory
 * @throws Error that says why it is not the record of that job
 */
export function parseRecord(text: string, jobId: string): JobRecord {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error(text.trim() === '' ? 'its job.json is empty' : 'its job.json is not JSON');
  }
  const parsed = jobRecord.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue?.path.join('.') || 'it';
    throw new Error(`its job.json is of another shape: ${where}: ${issue?.message}`);
  }
  if (parsed.data.id !== jobId) throw new Error(`its job.json is that of job ${parsed.data.id.slice(0, 20)}`);
  return parsed.data;
}
