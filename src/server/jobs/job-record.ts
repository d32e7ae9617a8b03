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

/** The version of `job.json` that this server writes. The oldest records have no version. */
const currentVersion = 1;

const time = z.iso.datetime();
const id = z.number().int().min(0);

const deviceRequest = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('gpus'), ids: z.array(id).min(1) }),
  z.object({ kind: z.literal('anyGpu') }),
  z.object({ kind: z.literal('cpu'), workers: z.number().int().min(1) }),
]);

const value = z.union([z.string(), z.number(), z.boolean(), z.array(z.string()), z.array(z.number())]);

/** Files by field, one list of absolute paths per group. An archive is one group with one directory. */
const jobFiles = z.record(z.string(), z.array(z.array(z.string())));

const jobRequest = z.object({
  app: z.string(),
  operation: z.enum(operationNames as [OperationName, ...OperationName[]]),
  values: z.record(z.string(), value),
  device: deviceRequest,
  acceptedOptions: z.array(z.string()),
  /** Missing in records of an earlier version. */
  tag: z.string().nullable().default(null),
  /** Whether the client said that nothing sent tells who somebody is. Missing in records of an earlier version. */
  deidentified: z.boolean().default(false),
  /** Names of the first input files, as the client sent them. Missing in records of an earlier version. */
  inputs: z.array(z.string()).default([]),
  idempotencyKey: z.string().nullable(),
  /** Name of the token used for the submission; null for the admin. Missing in records of an earlier version. */
  owner: z.string().nullable().default(null),
  /** Seconds that it is kept after its end. Missing in records of an earlier version. */
  keep: z.number().min(0).max(longestDuration).nullable().default(null),
  /** Seconds that it may run; null for no limit, which earlier versions did not have. */
  timeLimit: z.number().min(0).max(longestDuration).nullable().default(null),
});

const jobRecord = z.object({
  version: z.literal(currentVersion),
  id: z.string(),
  request: jobRequest,
  state: z.enum(jobStates),
  error: z.string().nullable(),
  /** Whether the app refused its input; the error then gives the reason. Missing in records of an earlier version. */
  isRefused: z.boolean().default(false),
  createdAt: time,
  /** Bytes of its upload. Missing in records of an earlier version. */
  uploadBytes: z.number().min(0).nullable().default(null),
  startedAt: time.nullable(),
  finishedAt: time.nullable(),
  /** Seconds that its command ran; null before its end, and if it never ran. Missing in records of an earlier version. */
  ranFor: z.number().min(0).nullable().default(null),
  /**
   * Number of files left in its output if it failed, up to the counting limit. Missing in records of an earlier version.
   */
  leftFiles: id.nullable().default(null),
  /** Of its command; null before its end, and if it never ran. Missing in records of an earlier version. */
  exitCode: z.number().int().nullable().default(null),
  /**
   * Whether the program of `serve --on-end` is to be run for its end, or was about to be; null if it need not be. Missing in
   * records of an earlier version.
   */
  endNotice: z.enum(['due', 'begun']).nullable().default(null),
  /** Bytes of its result, as counted by `resultSize`; null without one. Missing in records of an earlier version. */
  resultBytes: z.number().min(0).nullable().default(null),
  /** Until when it is kept, as announced at its end: a later server keeps that promise. */
  expiresAt: time.nullable(),
  /** The same on the monotonic clock. Missing in records of an earlier version. */
  expiresAtBootTime: z.object({ boot: z.string(), seconds: z.number() }).nullable().default(null),
  /** When its result was fetched to the last byte; null until then, and in records of an earlier version. */
  fetchedAt: time.nullable().default(null),
  /** When its run time is used up, on the monotonic clock; null before it runs, and without a limit. */
  limitAtBootTime: z.object({ boot: z.string(), seconds: z.number() }).nullable().default(null),
  gpus: z.array(id),
  /** Missing in records of an earlier version. */
  gpuUuids: z.array(z.string()).default([]),
  cpuSlots: id,
  /**
   * Whether its app was already loaded; null if its app does not stay loaded. Missing in records of an earlier version.
   */
  start: z.enum(jobStarts).nullable().default(null),
  /** The version of its app when its command began; null if that is not known. Missing in records of an earlier version. */
  appVersion: z.string().nullable().default(null),
  /** Somebody asked for its end: it then counts as killed, however its command ends. */
  killRequested: z.boolean(),
  /** Who asked first. Missing in records of an earlier version. */
  killCause: z.enum(Object.keys(killErrors) as [KillCause, ...KillCause[]]).default('user'),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** `job.json`: the request and every transition. Times are ISO 8601. */
export type JobRecord = DeepReadonly<z.infer<typeof jobRecord>>;

/** The request, with all that is needed to run the job but its list of files, which may be long and is not kept in memory. */
export type JobRequest = JobRecord['request'];
export type JobFiles = DeepReadonly<z.infer<typeof jobFiles>>;

/** The record of a new job. */
export const newRecord = (
  jobId: string,
  request: JobRequest,
  createdAt: string,
  uploadBytes: number | null = null,
): JobRecord => ({
  version: currentVersion,
  id: jobId,
  request,
  state: 'queued',
  error: null,
  isRefused: false,
  createdAt,
  uploadBytes,
  startedAt: null,
  finishedAt: null,
  ranFor: null,
  leftFiles: null,
  exitCode: null,
  endNotice: null,
  resultBytes: null,
  expiresAt: null,
  expiresAtBootTime: null,
  fetchedAt: null,
  limitAtBootTime: null,
  gpus: [],
  gpuUuids: [],
  cpuSlots: 0,
  start: null,
  appVersion: null,
  killRequested: false,
  killCause: 'user',
});

/** Reads the text of a `files.json`. @throws Error if it is not one */
export function parseFiles(text: string): JobFiles {
  const parsed = jobFiles.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error('its files.json is of another shape');
  return parsed.data;
}

/** The files in a `job.json` of an earlier version, which had no `files.json`; undefined if it has none. */
export function filesInRecord(text: string): JobFiles | undefined {
  const { files } = (JSON.parse(text) as { request: { files?: unknown } }).request;
  return files === undefined ? undefined : jobFiles.safeParse(files).data;
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
