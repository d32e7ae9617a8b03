import { errorKinds, quotePath } from '../../contract/index.js';
import {
  appendUpload,
  backoff,
  beginUpload,
  type Connection,
  type Patience,
  pause,
  type UploadBytes,
  uploadState,
} from '../connection/index.js';
import { HttpError, UsageError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { Attempts, RequestWatch } from './attempts.js';
import { behind, changed, piecesOf, type SeenFiles, type Segment } from './segments.js';

/** The content of an upload; its digest is the upload's name on the server. */
export interface Content {
  /** In hexadecimal digits. */
  readonly sha256: string;
  /** Bytes. */
  readonly size: number;
  /** The path of the file, or of the directory that the content was created from. */
  readonly source: string;
  readonly segments: readonly Segment[];
  /** The state of its files when they were hashed. */
  readonly seen: SeenFiles;
}

/** How an upload is sent, and callbacks for its progress. */
interface UploadOptions {
  /** Whether to ask how much the server has before sending anything. Otherwise, all bytes are sent with the first request. */
  readonly asksFirst: boolean;
  readonly reporter: Reporter;
  /** Shared by all uploads of a submission, so that an outage is reported once. */
  readonly patience: Patience;
  readonly signal: AbortSignal;
  /** Called with the number of bytes that the server already had; called again if another request has added to them. */
  readonly onOffset: (offset: number) => void;
  /** Called with the number of bytes that the server has, or that are on their way. */
  readonly onBytes: (bytes: number) => void;
}

const next =
  'run the command again once the server can be reached, or raise --patience: the upload resumes where it stopped';

/** Whether another request is writing the same upload, has moved its offset, or has removed it. */
const isConflict = (error: unknown): error is HttpError =>
  error instanceof HttpError &&
  [errorKinds.uploadInUse.status, errorKinds.wrongOffset.status, errorKinds.unknownUpload.status].some(
    (status) => status === error.status,
  );

/** Maximum number of consecutive conflicts without progress: about a minute. */
const maxConflicts = 60;

/**
 * Sends a content, or the part that the server lacks. If the server becomes unreachable, the upload resumes where it stopped, for
 * as long as the connection has patience.
 * @throws HttpError for a refusal; TransportError if the patience runs out; ClientError for a file that changed
 */
export async function sendUpload(
  connection: Connection,
  content: Content,
  options: UploadOptions,
): Promise<void> {
  const { reporter, patience, signal } = options;
  const { size } = content;
  const attempts = new Attempts(connection, reporter, { size, isRepeatable: true, next }, patience);
  const attempt = new UploadAttempt(connection, content, options);
  let [asksFirst, conflicts, isDone] = [options.asksFirst, 0, false];
  while (!isDone) {
    const { farthest } = attempt;
    attempt.bytes = 0;
    try {
      isDone = await attempt.run(asksFirst);
    } catch (error) {
      // Aborted if another file of the submission could not be sent.
      signal.throwIfAborted();
      conflicts = attempt.farthest > farthest ? 0 : conflicts + 1;
      if (error instanceof HttpError && error.status === errorKinds.notDeidentified.status)
        throw new UsageError(`${quotePath(content.source)} is not taken: ${error.message}`, { cause: error });
      attempts.count(attempt.bytes);
      if (isConflict(error) && conflicts < maxConflicts && attempts.mayRepeat)
        await pause(backoff(conflicts, 50, 1000), signal);
      else await attempts.after(error, false);
      attempt.isOffsetKnown &&= !isConflict(error);
    }
    asksFirst = true;
  }
}

/** The requests of one upload. */
class UploadAttempt {
  /** Whether the offset was reported, and no other request has moved it since. */
  isOffsetKnown = false;
  /** The largest offset that the server has reported; -1 before the first. */
  farthest = -1;
  /** Bytes that were sent in this attempt. */
  bytes = 0;

  constructor(
    private readonly connection: Connection,
    private readonly content: Content,
    private readonly options: UploadOptions,
  ) {}

  /** @returns whether the server has the whole content */
  async run(asksFirst: boolean): Promise<boolean> {
    const { connection, content } = this;
    const { sha256, size } = content;
    if (!asksFirst) {
      const offset = await this.#sendFrom(0, (bytes, signal) =>
        beginUpload(connection, content, signal, bytes),
      );
      if (offset === size) this.#advanced(0);
      return offset === size;
    }
    const state = await this.#watched(({ signal }) => uploadState(connection, sha256, signal));
    if (state && state.length !== size) throw changed(content.source);
    const offset =
      state?.offset ?? (await this.#watched(({ signal }) => beginUpload(connection, content, signal)));
    this.#advanced(offset);
    if (offset < size)
      await this.#sendFrom(offset, (bytes, signal) =>
        appendUpload(connection, sha256, offset, bytes, signal),
      );
    return true;
  }

  #advanced(offset: number): void {
    const { reporter, patience, onOffset, onBytes } = this.options;
    if (!this.isOffsetKnown) onOffset(offset);
    this.isOffsetKnown = true;
    onBytes(offset);
    // If the server answers but accepts nothing, the wait continues.
    if (offset > this.farthest && patience.renew())
      reporter.note(`${this.connection.server} accepts the upload again, which continues`);
    this.farthest = Math.max(this.farthest, offset);
  }

  #sendFrom<T>(offset: number, send: (bytes: UploadBytes, signal: AbortSignal) => Promise<T>): Promise<T> {
    const { segments, seen, size } = this.content;
    return this.#watched((watch) => {
      const onSent = (sent: number) => {
        if (watch.isDone) return;
        watch.moved(sent);
        this.bytes = sent - offset;
        this.options.onBytes(sent);
      };
      return send(
        { length: size - offset, stream: streamFrom(segments, seen, offset, onSent) },
        watch.signal,
      );
    });
  }

  /** Ends a request that makes no progress. An interruption ends it at once, because there is no job yet. */
  async #watched<T>(ask: (watch: RequestWatch) => Promise<T>): Promise<T> {
    const { readTimeout, server } = this.connection;
    const { signal } = this.options;
    const watch = new RequestWatch(Number.POSITIVE_INFINITY, readTimeout, signal, server, () => {});
    try {
      return await ask(watch);
    } finally {
      watch.done();
    }
  }
}

/** The bytes of a content after an offset, read as they are sent. */
async function* streamFrom(
  segments: readonly Segment[],
  seen: SeenFiles,
  offset: number,
  onSent: (sent: number) => void,
): AsyncGenerator<Buffer> {
  let sent = offset;
  for (const piece of piecesOf(behind(segments, offset), seen)) {
    yield piece;
    sent += piece.length;
    onSent(sent);
  }
}
