import type { Connection } from '../client/connection/connection.js';
import { UsageError } from '../client/errors.js';
import type { Reporter } from '../client/reporter.js';
import type { SavedArchive } from '../client/result/save-archive.js';

export interface FetchOptions {
  /** A directory, or `-` for stdout. */
  readonly output: string;
  /** Seconds. */
  readonly wait: number;
  readonly json: boolean;
}

export type ResultSummary = { readonly job_id: string } & (SavedArchive | { readonly bytes: number });

/**
 * Saves a job's result in a directory and extracts it, or writes the zip to stdout.
 * @throws UsageError if stdout would have to be a zip and a JSON document at once, or is a terminal
 */
export async function fetchResult(
  connection: Connection,
  jobId: string,
  { output, wait, json }: FetchOptions,
  reporter: Reporter,
): Promise<ResultSummary> {
  if (output === '-' && json) throw new UsageError('-o - and --json both want stdout; choose one');
  if (output === '-' && process.stdout.isTTY) {
    throw new UsageError('A zip is nothing for a terminal; name a directory with -o, or redirect stdout');
  }
  if (output !== '-') {
    const { checkOutput } = await import('../client/result/check-output.js');
    checkOutput(output);
  }
  const { saveResult, streamResult } = await import('../client/result/result.js');
  if (output === '-') {
    const bytes = await streamResult(connection, jobId, process.stdout, { wait, reporter });
    return { job_id: jobId, bytes: bytes ?? 0 };
  }
  const saved = await saveResult(connection, jobId, output, { wait, reporter });
  reporter.note(`Saved ${saved.files} file(s) in ${saved.output}`);
  return { job_id: jobId, ...saved };
}
