import { type Connection, fetchLeft, type JobAnswer, jobs, leftText } from '../../client/connection/index.js';
import type { NextCommands } from '../../client/next-command.js';
import {
  commandOf,
  excerpt,
  formatBytes,
  isFinal,
  type JobState,
  type KillReply,
  maxNames,
  notRunning,
  quoteName,
} from '../../contract/index.js';
import {
  type Cell,
  type Colours,
  distanceTo,
  fitted,
  formatDistance,
  formatDuration,
  formatPairs,
  formatTable,
  formatTime,
  type Narrowing,
  readTime,
} from '../terminal/index.js';
import type { Watched } from './watch.js';

interface JobSelection {
  /** Only jobs in these states; in any state if undefined. */
  readonly states: readonly JobState[] | undefined;
  readonly tag: string | undefined;
  /** Whether only ids are shown. */
  readonly quiet: boolean;
  /** Whether the jobs of all owners are shown, with their owners. */
  readonly all: boolean;
  /** Maximum number of jobs shown. */
  readonly limit: number | undefined;
  /** Columns of the terminal; undefined if there is none. */
  readonly columns?: number | undefined;
  /** Whether the newest jobs come last, next to where a person types. */
  readonly newestLast?: boolean | undefined;
}

export interface JobsDocument {
  readonly jobs: readonly JobAnswer[];
}

/** Reads and formats the selected jobs of a server, for `jobs` with and without `--watch`. */
export function selectedJobs(
  connection: Connection,
  colours: Colours,
  { states, tag, quiet, all, limit, columns, newestLast = false }: JobSelection,
): Watched<JobsDocument> & { readonly none: string } {
  const none = noJobs(connection.server, states, tag);
  return {
    none,
    read: async () => {
      // The server cannot filter by state.
      const listed = await jobs(connection, { all, tag, ...(states ? {} : { limit }) });
      const selected = states ? listed.filter(({ status }) => states.includes(status)) : listed;
      return { jobs: selected.slice(0, limit) };
    },
    lines: (document) => {
      if (quiet) return document.jobs.map(({ job_id }) => job_id);
      if (document.jobs.length === 0) return [none];
      const [heading = '', ...rows] = listJobs(document.jobs, connection.now(), colours, all, columns);
      return [heading, ...(newestLast ? rows.reverse() : rows)];
    },
    change: (document) => JSON.stringify(document),
  };
}

const status = (text: string, colours: Colours): Cell => ({ text, paint: colours.state(text) });

/**
 * How long a job ran, or has been running; null if it has not started. Includes packing if the server does not report the run
 * time.
 */
function running({ run_seconds, started_at, finished_at }: JobAnswer, now: number): string | null {
  if (run_seconds !== null) return formatDuration(run_seconds);
  const start = readTime(started_at);
  if (start === null) return null;
  return formatDuration(((readTime(finished_at) ?? now) - start) / 1000);
}

const gpus = (job: JobAnswer): string | null => job.assigned_gpus?.join(',') || null;

/** Whether a resident app was already loaded for the job; null otherwise. */
function loading({ start }: JobAnswer): string | null {
  if (start === null) return null;
  return start === 'warm' ? 'loaded already' : 'loaded for this job';
}

const queue = (job: JobAnswer): string | null =>
  job.queue_position ? `${job.queue_position} in the queue` : null;

/** How long a job will be kept once it has ended; null if it has ended or the server does not say. */
export const keptAfterEnd = ({ status: state, keep }: JobAnswer): string | null =>
  isFinal(state) || keep === null ? null : `for ${formatDuration(keep)} after it ends`;

/** What a failed job left behind, and the command that fetches it; null if it left nothing, or the server does not say. */
const leftBehind = ({ job_id, left_files: left }: JobAnswer, connection: NextCommands): string | null =>
  left ? `${leftText(left)}: ${fetchLeft(connection, job_id)}` : null;

/** Maximum width of tags and input names in a table, in characters: two long ones would push the other columns off the screen. */
const widestName = 32;
/** Maximum number of input names shown for one job. */
const shownNames = 5;

/** The first input, and how many more there are. */
function firstInput({ inputs: [first, ...others] }: JobAnswer): string {
  if (first === undefined) return '';
  return excerpt(first, widestName) + (others.length > 0 ? ` +${others.length}` : '');
}

/** The first inputs, and how many more there are; null if the server does not say. */
function inputNames({ inputs }: JobAnswer): string | null {
  if (inputs.length === 0) return null;
  const more = inputs.length - shownNames;
  const known = inputs.length < maxNames ? `${more}` : `at least ${more}`;
  return inputs.slice(0, shownNames).join(', ') + (more > 0 ? ` and ${known} more` : '');
}

const atMost = (bytes: number | null) => (bytes === null ? null : `${formatBytes(bytes)} at most`);

/**
 * Describes one job, one fact per line. A server may leave some facts out.
 * @param now by the server's clock, in milliseconds
 */
export function describeJob(
  job: JobAnswer,
  now: number,
  colours: Colours,
  connection: NextCommands,
): string[] {
  const distance = (at: number) => formatDistance(at, now);
  const took = running(job, now);
  const finished = (at: number) => (took === null ? distance(at) : `${distance(at)}, took ${took}`);
  return formatPairs([
    ['Job', job.job_id],
    ['Status', status(job.status, colours)],
    ['Error', job.error],
    ['Kind', job.kind],
    ['Operation', job.operation && commandOf(job.operation)],
    ['App', job.app],
    ['Tag', job.tag],
    ['De-identified', job.deidentified ? 'yes, as the client said' : null],
    ['Inputs', inputNames(job)],
    ['Owner', job.owner],
    ['Position', queue(job)],
    ['Waiting for', job.waiting_for],
    ['GPUs', gpus(job)],
    ['App was', loading(job)],
    ['Created', formatTime(job.created_at, distance)],
    ['Started', formatTime(job.started_at, distance)],
    ['Finished', formatTime(job.finished_at, finished)],
    ['GPU memory', atMost(job.peak_gpu_memory)],
    ['Memory', atMost(job.peak_memory)],
    ['CPU time', job.cpu_seconds === null ? null : formatDuration(job.cpu_seconds)],
    ['Left', leftBehind(job, connection)],
    ['Time limit', job.time_limit === null ? null : formatDuration(job.time_limit)],
    ['Kept', keptAfterEnd(job)],
    ['Kept until', formatTime(job.expires_at, distance)],
    ['Size', job.bytes_kept === null ? null : `${formatBytes(job.bytes_kept)} on the server`],
  ]);
}

/** How the table is narrowed to fit a terminal. */
const narrowing: Narrowing = {
  names: ['APP', 'TAG', 'INPUT', 'OWNER'],
  dispensable: ['GPUS', 'SIZE', 'OPERATION', 'INPUT', 'RUN TIME', 'TAG', 'CREATED', 'APP', 'OWNER'],
};

/**
 * Formats jobs as a table, in the server's order.
 * @param now by the server's clock, in milliseconds
 * @param owners whether the owners are shown
 * @param columns of the terminal, which the table must fit
 */
function listJobs(
  jobs: readonly JobAnswer[],
  now: number,
  colours: Colours,
  owners: boolean,
  columns?: number,
): string[] {
  // A column without values is left out: tags are optional, and KonfAI's server reports neither of these.
  const all: readonly (readonly [heading: string, cell: (job: JobAnswer) => Cell, isShown?: boolean])[] = [
    ['JOB', (job) => job.job_id],
    ['OWNER', (job) => job.owner ?? '-', owners],
    ['STATUS', (job) => status(job.status, colours)],
    ['OPERATION', (job) => commandOf(job.operation ?? '')],
    ['APP', (job) => job.app ?? ''],
    ['TAG', (job) => excerpt(job.tag ?? '', widestName), jobs.some(({ tag }) => tag !== null)],
    ['INPUT', firstInput, jobs.some(({ inputs }) => inputs.length > 0)],
    ['GPUS', (job) => gpus(job) ?? ''],
    ['CREATED', (job) => distanceTo(job.created_at, now)],
    ['RUN TIME', (job) => running(job, now) ?? ''],
    ['SIZE', sizeOf, jobs.some((job) => job.bytes_kept !== null)],
  ];
  const shown = all.filter(([, , isShown = true]) => isShown);
  const table = {
    heading: shown.map(([heading]) => heading),
    rows: jobs.map((job) => shown.map(([, cell]) => cell(job))),
  };
  const { heading, rows } = fitted(table, narrowing, columns);
  return formatTable(heading, rows);
}

const sizeOf = ({ bytes_kept: bytes }: JobAnswer): string => (bytes === null ? '' : formatBytes(bytes));

/** The outcome of killing a job. */
export function killedLine({ job_id, status: state, message }: KillReply, colours: Colours): string {
  const hadEnded = state !== 'killed' || message === notRunning;
  return `${job_id}  ${colours.state(state)(state)}${hadEnded ? ' (had ended)' : ''}`;
}

/** How a job ended, and why if it has no result. */
export function endLine({ job_id, status: state, error }: JobAnswer, colours: Colours): string {
  return `${job_id}  ${colours.state(state)(state)}${error === null ? '' : `  ${excerpt(error)}`}`;
}

/** The selection of jobs, as part of a sentence: ` tagged 'study-7'`. */
export const tagged = (tag: string | undefined): string =>
  tag === undefined ? '' : ` tagged ${quoteName(tag)}`;

/** The message for an empty list: `No jobs on http://...`. */
export function noJobs(
  server: string,
  states: readonly JobState[] | undefined,
  tag: string | undefined,
): string {
  const which = states ? ` that are ${states.join(' or ')}` : '';
  return `No jobs${tagged(tag)}${which} on ${server}`;
}
