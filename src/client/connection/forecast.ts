import type { JobAnswer } from './answer-schemas.js';
import { jobs as listJobs } from './api.js';
import type { Connection } from './connection.js';

/** How long a job is likely to run, as far as earlier jobs tell. */
export interface Forecast {
  /** The median of the earlier jobs. */
  readonly seconds: number;
  /** How many jobs it is the median of. */
  readonly cases: number;
}

/** The newest jobs that count. */
const mostCases = 12;

/** The newest jobs of a server among which they are looked for. */
const mostListed = 200;

/** Shorter jobs, in seconds, end before a person has read about them. */
const shortest = 10;

/** The middle one of some numbers; undefined if there are none. */
const medianOf = (numbers: readonly number[]): number | undefined =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** The forecast that these run times make; null where they make none. @param seconds newest first */
export function forecastFrom(seconds: readonly number[]): Forecast | null {
  const counted = seconds.slice(0, mostCases);
  const median = medianOf(counted);
  return median === undefined || median < shortest ? null : { seconds: median, cases: counted.length };
}

/** What is known of the job that a forecast is for. */
type Like = Pick<JobAnswer, 'app' | 'operation'> & Partial<Pick<JobAnswer, 'inputs' | 'assigned_gpus'>>;

/**
 * The forecast for a job, from the jobs that a server lists: those that are done and had the same app and operation, and, as far as that
 * is known, as many inputs, and a GPU or none.
 * @param jobs newest first
 */
export function forecastOf(jobs: readonly JobAnswer[], like: Like): Forecast | null {
  const { app, operation, inputs, assigned_gpus: gpus } = like;
  if (app === null || operation === null) return null;
  const times = jobs.flatMap((job) => {
    const isLike =
      job.status === 'done' &&
      job.app === app &&
      job.operation === operation &&
      (inputs === undefined || job.inputs.length === inputs.length) &&
      (gpus == null || (job.assigned_gpus?.length ?? 0) > 0 === gpus.length > 0);
    return isLike && job.run_seconds !== null ? [job.run_seconds] : [];
  });
  return forecastFrom(times);
}

/**
 * A forecast from what a server lists. Null if it has no such list, as KonfAI's, or does not answer.
 * @param of picks it from the jobs, newest first
 */
export const askForecast = (
  connection: Connection,
  of: (jobs: readonly JobAnswer[]) => Forecast | null,
): Promise<Forecast | null> =>
  listJobs(connection, { limit: mostListed })
    .then(of)
    .catch(() => null);

/** The same for a job that the server has accepted. */
export const forecastOfJob = (connection: Connection, jobId: string): Promise<Forecast | null> =>
  askForecast(connection, (jobs) => {
    const own = jobs.find(({ job_id }) => job_id === jobId);
    return own ? forecastOf(jobs, own) : null;
  });
