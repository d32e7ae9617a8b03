import { quoteName } from './quote.js';

/** How a command ends, as its exit code (interface.md, Clients). */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  timedOut: 3,
  notAuthorised: 4,
  notReached: 5,
  busy: 6,
  interrupted: 130,
} as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

interface ErrorKind {
  readonly status: number;
  readonly exit: ExitCode;
  /** Seconds after which a retry makes sense; sent as `Retry-After`. */
  readonly retryAfter?: number;
}

/** Every error that the service can answer with: its HTTP status and what a client exits with. */
export const errorKinds = {
  badRequest: { status: 400, exit: exitCodes.usage },
  unknownGpu: { status: 400, exit: exitCodes.usage },
  missingToken: { status: 401, exit: exitCodes.notAuthorised },
  invalidToken: { status: 401, exit: exitCodes.notAuthorised },
  foreignOrigin: { status: 403, exit: exitCodes.usage },
  notFound: { status: 404, exit: exitCodes.usage },
  unknownApp: { status: 404, exit: exitCodes.usage },
  unknownJob: { status: 404, exit: exitCodes.usage },
  methodNotAllowed: { status: 405, exit: exitCodes.usage },
  uploadStalled: { status: 408, exit: exitCodes.timedOut },
  notDone: { status: 409, exit: exitCodes.failed },
  expired: { status: 410, exit: exitCodes.usage },
  otherResult: { status: 412, exit: exitCodes.failed },
  fileTooLarge: { status: 413, exit: exitCodes.usage },
  uploadTooLarge: { status: 413, exit: exitCodes.usage },
  notMultipart: { status: 415, exit: exitCodes.usage },
  noSuchRange: { status: 416, exit: exitCodes.failed },
  badExpectation: { status: 417, exit: exitCodes.usage },
  invalidField: { status: 422, exit: exitCodes.usage },
  busy: { status: 429, exit: exitCodes.busy, retryAfter: 10 },
  streamOpen: { status: 429, exit: exitCodes.busy, retryAfter: 2 },
  tooManyStreams: { status: 429, exit: exitCodes.busy, retryAfter: 5 },
  headersTooLarge: { status: 431, exit: exitCodes.usage },
  internal: { status: 500, exit: exitCodes.failed },
  noGpu: { status: 503, exit: exitCodes.busy, retryAfter: 60 },
  gpusUnknown: { status: 503, exit: exitCodes.busy, retryAfter: 10 },
  unreadableJob: { status: 503, exit: exitCodes.busy, retryAfter: 5 },
  shortage: { status: 503, exit: exitCodes.busy, retryAfter: 5 },
  shuttingDown: { status: 503, exit: exitCodes.busy, retryAfter: 10 },
  tooManyConnections: { status: 503, exit: exitCodes.busy, retryAfter: 5 },
  diskFull: { status: 507, exit: exitCodes.busy },
} as const satisfies Record<string, ErrorKind>;
export type ErrorCode = keyof typeof errorKinds;

/** The body of every error. */
export interface ErrorBody {
  /** One sentence a person can act on. */
  readonly detail: string;
}

/** An error that the service answers with; `detail` is what the wire carries. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';

  constructor(
    readonly code: ErrorCode,
    readonly detail: string,
    options?: ErrorOptions,
  ) {
    super(detail, options);
  }

  get kind(): ErrorKind {
    return errorKinds[this.code];
  }
}

/** A fault of the server itself: what it is stays in the server's log. */
export const internalError = (): ServiceError => new ServiceError('internal', 'Internal server error');

/** A field of a form, an option or a flag that is missing, of the wrong type or out of range: 422. */
export class FieldError extends ServiceError {
  constructor(
    readonly field: string,
    problem: string,
  ) {
    super('invalidField', `Field ${quoteName(field)} ${problem}`);
  }
}

/** What a client exits with when the service answered with this HTTP status. */
export function exitCodeOf(status: number): ExitCode {
  const kind = Object.values<ErrorKind>(errorKinds).find((each) => each.status === status);
  return kind?.exit ?? exitCodes.failed;
}
