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

/** The command line or an argument is invalid. */
export class UsageError extends ClientError {
  override readonly name = 'UsageError';

  constructor(message: string, options?: ErrorOptions) {
    super(message, exitCodes.usage, {}, options);
  }
}

/** Statuses that proxies answer with and that are not in the service's own error table. */
const proxyStatuses: Readonly<Record<number, ExitCode>> = {
  403: exitCodes.notAuthorised,
  407: exitCodes.notAuthorised,
  502: exitCodes.notReached,
  504: exitCodes.notReached,
};

/** The server answered with an error status. */
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

/** How a connection failed: refused, cut, or silent for too long. */
export type TransportFault = 'unreached' | 'broken' | 'timeout';

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

  constructor(readonly signalName: string) {
    super(`Interrupted by ${signalName}`, exitCodes.interrupted);
  }
}

/** Whether the same request may succeed if it is sent again. */
export function isTransient(error: unknown): boolean {
  if (error instanceof TransportError) return true;
  return error instanceof HttpError && [429, 502, 503, 504].includes(error.status);
}
