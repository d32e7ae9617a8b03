import { errorKinds } from '../../contract/index.js';
import {
  appendUpload,
  backoff,
  beginUpload,
  type Connection,
  type Patience,
  pause,
  removeUpload,
  type UploadBytes,
  uploadState,
} from '../connection/index.js';
import { HttpError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { Attempts, UploadWatch } from './attempts.js';
import { behind, changed, pieceSize, piecesOf, type SeenFiles, type Segment } from './segments.js';

/** The SHA-256 of a content, in hexadecimal digits, and its length in bytes. */
export interface Digest {
  readonly sha256: string;
  readonly size: number;
}

/** What is uploaded, under the name of its content. */
export interface Content extends Digest, Contents {
  /** The path of the file, or of the directory that it was made of. */
  readonly source: string;
}

/** Bytes, and what their files were like when they were chosen. */
export interface Contents {
  readonly segments: readonly Segment[];
  readonly seen: SeenFiles;
}

/** How contents are uploaded, and what is told of it. */
export interface UploadHow {
  /** Whether the server is asked how much it has before anything is sent. Otherwise all bytes go with the first request. */
  readonly asks: boolean;
  /** Whether what the server has is removed first. */
  readonly isAnew: boolean;
  readonly reporter: Reporter;
  /** Of all uploads of a submission: a server that is away is told of once. */
  readonly patience: Patience;
  readonly signal: AbortSignal;
  /** Called once, with the bytes that the server had. */
  readonly onAsked: (there: number) => void;
  /** Called with the bytes that are there, or on their way. */
  readonly onBytes: (there: number) => void;
}

const next =
  'run the command again once the server can be reached, or have it tried for longer with --patience: ' +
  'it goes on where this one stopped';

/** Whether another request writes the same upload, has moved its offset, or has removed it. */
const isOfAnother = (error: unknown): error is HttpError =>
  error instanceof HttpError &&
  [errorKinds.uploadInUse.status, errorKinds.wrongOffset.status, errorKinds.unknownUpload.status].some(
    (status) => status === error.status,
  );

/** How often other writers are met without getting farther: for about a minute. */
const mostMeetings = 60;

/**
 * Sends a content, or what is missing of it. If the server goes away it is tried again, and goes on where it stopped, for as long as
 * the connection has patience.
 * @throws HttpError for a refusal; TransportError if the patience is over; ClientError for a file that changed
 */
export async function upload(connection: Connection, content: Content, how: UploadHow): Promise<void> {
  const { reporter, patience } = how;
  const attempts = new Attempts(connection, reporter, { isRepeatable: true, next }, patience);
  const sending = new Sending(connection, content, how);
  let [asks, farthest, meetings] = [how.asks, -1, 0];
  for (;;) {
    try {
      if (await sending.attempt(asks)) return;
      asks = true;
    } catch (error) {
      // Another file could not be sent.
      how.signal.throwIfAborted();
      asks = true;
      const { offset } = sending;
      const isFarther = offset === null ? null : offset > farthest;
      farthest = Math.max(farthest, offset ?? -1);
      meetings = isFarther ? 0 : meetings + 1;
      if (isOfAnother(error) && meetings < mostMeetings) {
        sending.isAsked = false;
        await pause(backoff(meetings, 50, 1000), how.signal);
      } else await attempts.after(error, { isSent: false, isFarther });
    }
  }
}

/** The requests of one upload. */
class Sending {
  #isAnew: boolean;
  /** Whether it is known how much the server has, but for what another request is writing. */
  isAsked = false;
  /** How much the server had in the last attempt; null if it did not say. */
  offset: number | null = null;

  constructor(
    private readonly connection: Connection,
    private readonly content: Content,
    private readonly how: UploadHow,
  ) {
    this.#isAnew = how.isAnew;
  }

  /** @returns whether all of it is there */
  async attempt(asks: boolean): Promise<boolean> {
    const { connection, content } = this;
    const { sha256, size } = content;
    this.offset = null;
    if (this.#isAnew) await this.#watched(({ signal }) => removeUpload(connection, sha256, signal));
    this.#isAnew = false;
    if (!asks) {
      const after = await this.#sendFrom(0, (bytes, signal) =>
        beginUpload(connection, content, signal, bytes),
      );
      if (after === size) this.#isThere(0);
      return after === size;
    }
    const state = await this.#watched(({ signal }) => uploadState(connection, sha256, signal));
    if (state && state.length !== size) throw changed(content.source);
    const offset =
      state?.offset ?? (await this.#watched(({ signal }) => beginUpload(connection, content, signal)));
    this.#isThere(offset);
    if (offset === size) return true;
    await this.#sendFrom(offset, (bytes, signal) => appendUpload(connection, sha256, offset, bytes, signal));
    return true;
  }

  #isThere(offset: number): void {
    const { reporter, patience, onAsked, onBytes } = this.how;
    this.offset = offset;
    if (!this.isAsked) onAsked(offset);
    this.isAsked = true;
    onBytes(offset);
    if (patience.renew()) reporter.note(`${this.connection.server} takes the upload, which goes on`);
  }

  async #sendFrom<T>(
    offset: number,
    send: (bytes: UploadBytes, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { segments, seen } = this.content;
    return this.#watched((watch) => {
      const onSent = (sent: number) => {
        if (watch.isDone) return;
        watch.moved(sent);
        this.how.onBytes(sent);
      };
      const stream = streamFrom(segments, seen, offset, onSent);
      return send({ length: this.content.size - offset, stream }, watch.signal);
    });
  }

  /** Ends a request on which nothing moves, and at once if the command is interrupted: there is no job yet. */
  async #watched<T>(ask: (watch: UploadWatch) => Promise<T>): Promise<T> {
    const { readTimeout, server } = this.connection;
    const watch = new UploadWatch(Number.POSITIVE_INFINITY, readTimeout, this.how.signal, server, () => {});
    try {
      return await ask(watch);
    } finally {
      watch.done();
    }
  }
}

/** The bytes of a content behind an offset, as they are asked for. */
async function* streamFrom(
  segments: readonly Segment[],
  seen: SeenFiles,
  offset: number,
  onSent: (sent: number) => void,
): AsyncGenerator<Buffer> {
  let sent = offset;
  for (const piece of piecesOf(behind(segments, offset), pieceSize, seen)) {
    yield piece;
    sent += piece.length;
    onSent(sent);
  }
}
