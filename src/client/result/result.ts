import path from 'node:path';
import type { Writable } from 'node:stream';
import { resultName } from '../../contract/archives.js';
import { AnswerError } from '../connection/check-answer.js';
import type { Connection } from '../connection/connection.js';
import { type AwaitOptions, awaitResult } from './await-result.js';
import { download, streamSink } from './download.js';
import { type SavedArchive, saveArchive } from './save-archive.js';

/**
 * Waits for a job's result, saves it as `result.zip` in `directory` and extracts it there (spec.md, Job control).
 * @throws JobFailed for a job that ended without one; ClientError (exit 3) when the wait is over; ArchiveError
 */
export async function saveResult(
  connection: Connection,
  jobId: string,
  directory: string,
  options: AwaitOptions,
): Promise<SavedArchive> {
  const archive = path.join(directory, resultName);
  return saveArchive(connection, (headers) => awaitResult(connection, jobId, headers, options), archive, {
    reporter: options.reporter,
    again: `remote-app result ${jobId}`,
  });
}

/**
 * Waits for a job's result and writes the zip to a stream.
 * @returns the number of bytes, or null if the stream's reader has left
 */
export async function streamResult(
  connection: Connection,
  jobId: string,
  stream: Writable,
  options: AwaitOptions,
): Promise<number | null> {
  const bytes = await download(
    connection,
    (headers) => awaitResult(connection, jobId, headers, options),
    streamSink(stream, 'stdout', `run 'remote-app result ${jobId}' again`),
    { onProgress: (done, total) => options.reporter.progress('Downloading', done, total) },
  );
  if (bytes === 0) throw new AnswerError(connection.server, 'sent an archive of 0 bytes');
  return bytes;
}
