import type { Connection } from '../../client/connection/index.js';
import type { Reporter } from '../../client/reporter.js';
import { fetchResult, type SavedArchive, type StreamedArchive } from '../../client/result/index.js';
import type { JobState } from '../../contract/index.js';
import { type Kept, keptOf, tellKept } from '../kept.js';
import { type OutputFlags, readDestination } from './destination.js';

export interface FetchFlags extends OutputFlags {
  /** Seconds. */
  readonly wait: number;
  readonly 'no-wait': boolean;
  readonly partial: boolean;
}

export type ResultSummary = {
  readonly job_id: string;
  /** Null if the server does not say. */
  readonly status: JobState | null;
} & (SavedArchive | StreamedArchive) &
  Kept;

/** Saves a job's result in a directory and extracts it, or writes the zip to stdout. */
export async function fetchJobResult(
  connection: Connection,
  jobId: string,
  flags: FetchFlags,
  json: boolean,
  reporter: Reporter,
): Promise<ResultSummary> {
  const destination = await readDestination(flags, json);
  const { wait, 'no-wait': isImpatient, partial: isPartial } = flags;
  const options = { wait, isImpatient, isPartial, reporter };
  const fetched = await fetchResult(connection, jobId, destination, options);
  const view = await tellKept(connection, jobId, reporter, false);
  if (isPartial && view && view.status !== 'done') {
    reporter.note(`Job ${jobId} did not get to its end (${view.status}): what it left may be incomplete`);
  }
  return { job_id: jobId, status: view?.status ?? null, ...fetched, ...keptOf(view) };
}
