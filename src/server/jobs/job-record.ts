import { z } from 'zod';
import {
  jobStarts,
  jobStates,
  type KillCause,
  killErrors,
  longestDuration,
  type OperationName,
  operationNames,
} from '../../contract/index.js';

/** Version of `job.json` that this server writes. Records from before there were versions have none. */
const currentVersion = 1;

const time = z.iso.datetime();
const id = z.number().int().min(0);

const deviceRequest = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('gpus'), ids: z.array(id).min(1) }),
  z.object({ kind: z.literal('anyGpu') }),
  z.object({ kind: z.literal('cpu'), workers: z.number().int().min(1) }),
]);

const value = z.union([z.string(), z.number(), z.boolean(), z.array(z.string()), z.array(z.number())]);

const jobRequest = z.object({
  app: z.string(),
  operation: z.enum(operationNames as [OperationName, ...OperationName[]]),
  values: z.record(z.string(), value),
  /** Files by field, one list of absolute paths a group. An archive is one group of one directory. */
  files: z.record(z.string(), z.array(z.array(z.string()))),
  device: deviceRequest,
  acceptedOptions: z.array(z.string()),
  /** An earlier version did not note it. */
  tag: z.string().nullable().default(null),
  /** Names of the first input files, as the client sent them. An earlier version did not note them. */
  inputs: z.array(z.string()).default([]),
  idempotencyKey: z.string().nullable(),
  /** Name of the token that it came with; null for the admin's. There were no names in an earlier version. */
  owner: z.string().nullable().default(null),
  /** Seconds that it is kept after its end. An earlier version did not note it. */
  keep: z.number().min(0).max(longestDuration).nullable().default(null),
  /** Seconds that it may run; null for as long as it takes. There was no limit in an earlier version. */
  timeLimit: z.number().min(0).max(longestDuration).nullable().default(null),
});

const jobRecord = z.object({
  version: z.literal(currentVersion),
  id: z.string(),
  request: jobRequest,
  state: z.enum(jobStates),
  error: z.string().nullable(),
  /** The app has refused its input, and the error says why. An earlier version did not note it. */
  isRefused: z.boolean().default(false),
  createdAt: time,
  /** Bytes of its upload. An earlier version did not note them. */
  uploadBytes: z.number().min(0).nullable().default(null),
  startedAt: time.nullable(),
  finishedAt: time.nullable(),
  /** Seconds that its command ran; null before its end, and if it never ran. An earlier version did not note it. */
  ranFor: z.number().min(0).nullable().default(null),
  /** Files that it left in its output if it failed, as far as they were counted. An earlier version did not. */
  leftFiles: id.nullable().default(null),
  /** Bytes of its result, as `resultSize` counts them; null without one. An earlier version did not note them. */
  resultBytes: z.number().min(0).nullable().default(null),
  /** Until when it is kept, as it was told at its end: a later server keeps that promise. */
  expiresAt: time.nullable(),
  /** The same by a clock that nobody sets. An earlier version did not note it. */
  expiresAtBootTime: z.object({ boot: z.string(), seconds: z.number() }).nullable().default(null),
  /** When its result was fetched to the last byte; null until then, and in records of an earlier version. */
  fetchedAt: time.nullable().default(null),
  /** When it has run for as long as it may, by a clock that nobody sets; null before it runs, and without a limit. */
  limitAtBootTime: z.object({ boot: z.string(), seconds: z.number() }).nullable().default(null),
  gpus: z.array(id),
  /** An earlier version did not note them. */
  gpuUuids: z.array(z.string()).default([]),
  cpuSlots: id,
  /** Whether it found its app loaded; null for an app that does not stay loaded. An earlier version did not note it. */
  start: z.enum(jobStarts).nullable().default(null),
  /** Somebody asked for its end: then it counts as killed, however its command ends. */
  killRequested: z.boolean(),
  /** Who asked first. An earlier version did not note it. */
  killCause: z.enum(Object.keys(killErrors) as [KillCause, ...KillCause[]]).default('user'),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** `job.json`: the request and every transition. Times are ISO 8601. */
export type JobRecord = DeepReadonly<z.infer<typeof jobRecord>>;

/** The complete request: enough to run the job. */
export type JobRequest = JobRecord['request'];
export type JobFiles = JobRequest['files'];

/** The record of a new job. */
export const newRecord = (
  jobId: string,
  request: JobRequest,
  uploadBytes: number | null = null,
): JobRecord => ({
  version: currentVersion,
  id: jobId,
  request,
  state: 'queued',
  error: null,
  isRefused: false,
  createdAt: new Date().toISOString(),
  uploadBytes,
  startedAt: null,
  finishedAt: null,
  ranFor: null,
  leftFiles: null,
  resultBytes: null,
  expiresAt: null,
  expiresAtBootTime: null,
  fetchedAt: null,
  limitAtBootTime: null,
  gpus: [],
  gpuUuids: [],
  cpuSlots: 0,
  start: null,
  killRequested: false,
  killCause: 'user',
});

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
  const versioned =
    typeof json === 'object' && json !== null && !('version' in json)
      ? { ...json, version: currentVersion }
      : json;
  const parsed = jobRecord.safeParse(versioned);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue?.path.join('.') || 'it';
    throw new Error(`its job.json is of another shape: ${where}: ${issue?.message}`);
  }
  if (parsed.data.id !== jobId) throw new Error(`its job.json is that of job ${parsed.data.id.slice(0, 20)}`);
  return parsed.data;
}
