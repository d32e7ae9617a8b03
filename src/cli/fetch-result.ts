import type { Connection } from '../client/connection/connection.js';
import type { Reporter } from '../client/reporter.js';
import type { StreamedArchive } from '../client/result/result.js';
import type { SavedArchive } from '../client/result/save-archive.js';
import { type OutputFlags, readDestination } from './destination.js';
import type { Kept } from './kept.js';

export interface FetchFlags extends OutputFlags {
  /** Seconds. */
  readonly wait: number;
  readonly 'no-wait': boolean;
}

export type ResultSummary = { readonly job_id: string } & (SavedArchive | StreamedArchive) & Kept;

/** Saves a job's result in a directory and extracts it, or writes the zip to stdout. */
export async function fetchJobResult(
  connection: Connection,
  jobId: string,
  flags: FetchFlags,
  json: boolean,
  reporter: Reporter,
): Promise<ResultSummary> {
  const destination = await readDestination(flags, json, jobId, reporter);
  const { fetchResult } = await import('../client/result/result.js');
  const { wait, 'no-wait': isImpatient } = flags;
  const fetched = await fetchResult(connection, jobId, destination, { wait, isImpatient, reporter });
  const { tellKept } = await import('./kept.js');
  return { job_id: jobId, ...fetched, ...(await tellKept(connection, jobId, reporter, false)) };
}
