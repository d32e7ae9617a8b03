import path from 'node:path';
import type { Writable } from 'node:stream';
import { ArchiveError } from '../../archive/index.js';
import {
  appConfigPath,
  configName,
  counted,
  errorKinds,
  exitCodes,
  isPlainWord,
  quotePath,
  resultName,
  shellWord,
} from '../../contract/index.js';
import { AnswerError, type Connection, type Patience, type Reply } from '../connection/index.js';
import { ClientError, leaving, UsageError } from '../errors.js';
import { nextCommand } from '../next-command.js';
import type { Reporter } from '../reporter.js';
import { type AwaitOptions, awaitResult } from './await-result.js';
import { download, streamSink } from './download.js';
import { type Destination, hasFiles, type OutputDirectory } from './place.js';
import { type SavedArchive, saveArchive } from './save-archive.js';

/** A result that was written to a stream as it came. */
export interface StreamedArchive {
  readonly bytes: number;
}

/** A path that can be typed behind a flag as it stands. */
const isPlain = (text: string): boolean => isPlainWord(text) && !text.startsWith('-');

/** The command that fetches a result again, into the same place. */
function fetchAgain(
  jobId: string,
  { directory, taken }: OutputDirectory,
  { isPartial = false }: AwaitOptions,
): string {
  const place = taken === 'number' ? '' : ` -o ${isPlain(directory) ? directory : 'DIR'}`;
  const flags = `${taken === 'replace' ? ' --force' : ''}${isPartial ? ' --partial' : ''}`;
  return nextCommand(`result ${jobId}${place}${flags}`);
}

/** Asks for the result with these headers more. */
type Request = (headers: Readonly<Record<string, string>>, patience: Patience) => Promise<Reply>;

/**
 * Fetches a result. If that is interrupted, or given up, the job is named and how to go on: the result stays on the server.
 * @param again the command that fetches it again
 * @param fetch is handed the request to make
 */
async function fetching<T>(
  connection: Connection,
  jobId: string,
  again: string,
  options: AwaitOptions,
  fetch: (request: Request) => Promise<T>,
): Promise<T> {
  let isDone = options.isDone ?? false;
  try {
    return await fetch(async (headers, patience) => {
      const reply = await awaitResult(connection, jobId, headers, { ...options, isDone, again, patience });
      isDone = true;
      return reply;
    });
  } catch (error) {
    if (connection.signal?.aborted) {
      const state = isDone ? 'is done' : 'goes on';
      options.reporter.note(`Job ${jobId} ${state}; '${again}' fetches its result`);
      throw ofJob(jobId, connection.signal.reason);
    }
    throw ofJob(jobId, connection.isMet ? leaving(jobId, error, { isDone, again }) : error);
  }
}

/** The error with the job that it is about. */
function ofJob(jobId: string, error: unknown): unknown {
  if (error instanceof ClientError) return error.about(jobId);
  if (!(error instanceof ArchiveError)) return error;
  return new ClientError(error.message, exitCodes.failed, {}, { cause: error }).about(jobId);
}

/**
 * Waits for a job's result, saves it as `result.zip` in a directory and extracts it there (spec.md, Job control).
 * @throws JobFailed for a job that ended without one; ClientError (exit 3) when the wait is over, and for an archive that must
 * not be extracted
 */
export async function saveResult(
  connection: Connection,
  jobId: string,
  destination: OutputDirectory,
  options: AwaitOptions,
): Promise<SavedArchive> {
  const { reporter } = options;
  const again = fetchAgain(jobId, destination, options);
  const saved = await fetching(connection, jobId, again, options, (request) =>
    saveArchive(connection, request, { reporter, name: resultName, output: destination, again }),
  );
  const isElsewhere = saved.output !== path.resolve(destination.directory);
  const why = isElsewhere ? `, because ${quotePath(destination.directory)} has other files` : '';
  reporter.note(`Saved ${counted(saved.files, 'file')} in ${saved.output}${why}`);
  return saved;
}

/** Waits for a job's result and writes the zip to a stream. A reader that leaves is no error. */
async function streamResult(
  connection: Connection,
  jobId: string,
  stream: Writable,
  options: AwaitOptions,
): Promise<StreamedArchive> {
  const again = nextCommand(`result ${jobId} -o -${options.isPartial ? ' --partial' : ''}`);
  const bytes = await fetching(connection, jobId, again, options, (request) =>
    download(connection, request, streamSink(stream, 'stdout', `run '${again}'`), {
      onProgress: (done, total) => options.reporter.progress('Downloading', done, total),
      watcher: options.reporter,
    }),
  );
  if (bytes === 0) throw new AnswerError(connection.server, 'sent an archive of 0 bytes');
  return { bytes: bytes ?? 0 };
}

/** Waits for a job's result and brings it to its destination. */
export const fetchResult = (
  connection: Connection,
  jobId: string,
  destination: Destination,
  options: AwaitOptions,
): Promise<SavedArchive | StreamedArchive> =>
  'stream' in destination
    ? streamResult(connection, jobId, destination.stream, options)
    : saveResult(connection, jobId, destination, options);

/**
 * Downloads an app's configuration files to a directory (spec.md, App repository). The server chooses their names.
 * @param isForced whether files that are there may be replaced
 * @throws UsageError for a directory that has files
 */
export async function saveAppConfig(
  connection: Connection,
  app: string,
  directory: string,
  isForced: boolean,
  reporter: Reporter,
): Promise<SavedArchive> {
  if (!isForced && hasFiles(directory)) {
    throw new UsageError(
      `${quotePath(directory)} has files already, which the configuration could replace; name another directory with --config, or write into this one with --force`,
    );
  }
  const asked = appConfigPath(app);
  const request = async (headers: Readonly<Record<string, string>>) => {
    const reply = await connection.send(asked, { headers });
    if (reply.statusCode < 300 || reply.statusCode === errorKinds.noSuchRange.status) return reply;
    throw await connection.refused(reply, asked);
  };
  return saveArchive(connection, request, {
    reporter,
    name: configName,
    output: { directory, taken: isForced ? 'replace' : 'refuse' },
    again: nextCommand(`apps ${shellWord(app)} --config DIR`),
  });
}
