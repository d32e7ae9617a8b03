import type { JobAnswer } from '../client/connection/answer-schemas.js';
import { Colours } from './colours.js';
import { type Cell, formatPairs, formatTable } from './format.js';
import type { KillSummary } from './kill-jobs.js';

const colours = new Colours(process.stdout);

const status = (text: string): Cell => ({ text, paint: colours.state(text) });

/** A time to the minute; `--json` has the rest. */
const time = (iso: string | null): string | null =>
  iso ? iso.replace('T', ' ').replace(/(:\d\d):\d\d(\.\d+)?/, '$1') : null;

const gpus = (job: JobAnswer): string | null => job.assigned_gpus?.join(',') || null;

const queue = (job: JobAnswer): string | null =>
  job.queue_position ? `${job.queue_position} in the queue` : null;

/** One job, one fact a line. A server may leave some of them out. */
export function describeJob(job: JobAnswer): string[] {
  return formatPairs([
    ['Job', job.job_id],
    ['Status', status(job.status)],
    ['Error', job.error],
    ['Operation', job.operation],
    ['App', job.app],
    ['Position', queue(job)],
    ['Waiting for', job.waiting_for],
    ['GPUs', gpus(job)],
    ['Created', time(job.created_at)],
    ['Started', time(job.started_at)],
    ['Finished', time(job.finished_at)],
    ['Kept until', time(job.expires_at)],
  ]);
}

/** Jobs as a table, in the order of the server. */
export function listJobs(jobs: readonly JobAnswer[]): string[] {
  if (jobs.length === 0) return [];
  return formatTable(
    ['JOB', 'STATUS', 'OPERATION', 'APP', 'GPUS', 'CREATED'],
    jobs.map((job) => [
      job.job_id,
      status(job.status),
      job.operation ?? '',
      job.app ?? '',
      gpus(job) ?? '',
      time(job.created_at) ?? '',
    ]),
  );
}

/** Jobs that were killed, one a line. */
export const listKilled = ({ jobs }: KillSummary): string[] =>
  jobs.map((job) => `${job.job_id}  ${colours.state(job.status)(job.status)}`);
