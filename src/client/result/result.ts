import path from 'node:path';
import type { Writable } from 'node:stream';
import { ArchiveError } from '../../archive/index.js';
import { counted, exitCodes, isPlainWord, quotePath, resultName } from '../../contract/index.js';
import { AnswerError, type Connection, type Patience, type Reply } from '../connection/index.js';
import { ClientError, withResumeHint } from '../errors.js';
import { type AwaitOptions, awaitResult } from './await-result.js';
import { download, streamSink } from './download.js';
import { ArchiveFetch, type SavedArchive } from './fetch-archive.js';
import type { Destination, OutputDirectory, OwnedDirectory } from './output-directory.js';

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
  destination: Destination | OwnedDirectory,
  { isPartial = false }: AwaitOptions,
): string {
  const partial = isPartial ? ' --partial' : '';
  if ('stream' in destination) return connection.nextCommand(`result ${jobId} -o -${partial}`);
  if ('owned' in destination) return connection.nextCommand(`result ${jobId} -o DIR`);
  const { directory, taken, withoutArchive } = destination;
  const place = taken === 'number' ? '' : ` -o ${isPlain(directory) ? directory : 'DIR'}`;
  const flags = `${taken === 'replace' ? ' --force' : ''}${partial}${withoutArchive ? ' --no-zip' : ''}`;
  return connection.nextCommand(`result ${jobId}${place}${flags}`);
}

/**
 * The result of a job on its way to this machine (docs/http.md, Result). `fetch` waits for it and extracts it in a private directory,
 * where files can be added; `save` then moves all of them to their place. `stream` waits for it and writes the zip to a stream.
 */
export class ResultFetch implements AsyncDisposable {
  /** The command that fetches the result again. */
  readonly #again: string;
  #archive: ArchiveFetch | null = null;
  #isDone: boolean;

  constructor(
    private readonly connection: Connection,
    private readonly jobId: string,
    private readonly destination: Destination | OwnedDirectory,
    private readonly options: AwaitOptions,
  ) {
    this.#again = fetchAgain(connection, jobId, destination, options);
    this.#isDone = options.isDone ?? false;
  }

  /**
   * @returns the directory with the extracted files
   * @throws JobFailed for a job that ended without a result; ClientError (exit 3) when the time limit is reached; ArchiveError
   *   for an archive that must not be extracted
   */
  async fetch(): Promise<string> {
    const output = this.destination as OutputDirectory | OwnedDirectory;
    const { reporter } = this.options;
    const answer = await this.#ask({});
    this.#archive = await ArchiveFetch.open({ reporter, name: resultName, output, again: this.#again });
    return await this.#archive.downloadAndExtract(this.connection, answer, this.#ask);
  }

  async save(): Promise<SavedArchive> {
    const saved = await (this.#archive as ArchiveFetch).save();
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
    const bytes = await download(connection, await this.#ask({}), this.#ask, sink, options.reporter);
    if (bytes === 0) throw new AnswerError(connection.server, 'sent an archive of 0 bytes');
    return { bytes: bytes ?? 0 };
  }

  /**
   * The error of a command that does not get the result. It names the job and, if the fetch was interrupted or given up, says how
   * to continue, because the result stays on the server.
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

  /** Requests the result, or the rest of it, until there is an answer. */
  readonly #ask = async (headers: Readonly<Record<string, string>>, patience?: Patience): Promise<Reply> => {
    const { connection, jobId, options } = this;
    const asking = { ...options, isDone: this.#isDone, again: this.#again, patience };
    const reply = await awaitResult(connection, jobId, headers, asking);
    this.#isDone = true;
    return reply;
  };
}
