import {
  type ExitCode,
  errorKinds,
  excerpt,
  exitCodeOf,
  exitCodes,
  quotePath,
  unlabelled,
} from '../contract/index.js';
import { errorCode, faultWithoutPath, isOutOfInodes } from '../files/index.js';
import type { NextCommands } from './next-command.js';

/** Details of a failure that `--json` prints beside the message. */
export type ErrorDetails = Readonly<Record<string, unknown>>;

/**
 * Why a command could not do what was requested. The message is for a person; `exitCode` becomes the exit code of the process.
 */
export class ClientError extends Error {
  override readonly name: string = 'ClientError';

  #details: ErrorDetails;

  constructor(
    message: string,
    readonly exitCode: ExitCode,
    details: ErrorDetails = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.#details = details;
  }

  get details(): ErrorDetails {
    return this.#details;
  }

  /** Adds the job that the error is about, so that a reader of the `--json` document can continue with it. */
  about(jobId: string): this {
    this.#details = { job_id: jobId, ...this.#details };
    return this;
  }
}

/** The command line or an argument is invalid. */
export class UsageError extends ClientError {
  override readonly name = 'UsageError';

  constructor(message: string, options?: ErrorOptions) {
    super(message, exitCodes.usage, {}, options);
  }
}

/** The status with which a proxy asks for credentials. */
export const proxyLoginStatus = 407;

/** Statuses that proxies answer with and that are not in the service's own error table. */
const proxyStatuses: Readonly<Record<number, ExitCode>> = {
  403: exitCodes.notAuthorised,
  [proxyLoginStatus]: exitCodes.notAuthorised,
  502: exitCodes.notReached,
  504: exitCodes.notReached,
};

/** Whether a page with this status, which is not from the service, means that another program uses the address. */
export const isOfAnother = (status: number): boolean => [404, 405, 410, 501].includes(status);

/** Whether a status is a redirect. The service never redirects, so such an answer comes from something else. */
export const isRedirect = (status: number): boolean => status >= 300 && status < 400;

function exitCodeFor(status: number, isOfProxy: boolean): ExitCode {
  // The service itself answers 503 when it is busy.
  if (isRedirect(status) || (isOfProxy && (isGatewayError(status) || isOfAnother(status)))) {
    return exitCodes.notReached;
  }
  return proxyStatuses[status] ?? exitCodeOf(status);
}

/** The server answered with an error status. */
export class HttpError extends ClientError {
  override readonly name = 'HttpError';

  /**
   * @param retryAfter seconds, as sent by the server
   * @param isOfProxy whether the answer does not come from the service, but usually from a proxy
   * @param missing names of uploads that a submission refers to, and that have to be sent first
   */
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfter: number | null,
    readonly isOfProxy = false,
    readonly missing: readonly string[] = [],
  ) {
    super(message, exitCodeFor(status, isOfProxy), {
      http_status: status,
      ...(isOfProxy && isOfAnother(status) ? { fault: 'unusable' satisfies TransportFault } : {}),
      ...(retryAfter === null ? {} : { retry_after: retryAfter }),
    });
  }
}

/**
 * How a connection failed: refused, cut or silent for too long, or unusable, for example because of an untrusted
 * certificate.
 */
export type TransportFault = 'unreached' | 'broken' | 'timeout' | 'unusable';

/** The connection failed before the answer was complete. */
export class TransportError extends ClientError {
  override readonly name = 'TransportError';

  constructor(
    readonly fault: TransportFault,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, fault === 'timeout' ? exitCodes.timedOut : exitCodes.notReached, { fault }, options);
  }
}

/** stdout could not be written to, so the output is incomplete. */
export class OutputError extends ClientError {
  override readonly name = 'OutputError';

  constructor(why: string, options?: ErrorOptions) {
    const message = `Cannot write to stdout: ${why}; what was printed is not complete`;
    super(message, exitCodes.failed, {}, options);
  }
}

/** What a user can do about a write error, by error code. */
const remedies: Readonly<Record<string, string>> = {
  ENOSPC: 'free some space',
  EDQUOT: 'free some of your quota',
  EFBIG: 'allow larger files there (ulimit -f), or choose another file system',
  EROFS: 'choose a directory that can be written',
  EACCES: 'choose a directory that you may write to',
  EPERM: 'choose a directory that you may write to',
  EIO: 'check the disk',
};

/**
 * Something could not be written on this machine. Thrown where the write fails, so that it is never mistaken for a broken
 * connection, which would be retried.
 */
export class WriteError extends ClientError {
  override readonly name = 'WriteError';

  /** @param next what to do once the disk has free space: `run '...'` */
  constructor(target: string, cause: unknown, next: string) {
    const remedy = isOutOfInodes(cause, target)
      ? 'the disk has space, but no room for another file: remove some files there'
      : (remedies[errorCode(cause)] ?? 'check that path');
    super(
      `Cannot write ${quotePath(target)}: ${faultWithoutPath(cause, target)}; ${remedy}, then ${next}`,
      exitCodes.failed,
      { code: errorCode(cause) },
      { cause },
    );
  }
}

/** A result needs more space than is free on a disk of this machine. */
export class NoRoom extends ClientError {
  override readonly name = 'NoRoom';

  /**
   * @param what needs more space than is free, as the beginning of a sentence
   * @param next what to do once the disk has free space: `run '...'`
   */
  constructor(what: string, next: string) {
    super(`${what}; free some space, then ${next}`, exitCodes.failed, { code: 'ENOSPC' });
  }
}

/**
 * Runs a function that writes to `target`. If the system refuses (a full disk, a missing permission), throws a `WriteError`
 * that says what to do. Other errors are passed on unchanged, because they already explain themselves.
 */
export async function withWriteErrors<T>(target: string, next: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (cause) {
    // zlib's errors also have an `errno`, but not one of the system.
    const isOfSystem = cause instanceof Error && 'errno' in cause && !errorCode(cause).startsWith('Z_');
    throw isOfSystem ? new WriteError(target, cause, next) : cause;
  }
}

/** How a job ended without a result: it failed, its app refused its input, or somebody killed it. */
type FailedState = 'error' | 'refused' | 'killed';

const failures: Readonly<Record<FailedState, { readonly verb: string; readonly exitCode: ExitCode }>> = {
  error: { verb: 'failed', exitCode: exitCodes.failed },
  refused: { verb: 'was refused by its app', exitCode: exitCodes.usage },
  killed: { verb: 'was killed', exitCode: exitCodes.failed },
};

/** Further details from the server about a failed job. */
interface FailedFacts {
  /** The kind of error, such as `out-of-memory`; null if it has no specific kind, or the server does not say. */
  readonly kind: string | null;
  /** Time until which the job is kept, ISO 8601; null if the server does not say. */
  readonly expiresAt: string | null;
  /** Number of files left in the job's output, as far as they were counted; null if the server does not say. */
  readonly leftFiles: number | null;
  /** Time of the server's answer by the server's clock, in milliseconds. */
  readonly now: number;
  /** The quoted command that fetches these files; empty if there are none. */
  readonly fetch: string;
}

const nothingKnown: FailedFacts = { kind: null, expiresAt: null, leftFiles: null, now: 0, fetch: '' };

/** The job ended without a result. */
export class JobFailed extends ClientError {
  override readonly name = 'JobFailed';

  constructor(
    readonly jobId: string,
    readonly state: FailedState,
    reason: string,
    readonly facts = nothingKnown,
  ) {
    const { verb, exitCode } = failures[state];
    super(`Job ${jobId} ${verb}: ${excerpt(unlabelled(reason))}`, exitCode, {
      job_id: jobId,
      status: state === 'refused' ? 'error' : state,
      refused: state === 'refused',
      reason,
      kind: facts.kind,
      expires_at: facts.expiresAt,
      left_files: facts.leftFiles,
    });
  }
}

/** A person, or the system, asked the command to stop. */
export class Interrupted extends ClientError {
  override readonly name = 'Interrupted';
  /** What keeps running if the command has to exit at once, as the end of a sentence. */
  leaves: string | null = null;

  /**
   * @param outcome what this means for a job, as the continuation of a sentence
   * @param details of that job
   */
  constructor(
    readonly signalName: string,
    outcome?: string,
    details: ErrorDetails = {},
  ) {
    const isKey = signalName === 'SIGINT' || signalName === 'SIGQUIT';
    const by = isKey ? 'Interrupted' : `Interrupted by ${signalName}`;
    super(outcome ? `${by}; ${outcome}` : by, exitCodes.interrupted, details);
  }

  /** Whether a job is left running. */
  get leavesJob(): boolean {
    return this.signalName === 'SIGQUIT';
  }

  /** The same interruption with its consequence for a job. */
  with(outcome: string, details: ErrorDetails = {}): Interrupted {
    return new Interrupted(this.signalName, outcome, details);
  }
}

/** Whether a proxy answers with this status if its server does not respond. */
export const isGatewayError = (status: number): boolean => [502, 503, 504].includes(status);

/** Whether the server gave up waiting for the next byte, for example because the connection was down for a while. */
export const isStall = (error: unknown): boolean =>
  error instanceof HttpError && error.status === errorKinds.uploadStalled.status;

/** Whether an error says that the limit of active jobs is reached: the same request may succeed once others have ended. */
export const isBusy = (error: unknown): error is HttpError =>
  error instanceof HttpError && error.status === errorKinds.busy.status;

/** Whether the same request may succeed if it is sent again. */
export function isTransient(error: unknown): boolean {
  if (error instanceof TransportError) return error.fault !== 'unusable';
  if (isStall(error)) return true;
  return error instanceof HttpError && (error.status === 429 || isGatewayError(error.status));
}

/** Whether the server itself failed to handle this request. For a request about a job, a retry may succeed. */
export const isServerFailure = (error: unknown): boolean =>
  error instanceof HttpError && error.status >= errorKinds.internal.status && !('fault' in error.details);

/** The known facts about a job that is no longer followed. */
interface UnfollowedJob {
  /** Whether the server is known to have the job, so that a refusal does not mean that the job does not exist. */
  readonly isKnown?: boolean | undefined;
  /** Whether the job is known to be done, so that only its result is missing. */
  readonly isDone?: boolean | undefined;
  /** The command that fetches the result, if it differs from the usual one. */
  readonly again?: string;
}

/** A job could not be followed any further. The message says how to continue with it. */
class GaveUp extends ClientError {
  override readonly name = 'GaveUp';

  constructor(
    connection: NextCommands,
    jobId: string,
    cause: ClientError,
    { isDone = false, again }: UnfollowedJob,
  ) {
    const fetch = `'${again ?? connection.nextCommand(`result ${jobId}`)}' fetches its result`;
    const next = isDone
      ? `job ${jobId} is done: ${fetch}`
      : `job ${jobId} may go on: '${connection.nextCommand(`logs ${jobId}`)}' follows it, ${fetch}`;
    super(`${cause.message}; ${next}`, cause.exitCode, { ...cause.details, job_id: jobId }, { cause });
  }
}

/** Whether a server said that it does not know the job. remote-app answers 410 for a job that it has removed. */
export const isUnknownJob = (error: unknown): error is HttpError =>
  error instanceof HttpError && error.status === errorKinds.unknownJob.status;

/** Whether a server said that it had this job, but no longer has it. */
export const isExpiredJob = (error: unknown): error is HttpError =>
  error instanceof HttpError && error.status === errorKinds.expired.status;

/** A server no longer knows a job that it knew a moment ago: KonfAI's server forgets its jobs when it restarts. */
export class JobForgotten extends ClientError {
  override readonly name = 'JobForgotten';

  constructor(jobId: string, server: string, cause: ClientError) {
    const message =
      `${server} does not know job ${jobId} any more: it was restarted, and has lost its jobs and their results; ` +
      'submit the job again';
    super(message, exitCodes.failed, { ...cause.details, job_id: jobId }, { cause });
  }
}

/** Whether an error only says that the connection to the server, or the reader of the output, was lost. */
const isLost = (error: unknown): error is ClientError =>
  isTransient(error) ||
  error instanceof OutputError ||
  (error instanceof ClientError && 'fault' in error.details);

/** Whether a server refused a request about a job without saying that the job is gone. */
const isRefused = (error: unknown): error is HttpError =>
  error instanceof HttpError && !isUnknownJob(error) && !isExpiredJob(error);

/** The error for a command that followed a job: if it does not mention the job, the job and how to continue are added. */
export function withResumeHint(
  connection: NextCommands,
  jobId: string,
  error: unknown,
  left: UnfollowedJob = {},
): unknown {
  // The error already names the job, and includes the details of its cause.
  if (error instanceof GaveUp) return error;
  const isKnown = left.isKnown || left.isDone;
  return isLost(error) || (isKnown && isRefused(error)) ? new GaveUp(connection, jobId, error, left) : error;
}
