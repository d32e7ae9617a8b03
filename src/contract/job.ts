/** States of a job, in the order in which it passes through them; the last three are final. */
export const jobStates = ['queued', 'waiting', 'running', 'done', 'error', 'killed'] as const;
export type JobState = (typeof jobStates)[number];

/** The states that a job never leaves. */
export const finalStates = ['done', 'error', 'killed'] as const satisfies readonly JobState[];
export type FinalState = (typeof finalStates)[number];

export const isFinal = (state: JobState): state is FinalState =>
  (finalStates as readonly JobState[]).includes(state);

/** Kinds of errors that a program can tell apart. */
export const jobErrorKinds = ['out-of-memory'] as const;
export type JobErrorKind = (typeof jobErrorKinds)[number];

/** Whether the app was already loaded when the job started, or was loaded for it. */
export const jobStarts = ['cold', 'warm'] as const;
export type JobStart = (typeof jobStarts)[number];

/** Who may end a job, and the error of a job that was ended this way. */
export const killErrors = { user: 'Killed by user', stop: 'The server was stopped' } as const;
export type KillCause = keyof typeof killErrors;

/** Bytes of a job's id; it is written in hexadecimal digits (docs/http.md, Submission). */
export const jobIdBytes = 6;

/** Source of a regular expression for a job's id, for use inside larger ones. */
export const jobIdSource = `[0-9a-f]{${2 * jobIdBytes}}`;
export const jobIdPattern = new RegExp(`^${jobIdSource}$`);

/** The answer to every submission (docs/http.md, Submission). */
export interface JobEnvelope {
  /** Matches `jobIdPattern`. */
  readonly job_id: string;
  readonly status_url: string;
  readonly logs_url: string;
  readonly result_url: string;
  /** Names of the options that the server read, sorted. */
  readonly accepted_options: readonly string[];
}

/** Maximum number of input names shown for a job. */
export const maxNames = 100;

/** Maximum number of output files counted for a job; there may be more. */
export const maxCounted = 1000;

/** The answer of `GET /jobs/{id}`. Times are ISO 8601 or null. */
export interface JobView {
  readonly job_id: string;
  readonly status: JobState;
  readonly error: string | null;
  /** The kind of the error; null if there is no error, or it has no specific kind. */
  readonly kind: JobErrorKind | null;
  readonly app: string;
  readonly operation: string;
  /** The submitter's own label; null without one. */
  readonly tag: string | null;
  /** Whether the client declared that nothing it sent identifies a person. */
  readonly deidentified: boolean;
  /** Names of its input files, as they were sent; at most `maxNames`. */
  readonly inputs: readonly string[];
  /** Name of the token used for the submission; null for the token from the environment, or none. */
  readonly owner: string | null;
  readonly created_at: string;
  readonly started_at: string | null;
  /** When the job became final; its result is already packed then. */
  readonly finished_at: string | null;
  /** Run time of the job's command in seconds, without packing; null until the command has ended, and if it never ran. */
  readonly run_seconds: number | null;
  /** Peak memory of the job's processes, in bytes; null until they have ended, and if unknown. */
  readonly peak_memory: number | null;
  /** Peak memory on any one of the job's GPUs, in bytes; null until the job has ended, and if unknown. */
  readonly peak_gpu_memory: number | null;
  /** CPU time, in seconds. */
  readonly cpu_seconds: number | null;
  readonly expires_at: string | null;
  /** Seconds that it is kept after its end. */
  readonly keep: number | null;
  /** Seconds that it may run; null for no limit. */
  readonly time_limit: number | null;
  /** Number of files that a failed or killed job left in its output, at most `maxCounted`; null for other jobs, or if unknown. */
  readonly left_files: number | null;
  /** Bytes on the server's disk: the input of an active job, or everything left of an ended one. Null until they are counted. */
  readonly bytes_kept: number | null;
  readonly assigned_gpus: readonly number[];
  /** Whether the app was already loaded; null for an app that does not stay loaded, and before the job starts. */
  readonly start: JobStart | null;
  /**
   * The version of its app, as in the description of the app. Null before its command begins, while the version is being
   * computed, and if it is not known, for example because the files changed while the command ran.
   */
  readonly version: string | null;
  /** 1 is next; null once the job no longer waits. */
  readonly queue_position: number | null;
  /** What a waiting job waits for, as a phrase. */
  readonly waiting_for: string | null;
}

/** The answer of `GET /jobs/{id}/result` before the job has ended. */
export type UnfinishedJob = Pick<JobView, 'job_id' | 'status'>;

/** The answer of `GET /jobs/{id}/result` after the job has failed or was killed. */
export type EndedJob = Pick<JobView, 'job_id' | 'status' | 'error' | 'kind'>;

/** Maximum number of jobs in one answer of `GET /jobs`. */
export const maxListed = 1000;

/** The answer of `GET /jobs`, newest first. A full answer may have a next page: ask for jobs `before` the last one. */
export interface JobList {
  readonly jobs: readonly JobView[];
  /** How many jobs other owners have, if any; only for an admin who did not request all jobs. */
  readonly others?: number | undefined;
}

/** The answer of `DELETE /jobs/{id}`. */
export interface RemovedJob {
  readonly job_id: string;
  readonly status: 'removed';
}

/** The message of a kill request for a job that had already ended. */
export const notRunning = 'Job not running';

/** The answer of `POST /jobs/{id}/kill`. */
export interface KillReply {
  readonly job_id: string;
  readonly status: JobState;
  readonly message: string;
}
