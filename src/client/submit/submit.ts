import {
  errorKinds,
  exitCodes,
  type JobEnvelope,
  jobEnvelope,
  parameters,
  shuttingDownDetail,
  submitPath,
} from '../../contract/index.js';
import { type Connection, type Patience, pause, submissionAnswer } from '../connection/index.js';
import {
  ClientError,
  HttpError,
  Interrupted,
  isGatewayError,
  isStall,
  isTransient,
  TransportError,
} from '../errors.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import { Multipart, uniqueText } from './multipart.js';
import type { Staged } from './staging.js';

/** How long an interrupted command waits for the answer to a body that is completely sent, in milliseconds. */
const answerWait = 5000;

/**
 * Ends one request: at once if `signal` is aborted while the body is being sent. After that, the job may already exist
 * and only the answer has its id, so the answer is awaited. Also ends it after `idle` seconds of silence.
 */
export class UploadWatch {
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
    /** Called when an interrupted command begins to wait for the answer. */
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

/** How often a body is sent without getting farther than before. After that, something on the way is taken to block it. */
const attempts = 4;

/**
 * How long a repeated upload waits before it sends its body, in milliseconds. A server may refuse a request by its head
 * alone; while a body is sent at full speed, the connection may be cut before that refusal is read.
 */
const holdBack = 1000;

/** One attempt to send the body. */
interface Attempt {
  readonly path: string;
  readonly body: Multipart;
  readonly key: string;
  readonly isFirst: boolean;
  /** Called with the bytes that have been handed out, and with how many of them are of files. */
  readonly onBytes: (sent: number, ofFiles: number) => void;
  /** Called when an interruption arrives while only the answer is missing. */
  readonly onAnswerWait: () => void;
}

async function send(
  connection: Connection,
  { path, body, key, isFirst, onBytes, onAnswerWait }: Attempt,
): Promise<JobEnvelope> {
  const { readTimeout, signal, server } = connection;
  const answer = await submissionAnswer();
  const upload = new UploadWatch(body.length, readTimeout, signal, server, onAnswerWait);
  const onPiece = (sent: number, ofFiles: number) => {
    // The body may hand out one more piece after the request has ended.
    if (upload.isDone) return;
    upload.moved(sent);
    onBytes(sent, ofFiles);
  };
  try {
    const reply = await connection.send(path, {
      method: 'POST',
      headers: {
        'content-type': body.contentType,
        'content-length': String(body.length),
        [parameters.idempotencyKey.name]: key,
      },
      body: body.stream(onPiece, isFirst ? undefined : () => pause(holdBack, upload.signal)),
      headTimeout: 0,
      signal: upload.signal,
    });
    const { job_id, accepted_options } = await connection.read(reply, path, answer, upload.signal);
    return jobEnvelope(job_id, accepted_options);
  } finally {
    upload.done();
  }
}

/**
 * Whether a later attempt may succeed: the server says so, or a proxy says that its server is not there. Any other
 * refusal is final.
 * @param isReached whether the server has answered, or has taken a part of the body
 */
function mayWorkLater(error: unknown, isReached: boolean): error is Error {
  if (error instanceof TransportError) {
    return error.fault === 'broken' || (error.fault === 'unreached' && isReached);
  }
  if (!(error instanceof HttpError && isReached)) return false;
  if (isStall(error)) return true;
  return isGatewayError(error.status) && (error.isOfProxy || error.message === shuttingDownDetail);
}

/** What a server that received a whole submission may have created: a job whose id is unknown here. */
const mayBeAccepted = (connection: Connection): string =>
  `the server may have accepted the job: '${connection.nextCommand('jobs')}' lists it then`;

/** The same of a server that cannot be asked, and would make a second job. */
const mayHaveJob =
  'the server may have the job, and cannot be asked for it: run the command again to send the case once more';

/** An interruption of an upload. */
const interrupted = (connection: Connection, error: Interrupted, isSent: boolean): Interrupted =>
  isSent ? error.with(mayBeAccepted(connection)) : error;

/** Whether the server is full: it may take the job once others have ended. */
const isBusy = (error: unknown): error is HttpError =>
  error instanceof HttpError && error.status === errorKinds.busy.status;

/**
 * Waits before a busy server is asked again.
 * @throws ClientError once the wait has been long enough; the reason of an interruption
 */
async function waitWhileBusy(patience: Patience, error: HttpError): Promise<void> {
  await patience.after(error).catch((reason: unknown) => {
    if (reason !== error) throw reason;
    const message =
      `${error.message}; no place was free for ${patience.words}, and no job was made: run the command again later, ` +
      'or have it wait for longer with --patience';
    throw new ClientError(message, error.exitCode, error.details, { cause: error });
  });
}

/**
 * The error with which an upload is given up that was tried again: what became of it, and how to go on.
 * @param why it was given up
 */
function givenUp(connection: Connection, error: unknown, why: string, isSent: boolean): unknown {
  if (error instanceof Interrupted) return interrupted(connection, error, isSent);
  if (!(error instanceof ClientError) || !isTransient(error)) return error;
  const next = isSent
    ? mayBeAccepted(connection)
    : 'no job was made: run the command again once the server can be reached, or have it tried for longer with --patience';
  const message = `${error.message}; the upload is given up ${why}; ${next}`;
  return new ClientError(message, error.exitCode, error.details, { cause: error });
}

/**
 * Sends a submission (docs/http.md, Submission). If the server goes away before it has answered, the submission is sent again
 * with the same `Idempotency-Key`, so that it never becomes two jobs, for as long as the connection has patience. A server
 * that was never reached is not waited for; one that is busy is.
 * @param key the `Idempotency-Key`: a server that has a job of this key answers with that job
 * @param isRepeatable whether it may be sent again when all of it was sent and the answer is missing
 * @throws HttpError for a refusal; TransportError if the patience is over; ClientError for a file that changed
 */
export async function submit(
  connection: Connection,
  submission: Submission,
  staged: Staged,
  reporter: Reporter,
  key = uniqueText(),
  isRepeatable = true,
): Promise<JobEnvelope> {
  const body = new Multipart(staged.fields, staged.parts);
  const path = submitPath(submission.app, submission.operation.segment);
  const patience = connection.patience(reporter);
  // A separate patience: bytes that a busy server accepts before it refuses do not mean that the wait is over.
  const whileBusy = connection.patience(reporter);
  let farthest = 0;
  /** Attempts that were cut off without getting farther than those before them. */
  let fruitless = 0;
  for (let number = 0; ; number += 1) {
    let sent = 0;
    const onBytes = (count: number, ofFiles: number) => {
      if (sent === 0 && number > 0) {
        patience.renew();
        reporter.note(`${connection.server} takes the upload${farthest > 0 ? ', which starts over' : ''}`);
      }
      sent = count;
      reporter.progress('Uploading', ofFiles, body.fileBytes);
      // The last bytes are still on their way, and the server checks the whole submission before it answers.
      if (sent === body.length) reporter.waiting('Waiting for the server to accept the job');
    };
    const onAnswerWait = () => {
      reporter.waiting('Interrupted: waiting for the id of the job, to kill it');
      const reason: unknown = connection.signal?.reason;
      if (reason instanceof Interrupted) reason.leaves = mayBeAccepted(connection);
    };
    try {
      return await send(connection, {
        path,
        body,
        key,
        isFirst: number === 0,
        onBytes,
        onAnswerWait,
      }).finally(() => reporter.waiting(null));
    } catch (error) {
      if (error instanceof Interrupted)
        throw interrupted(connection, error, Math.max(sent, farthest) === body.length);
      if (isBusy(error)) {
        await waitWhileBusy(whileBusy, error);
        continue;
      }
      if (!mayWorkLater(error, connection.isMet || number > 0)) throw error;
      const isCut = isStall(error) || (error instanceof TransportError && error.fault === 'broken');
      if (isCut && (sent > 0 || !connection.isMet) && sent <= farthest) fruitless += 1;
      farthest = Math.max(farthest, sent);
      const isSent = farthest === body.length;
      if (isSent && !isRepeatable) throw new ClientError(`${error.message}; ${mayHaveJob}`, exitCodes.failed);
      if (fruitless + 1 >= attempts)
        throw givenUp(connection, error, `after ${attempts} times that got no farther`, isSent);
      await patience.after(error).catch((reason: unknown) => {
        throw givenUp(connection, reason, `after ${patience.words}`, isSent);
      });
    }
  }
}

/** Names of the options that were sent and that the server did not say it read (docs/http.md, Submission). */
export function unacknowledged(submission: Submission, envelope: JobEnvelope): string[] {
  return Object.keys(submission.options).filter((name) => !envelope.accepted_options.includes(name));
}
