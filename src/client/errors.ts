import { type ExitCode, exitCodeOf, exitCodes } from '../contract/errors.js';
import type { JobState } from '../contract/job.js';
import { excerpt } from '../contract/quote.js';

/** Facts about a failure that `--json` prints beside the message. */
export type ErrorDetails = Readonly<Record<string, unknown>>;

/** Why a command did not do what it was asked to. The message is for a person; `exitCode` is how the process ends. */
export class ClientError extends Error {
  override readonly name: string = 'ClientError';

  constructor(
    message: string,
    readonly exitCode: ExitCode,
    readonly details: ErrorDetails = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** What was typed cannot be done as it stands. */
export class UsageError extends ClientError {
  override readonly name = 'UsageError';

  constructor(message: string, options?: ErrorOptions) {
    super(message, exitCodes.usage, {}, options);
  }
}

/** Statuses that a proxy answers with, which the service's own table does not hold. */
const proxyStatuses: Readonly<Record<number, ExitCode>> = {
  403: exitCodes.notAuthorised,
  407: exitCodes.notAuthorised,
  502: exitCodes.notReached,
  504: exitCodes.notReached,
};

/** The server answered, and the answer is a refusal. */
export class HttpError extends ClientError {
  override readonly name = 'HttpError';

  /** @param retryAfter seconds, as the server gave them */
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfter: number | null,
  ) {
    super(message, proxyStatuses[status] ?? exitCodeOf(status), {
      status,
      ...(retryAfter === null ? {} : { retryAfter }),
    });
  }
}

/** How a connection failed: never there, cut, or silent for too long. */
export type TransportFault = 'unreached' | 'broken' | 'timeout';

/** No answer, or half of one. */
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

/** The job ended without a result: it failed, or somebody killed it. */
export class JobFailed extends ClientError {
  override readonly name = 'JobFailed';

  constructor(
    readonly jobId: string,
    readonly state: Extract<JobState, 'error' | 'killed'>,
    reason: string,
  ) {
    const verb = state === 'killed' ? 'was killed' : 'failed';
    super(`Job ${jobId} ${verb}: ${excerpt(reason)}`, exitCodes.failed, {
      job_id: jobId,
      status: state,
      reason,
    });
  }
}

/** A person, or the system, asked the command to stop. */
export class Interrupted extends ClientError {
  override readonly name = 'Interrupted';

  constructor(signalName: string) {
    super(`Interrupted by ${signalName}`, exitCodes.interrupted);
  }
}

/** Whether the same request may well succeed a moment later. */
export function isTransient(error: unknown): boolean {
  if (error instanceof TransportError) return true;
  return error instanceof HttpError && [429, 502, 503, 504].includes(error.status);
}
