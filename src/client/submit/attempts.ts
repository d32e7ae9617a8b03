import { exitCodes, shuttingDownDetail } from '../../contract/index.js';
import type { Connection, Patience } from '../connection/index.js';
import {
  ClientError,
  HttpError,
  Interrupted,
  isBusy,
  isGatewayError,
  isStall,
  isTransient,
  TransportError,
} from '../errors.js';
import type { Reporter } from '../reporter.js';

/** How long an interrupted command waits for the answer to a body that is completely sent, in milliseconds. */
const answerWait = 5000;

/**
 * Ends one request: immediately if `signal` is aborted while the body is being sent. After that, the job may already exist and
 * only the answer contains its id, so the answer is awaited. Also ends the request after `idle` seconds of silence.
 */
export class RequestWatch {
  readonly #controller = new AbortController();
  readonly #onAbort = () => this.#interrupted();
  #timer: NodeJS.Timeout | undefined;
  #sent = 0;
  #isDone = false;

  constructor(
    readonly length: number,
    idle: number,
    readonly outer: AbortSignal | undefined,
    server: string,
    /** Called when an interrupted command starts waiting for the answer. */
    readonly onAnswerWait: () => void,
  ) {
    if (outer?.aborted) {
      this.#interrupted();
      return;
    }
    outer?.addEventListener('abort', this.#onAbort, { once: true });
    const stalled = () =>
      this.#controller.abort(new TransportError('timeout', `${server} accepted no data for ${idle} seconds`));
    this.#timer = setTimeout(stalled, idle * 1000);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  moved(sent: number): void {
    this.#sent = sent;
    if (!this.outer?.aborted) this.#timer?.refresh();
  }

  done(): void {
    this.#isDone = true;
    clearTimeout(this.#timer);
    this.outer?.removeEventListener('abort', this.#onAbort);
  }

  #interrupted(): void {
    clearTimeout(this.#timer);
    const stop = () => this.#controller.abort(this.outer?.reason);
    if (this.#sent < this.length) {
      stop();
      return;
    }
    this.onAnswerWait();
    this.#timer = setTimeout(stop, answerWait);
  }
}

/**
 * How often the bytes of an upload are sent to a server that responds but does not keep them. After a broken connection, only the
 * patience limits further attempts.
 */
const maxTimesSent = 4;

/**
 * Whether a later attempt may succeed: the server says so, or a proxy says that its server is unreachable. Any other refusal is
 * final.
 * @param isReached whether the server has answered, or has accepted part of the body
 */
function mayWorkLater(error: unknown, isReached: boolean): error is Error {
  if (error instanceof TransportError) {
    return error.fault === 'broken' || (error.fault === 'unreached' && isReached);
  }
  if (!(error instanceof HttpError && isReached)) return false;
  if (isStall(error)) return true;
  return isGatewayError(error.status) && (error.isOfProxy || error.message === shuttingDownDetail);
}

/** The hint after a whole submission was sent without an answer: the server may have created a job whose id is unknown here. */
export const mayBeAccepted = (connection: Connection): string =>
  `the server may have accepted the job: '${connection.nextCommand('jobs')}' lists it then`;

/** The hint for a server without idempotency keys, where sending again would create a second job. */
const mayHaveJob =
  'the server may have the job, but has no way to look it up: run the command again to send the case once more';

const interrupted = (connection: Connection, error: Interrupted, allBytesSent: boolean): Interrupted =>
  allBytesSent ? error.with(mayBeAccepted(connection)) : error;

/**
 * Waits before asking a busy server again.
 * @throws ClientError when the time limit is reached; the reason of an interruption
 */
async function waitWhileBusy(patience: Patience, error: HttpError): Promise<void> {
  await patience.after(error).catch((reason: unknown) => {
    if (reason !== error) throw reason;
    const message =
      `${error.message}; the server stayed full for ${patience.words}, and no job was created: run the command again later, ` +
      'or have it wait for longer with --patience';
    throw new ClientError(message, error.exitCode, error.details, { cause: error });
  });
}

/** What is sent. */
interface Sent {
  /** Bytes. */
  readonly size: number;
  /** Whether it may be sent again if it was sent completely but the answer is missing. */
  readonly isRepeatable: boolean;
  /** What to do if it could not be sent, as the end of a sentence. */
  readonly next: string;
}

/**
 * Waits between attempts to send something. Gives up if a refusal is final, if the patience runs out, or if a server that answers
 * has failed several times to keep the same bytes.
 */
export class Attempts {
  readonly patience: Patience;
  /** A separate patience: if a busy server accepts some bytes before refusing, that does not end the wait. */
  readonly #whileBusy: Patience;
  #bytes = 0;
  #number = 0;

  constructor(
    private readonly connection: Connection,
    reporter: Reporter,
    private readonly sent: Sent,
    patience = connection.patience(reporter),
  ) {
    this.patience = patience;
    this.#whileBusy = connection.patience(reporter);
  }

  get isFirst(): boolean {
    return this.#number === 0;
  }

  /** Counts the bytes that an attempt has sent. */
  count(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Whether the same bytes may be sent once more. */
  get mayRepeat(): boolean {
    return this.#bytes === 0 || this.#bytes < maxTimesSent * this.sent.size;
  }

  /**
   * Waits after a failed attempt, whose bytes are already counted.
   * @param allBytesSent whether the server may have everything, so that only its answer is missing
   * @throws the final error when no further attempt is made
   */
  async after(error: unknown, allBytesSent: boolean): Promise<void> {
    const isFirst = this.isFirst;
    this.#number += 1;
    if (error instanceof Interrupted) throw interrupted(this.connection, error, allBytesSent);
    if (isBusy(error)) {
      await waitWhileBusy(this.#whileBusy, error);
      return;
    }
    if (!mayWorkLater(error, this.connection.isMet || !isFirst)) throw error;
    if (allBytesSent && !this.sent.isRepeatable)
      throw new ClientError(`${error.message}; ${mayHaveJob}`, exitCodes.failed);
    if (isStall(error) && !this.mayRepeat)
      throw this.#givenUp(error, `after ${maxTimesSent} times its bytes were sent`, allBytesSent);
    await this.patience.after(error).catch((reason: unknown) => {
      throw this.#givenUp(reason, `after ${this.patience.words}`, allBytesSent);
    });
  }

  /** The final error: what happened to the submission, and how to continue. */
  #givenUp(error: unknown, why: string, allBytesSent: boolean): unknown {
    if (error instanceof Interrupted) return interrupted(this.connection, error, allBytesSent);
    if (!(error instanceof ClientError) || !isTransient(error)) return error;
    const next = allBytesSent ? mayBeAccepted(this.connection) : `no job was created: ${this.sent.next}`;
    const message = `${error.message}; gave up on the upload ${why}; ${next}`;
    return new ClientError(message, error.exitCode, error.details, { cause: error });
  }
}
