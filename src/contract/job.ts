/** States of a job, in the order in which it passes through them; the last three are final. */
export const jobStates = ['queued', 'waiting', 'running', 'done', 'error', 'killed'] as const;
export type JobState = (typeof jobStates)[number];

/** The states that a job never leaves. */
export const finalStates = ['done', 'error', 'killed'] as const satisfies readonly JobState[];
export type FinalState = (typeof finalStates)[number];

export const isFinal = (state: JobState): state is FinalState =>
  (finalStates as readonly JobState[]).includes(state);

/** Whether a job found its app loaded already, or it was loaded for it. */
export const jobStarts = ['cold', 'warm'] as const;
export type JobStart = (typeof jobStarts)[number];

/** Who may ask for the end of a job, and the error of a job that ended because of it. */
export const killErrors = { user: 'Killed by user', stop: 'The server was stopped' } as const;
export type KillCause = keyof typeof killErrors;

/** Bytes of a job's id; it is written in hexadecimal digits (spec.md, Job envelope). */
export const jobIdBytes = 6;

/** A job's id as a regular expression, for a larger one. */
export const jobIdSource = `[0-9a-f]{${2 * jobIdBytes}}`;
export const jobIdPattern = new RegExp(`^${jobIdSource}$`);

/** What every submission answers with (spec.md, Job envelope). */
export interface JobEnvelope {
  /** Of the form of `jobIdPattern`. */
  readonly job_id: string;
  readonly status_url: string;
  readonly logs_url: string;
  readonly result_url: string;
  /** Names of the options that the server read, sorted. */
  readonly accepted_options: readonly string[];
}

/** Names of a job's inputs that are shown at most. */
export const mostNames = 100;

/** Files of a job's output that are counted at most: then there may be more. */
export const mostCounted = 1000;

/** What `GET /jobs/{id}` answers with. Times are ISO 8601 or null. */
export interface JobView {
  readonly job_id: string;
  readonly status: JobState;
  readonly error: string | null;
  readonly app: string;
  readonly operation: string;
  /** The person's own word for it; null without one. */
  readonly tag: string | null;
  /** Names of its input files, as they were sent; at most `mostNames`. */
  readonly inputs: readonly string[];
  /** Name of the token that it was submitted with; null for the token of the environment, or none. */
  readonly owner: string | null;
  readonly created_at: string;
  readonly started_at: string | null;
  /** When it became final: its result was packed by then. */
  readonly finished_at: string | null;
  /** Seconds that its command ran, without the packing; null until it has ended, if it never ran, and of an earlier version. */
  readonly run_seconds: number | null;
  readonly expires_at: string | null;
  /** Seconds that it is kept after its end; null for a job of an earlier version. */
  readonly keep: number | null;
  /** Seconds that it may run; null for as long as it takes. */
  readonly time_limit: number | null;
  /** Files that a failed or killed job left in its output, at most `mostCounted`; null for others, or if not known. */
  readonly left_files: number | null;
  readonly assigned_gpus: readonly number[];
  /** Whether it found its app loaded; null for an app that does not stay loaded, and before it starts. */
  readonly start: JobStart | null;
  /** 1 is next; null once the job waits no more. */
  readonly queue_position: number | null;
  /** What a waiting job waits for, in words. */
  readonly waiting_for: string | null;
}

/** What `GET /jobs/{id}/result` answers with before the job has ended. */
export type UnfinishedJob = Pick<JobView, 'job_id' | 'status'>;

/** The same once the job has failed or was killed. */
export type EndedJob = Pick<JobView, 'job_id' | 'status' | 'error'>;

/** What `GET /jobs` answers with, newest first. */
export interface JobList {
  readonly jobs: readonly JobView[];
}

/** What `DELETE /jobs/{id}` answers with. */
export interface RemovedJob {
  readonly job_id: string;
  readonly status: 'removed';
}

/** The message of a kill that found a job that had ended. */
export const notRunning = 'Job not running';

/** What `POST /jobs/{id}/kill` answers with. */
export interface KillReply {
  readonly job_id: string;
  readonly status: JobState;
  readonly message: string;
}
