import path from 'node:path';
import type { Writable } from 'node:stream';
import { ArchiveError } from '../../archive/index.js';
import {
  appConfigPath,
  configName,
  counted,
  errorKinds,
  excerpt,
  exitCodes,
  finalStates,
  isPlainWord,
  parameters,
  quotePath,
  resultName,
  resultPath,
  shellWord,
  withoutResult,
} from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import {
  AnswerError,
  backoff,
  bodyOf,
  type Connection,
  job,
  jobFailure,
  type Patience,
  pause,
  progressOf,
  type Reply,
  retryAfter,
} from '../connection/index.js';
import {
  ClientError,
  isTransient,
  isUnknownJob,
  type JobFailed,
  JobForgotten,
  UsageError,
  withResumeHint,
} from '../errors.js';
import type { Reporter } from '../reporter.js';
import { type DownloadRequest, download, streamSink } from './download.js';
import { ArchiveFetch, type SavedArchive } from './fetch-archive.js';
import { type Destination, hasFiles, type OutputDirectory } from './output-directory.js';

export interface AwaitOptions {
  /**
   * Longest wait for the result after the job has ended, in seconds. A job that has not ended is waited for without a
   * limit.
   */
  readonly wait: number;
  /** Whether to ask only once. */
  readonly isImpatient?: boolean | undefined;
  readonly reporter: Reporter;
  /** Whether the job is known to be done: the first request may fail, too, without ending the wait. */
  readonly isDone?: boolean | undefined;
  /** Whether to fetch what a failed job left, too. */
  readonly isPartial?: boolean | undefined;
  /** The patience of an interrupted download that is resumed; a new one by default. */
  readonly patience?: Patience | undefined;
  /** The command that fetches the result, if it is not the usual one. */
  readonly again?: string;
}

/** The state of a job that has not ended, from the answer 202; undefined if the job has ended, or the answer does not say. */
async function unfinishedState(text: string): Promise<string | undefined> {
  const data = await bodyOf(text, ({ unfinishedBody }) => unfinishedBody);
  const isEnded = data === undefined || (finalStates as readonly string[]).includes(data.status);
  return isEnded ? undefined : excerpt(data.status, 40);
}

/** What is being waited for. If the job itself is waiting, the server is asked what for. */
async function waitText(connection: Connection, jobId: string, state: string | undefined): Promise<string> {
  if (state === undefined) return `Waiting for the result of job ${jobId}`;
  const view = state === 'running' ? null : await job(connection, jobId).catch(() => null);
  return progressOf(view ?? { job_id: jobId, status: state });
}

/** The error for a failed job on a server that does not hand out what such a job left. */
const notHandedOut = (server: string, { message, exitCode, details }: JobFailed): ClientError =>
  new ClientError(`${message}; ${server} does not hand out what it left`, exitCode, details);

/** The error when the wait is over. */
function notReady(
  connection: Connection,
  jobId: string,
  state: string | undefined,
  waited: number,
): ClientError {
  const [logs, result] = ['logs', 'result'].map((each) => connection.nextCommand(`${each} ${jobId}`));
  const next = `'${logs}' follows it, '${result}' asks for its result again`;
  const message = state
    ? `Job ${jobId} is ${state}, and has no result yet: ${next}`
    : `Job ${jobId} has ended, and its result is not there after ${waited} seconds: ${next}`;
  return new ClientError(message, exitCodes.timedOut, { job_id: jobId, ...(state ? { status: state } : {}) });
}

/**
 * Asks for a job's result until it is ready (docs/http.md, Result). The time limit starts when the job
 * has ended: a running job is never given up.
 * @param headers of a resumed download
 * @returns the answer with the result, or with a part of it, or 416
 * @throws JobFailed for a job that ended without one; ClientError (exit 3) when the wait is over; GaveUp with the last
 *   error if the server did not answer properly until then
 */
async function awaitResult(
  connection: Connection,
  jobId: string,
  headers: Readonly<Record<string, string>>,
  options: AwaitOptions,
): Promise<Reply> {
  const { reporter } = options;
  const path = resultPath(jobId);
  const query = options.isPartial ? `?${parameters.partial.name}=1` : '';
  const afterWait = () => monotonicTime() + options.wait * 1000;
  /** Null while the job runs, as far as is known. */
  let deadline = options.isDone ? afterWait() : null;
  let isTold = false;
  const patience = options.patience ?? connection.patience(reporter);
  let met = connection.isMet || (options.isDone ?? false);
  for (let number = 0; ; number++) {
    let wait = backoff(number, 200, 2000);
    let state: string | undefined;
    try {
      const reply = await connection.send(path, { headers, query });
      met = true;
      if ([200, 206, errorKinds.noSuchRange.status].includes(reply.statusCode)) {
        // The patience is not renewed: only arriving bytes show that an outage is over.
        reporter.waiting(null);
        return reply;
      }
      const text = await connection.words(reply);
      const failure = await jobFailure(connection, jobId, reply.statusCode, text);
      if (failure) throw options.isPartial ? notHandedOut(connection.server, failure) : failure;
      if (reply.statusCode !== withoutResult.running) throw await connection.refusal(reply, path, text);
      patience.renew();
      const asked = retryAfter(reply);
      if (asked) wait = Math.min(asked, 30) * 1000;
      state = options.isDone ? undefined : await unfinishedState(text);
      if (state === undefined) deadline ??= afterWait();
      else deadline = null;
      const waited = await waitText(connection, jobId, state);
      reporter.waiting(waited, state !== undefined && !options.isImpatient && !isTold);
      isTold = true;
    } catch (error) {
      if ((number > 0 || options.isDone) && isUnknownJob(error)) {
        throw new JobForgotten(jobId, connection.server, error);
      }
      if (!met) throw error;
      if (!isTransient(error))
        throw withResumeHint(connection, jobId, error, { ...options, isKnown: isTold });
      // An error with advice on how to continue does not make the download retry.
      if (options.isImpatient) throw withResumeHint(connection, jobId, error, options);
      const left = deadline === null ? undefined : deadline - monotonicTime();
      await patience.after(error as Error, left).catch((reason: unknown) => {
        throw withResumeHint(connection, jobId, reason, options);
      });
      continue;
    }
    const isOver = deadline !== null && monotonicTime() + wait > deadline;
    if (isOver || options.isImpatient) {
      reporter.waiting(null);
      throw notReady(connection, jobId, state, options.isImpatient ? 0 : options.wait);
    }
    await pause(wait, connection.signal);
  }
}

/** A result that was written to a stream as it came. */
export interface StreamedArchive {
  readonly bytes: number;
}

/** Whether a path can be typed after a flag without quotes. */
const isPlain = (text: string): boolean => isPlainWord(text) && !text.startsWith('-');

/** The command that fetches a result again, to the same place. */
function fetchAgain(
  connection: Connection,
  jobId: string,
  destination: Destination,
  { isPartial = false }: AwaitOptions,
): string {
  const partial = isPartial ? ' --partial' : '';
  if ('stream' in destination) return connection.nextCommand(`result ${jobId} -o -${partial}`);
  const { directory, taken, isPrivate, withoutArchive } = destination;
  if (isPrivate) return connection.nextCommand(`result ${jobId} -o DIR`);
  const place = taken === 'number' ? '' : ` -o ${isPlain(directory) ? directory : 'DIR'}`;
  const flags = `${taken === 'replace' ? ' --force' : ''}${partial}${withoutArchive ? ' --no-zip' : ''}`;
  return connection.nextCommand(`result ${jobId}${place}${flags}`);
}

/**
 * The result of a job on its way to this machine (docs/http.md, Result). `fetch` waits for it and extracts it in a private directory,
 * where files can be added; `place` then moves all of them to their place. `stream` waits for it and writes the zip to a stream.
 */
export class ResultFetch implements AsyncDisposable {
  /** The command that fetches it again. */
  readonly #again: string;
  readonly #archive: ArchiveFetch | null;
  #isDone: boolean;

  constructor(
    private readonly connection: Connection,
    private readonly jobId: string,
    private readonly destination: Destination,
    private readonly options: AwaitOptions,
  ) {
    const again = fetchAgain(connection, jobId, destination, options);
    const { reporter, isDone = false } = options;
    this.#again = again;
    this.#isDone = isDone;
    this.#archive =
      'stream' in destination
        ? null
        : new ArchiveFetch({ reporter, name: resultName, output: destination, again });
  }

  /**
   * @throws JobFailed for a job that ended without a result; ClientError (exit 3) when the wait is over; ArchiveError for an archive
   * that must not be extracted
   */
  async fetch(): Promise<void> {
    await this.#files.fetch(this.connection, this.#request);
  }

  /** The directory with the extracted files. */
  get directory(): string {
    return this.#files.directory;
  }

  async place(): Promise<SavedArchive> {
    const saved = await this.#files.place();
    const { directory } = this.destination as OutputDirectory;
    const isElsewhere = saved.output !== path.resolve(directory);
    const why = isElsewhere ? `, because ${quotePath(directory)} has other files` : '';
    this.options.reporter.note(`Saved ${counted(saved.files, 'file')} in ${saved.output}${why}`);
    return saved;
  }

  /** Writes the zip to a stream. A reader that closes it early is not an error. @throws what `fetch` throws */
  async stream(stream: Writable): Promise<StreamedArchive> {
    const { connection, options } = this;
    const sink = streamSink(stream, 'stdout', `run '${this.#again}'`);
    const bytes = await download(connection, this.#request, sink, options.reporter);
    if (bytes === 0) throw new AnswerError(connection.server, 'sent an archive of 0 bytes');
    return { bytes: bytes ?? 0 };
  }

  /**
   * The error of a command that does not get the result: it names the job and, if the fetch was interrupted or given up, how to
   * continue, because the result stays on the server.
   */
  explain(error: unknown): unknown {
    const { connection, jobId } = this;
    const [isDone, again] = [this.#isDone, this.#again];
    let explained = error;
    if (connection.signal?.aborted) {
      const state = isDone ? 'is done' : 'goes on';
      this.options.reporter.note(`Job ${jobId} ${state}; '${again}' fetches its result`);
      explained = connection.signal.reason;
    } else if (error instanceof ArchiveError)
      explained = new ClientError(error.message, exitCodes.failed, {}, { cause: error });
    else if (connection.isMet) explained = withResumeHint(connection, jobId, error, { isDone, again });
    return explained instanceof ClientError ? explained.about(jobId) : explained;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#archive?.[Symbol.asyncDispose]();
  }

  get #files(): ArchiveFetch {
    if (this.#archive === null) throw new Error('A result that goes to a stream has no directory');
    return this.#archive;
  }

  readonly #request: DownloadRequest = async (headers, patience) => {
    const { connection, jobId, options } = this;
    const asking = { ...options, isDone: this.#isDone, again: this.#again, patience };
    const reply = await awaitResult(connection, jobId, headers, asking);
    this.#isDone = true;
    return reply;
  };
}

/**
 * Downloads an app's configuration files to a directory (docs/http.md, Apps). The server chooses their names.
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
  await using archive = new ArchiveFetch({
    reporter,
    name: configName,
    output: { directory, taken: isForced ? 'replace' : 'refuse' },
    again: connection.nextCommand(`apps ${shellWord(app)} --config DIR`),
  });
  await archive.fetch(connection, request);
  return await archive.place();
}
