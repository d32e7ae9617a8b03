import type { Writable } from 'node:stream';
import type { Connection } from '../../../src/client/connection/index.js';
import {
  type AwaitOptions,
  type OutputDirectory,
  ResultFetch,
  type SavedArchive,
} from '../../../src/client/result/index.js';

/**
 * Fetches a result and moves it to its place, as a command does.
 * @param complete adds files to it before
 */
export async function saveResult(
  connection: Connection,
  jobId: string,
  output: OutputDirectory,
  options: AwaitOptions,
  complete: (directory: string) => Promise<void> = async () => {},
): Promise<SavedArchive> {
  await using result = new ResultFetch(connection, jobId, output, options);
  try {
    await complete(await result.fetch());
    return await result.save();
  } catch (error) {
    throw result.explain(error);
  }
}

/** Fetches a result to a stream, as a command does. */
export async function streamResult(
  connection: Connection,
  jobId: string,
  stream: Writable,
  options: AwaitOptions,
): Promise<{ readonly bytes: number }> {
  const result = new ResultFetch(connection, jobId, { stream }, options);
  return result.stream(stream).catch((error: unknown) => {
    throw result.explain(error);
  });
}
