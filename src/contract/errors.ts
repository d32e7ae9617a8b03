import { quoteName } from './text.js';

/** How a command ends, as its exit code. */
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

/** The meaning of each exit code, for the documentation. */
export const exitCodeMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  done: 'Done',
  failed: 'The job failed, was killed or has expired, or a file could not be written',
  usage: 'The command line, or what it names, is wrong, or the app refused its input',
  timedOut: 'Something took longer than it may',
  notAuthorised: 'The token is missing or wrong',
  notReached: 'The server was not reached, or something else answered in its place',
  busy: 'The server cannot take it now: it is busy or draining, its disk or a limit is full, or it has no GPU; of health: jobs have to wait',
  interrupted: 'Interrupted from the keyboard or by a signal',
};

interface ErrorKind {
  readonly status: number;
  readonly exit: ExitCode;
  /** For the documentation; the sentence in an answer is more specific. */
  readonly means: string;
  /** Seconds after which a retry makes sense; sent as `Retry-After`. */
  readonly retryAfter?: number;
}

/** Every error that the service can answer with: its HTTP status, the client's exit code, and its meaning. */
export const errorKinds = {
  badRequest: { status: 400, exit: exitCodes.usage, means: 'The request or an archive cannot be read' },
  unknownGpu: { status: 400, exit: exitCodes.usage, means: 'This server has no GPU of that id' },
  missingToken: { status: 401, exit: exitCodes.notAuthorised, means: 'The token is missing' },
  invalidToken: { status: 401, exit: exitCodes.notAuthorised, means: 'The token is wrong' },
  adminOnly: {
    status: 403,
    exit: exitCodes.notAuthorised,
    means: 'Only the token of an admin may do this',
  },
  foreignOrigin: {
    status: 403,
    exit: exitCodes.usage,
    means: 'A server without a token answers no web page of another site',
  },
  notFound: { status: 404, exit: exitCodes.usage, means: 'There is no such path or file' },
  unknownApp: { status: 404, exit: exitCodes.usage, means: 'There is no such app' },
  unknownJob: { status: 404, exit: exitCodes.usage, means: 'There is no such job' },
  unknownUpload: { status: 404, exit: exitCodes.usage, means: 'No upload of this token has that name' },
  nothingLeft: { status: 404, exit: exitCodes.usage, means: 'The job left no file in its output' },
  methodNotAllowed: { status: 405, exit: exitCodes.usage, means: 'The path does not allow this method' },
  uploadStalled: { status: 408, exit: exitCodes.timedOut, means: 'The upload stalled' },
  jobActive: { status: 409, exit: exitCodes.failed, means: 'The job has not ended' },
  wrongOffset: { status: 409, exit: exitCodes.failed, means: 'The upload goes on at another offset' },
  uploadsMissing: {
    status: 409,
    exit: exitCodes.failed,
    means: 'Uploads that the submission names are not there, or not whole: send them, and submit again',
  },
  expired: { status: 410, exit: exitCodes.failed, means: 'The job has expired, or was removed' },
  otherResult: { status: 412, exit: exitCodes.failed, means: 'The result is not the one that was asked for' },
  otherProtocol: {
    status: 412,
    exit: exitCodes.failed,
    means: "The request does not have 'Tus-Resumable: 1.0.0'",
  },
  fileTooLarge: { status: 413, exit: exitCodes.usage, means: 'A file is too large' },
  uploadTooLarge: { status: 413, exit: exitCodes.usage, means: 'The upload is too large' },
  notMultipart: {
    status: 415,
    exit: exitCodes.usage,
    means: 'The body is neither a multipart form nor JSON',
  },
  notOffsetStream: {
    status: 415,
    exit: exitCodes.usage,
    means: "The bytes of an upload do not come as 'application/offset+octet-stream'",
  },
  noSuchRange: { status: 416, exit: exitCodes.failed, means: 'There is no such range' },
  invalidField: { status: 422, exit: exitCodes.usage, means: 'A field is missing or has a bad value' },
  notDeidentified: {
    status: 422,
    exit: exitCodes.usage,
    means:
      'The server takes de-identified scans alone: the form does not claim it, or a file tells who somebody is',
  },
  wrongContent: {
    status: 422,
    exit: exitCodes.usage,
    means: 'The bytes that came are not those that the name of the upload stands for: it is removed',
  },
  uploadInUse: {
    status: 423,
    exit: exitCodes.busy,
    retryAfter: 1,
    means: 'Another request writes the upload, or a submission takes it',
  },
  busy: { status: 429, exit: exitCodes.busy, retryAfter: 10, means: 'The limit of active jobs is reached' },
  streamOpen: { status: 429, exit: exitCodes.busy, retryAfter: 2, means: 'The log is being read already' },
  tooManyStreams: { status: 429, exit: exitCodes.busy, retryAfter: 5, means: 'Too many logs are being read' },
  headersTooLarge: { status: 431, exit: exitCodes.usage, means: 'The headers of the request are too long' },
  wrongChecksum: {
    status: 460,
    exit: exitCodes.failed,
    means: 'The bytes do not have the checksum that came with them; send them again',
  },
  internal: { status: 500, exit: exitCodes.failed, means: 'An internal error of the server' },
  noGpu: { status: 503, exit: exitCodes.busy, retryAfter: 60, means: 'The server has no GPU' },
  gpusUnknown: { status: 503, exit: exitCodes.busy, retryAfter: 10, means: 'The GPUs are not known now' },
  memoryUnknown: { status: 501, exit: exitCodes.failed, means: 'The memory of GPUs cannot be told here' },
  unreadableJob: { status: 503, exit: exitCodes.busy, retryAfter: 5, means: 'The job cannot be read now' },
  shortage: {
    status: 503,
    exit: exitCodes.busy,
    retryAfter: 5,
    means: 'The server is short of descriptors or memory',
  },
  shuttingDown: { status: 503, exit: exitCodes.busy, retryAfter: 10, means: 'The server is stopping' },
  draining: {
    status: 503,
    exit: exitCodes.busy,
    retryAfter: 60,
    means: 'The server accepts no new jobs now',
  },
  upgraded: {
    status: 503,
    exit: exitCodes.busy,
    retryAfter: 60,
    means: 'The program was upgraded under the running server, which has to be restarted',
  },
  tooManyConnections: { status: 503, exit: exitCodes.busy, retryAfter: 5, means: 'No connection is free' },
  keptFull: {
    status: 507,
    exit: exitCodes.busy,
    means: 'The jobs of this token keep as many bytes as they may',
  },
  diskFull: { status: 507, exit: exitCodes.busy, means: "The server's disk is full" },
  unwritable: { status: 507, exit: exitCodes.busy, means: 'The server cannot write its data directory' },
} as const satisfies Record<string, ErrorKind>;
export type ErrorCode = keyof typeof errorKinds;

/** The answer to a submission while the server is stopping: a client may wait for the next server. */
export const shuttingDownDetail = 'The server is shutting down; submit again later';

/** Sentences that the client replaces with its own, which name the job and the server. */
export const wireDetails = {
  missingToken: 'Missing bearer token',
  invalidToken: 'Invalid token',
  unknownJob: 'Unknown job_id',
} as const satisfies Partial<Record<ErrorCode, string>>;

/** The body of every error. */
export interface ErrorBody {
  /** One sentence that a person can act on. */
  readonly detail: string;
  /** With `uploadsMissing`: the names of the uploads that have to be sent. */
  readonly uploads?: readonly string[] | undefined;
}

/** An error answer of the service; `detail` is sent to the client. */
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

/** An internal error of the server itself; the details stay in the server's log. */
export const internalError = (): ServiceError => new ServiceError('internal', 'Internal server error');

/** A field of a form, an option or a flag that is missing, of the wrong type or out of range: 422. */
export class FieldError extends ServiceError {
  constructor(
    readonly field: string,
    /** The end of the sentence, after the field's name. */
    readonly problem: string,
  ) {
    super('invalidField', `Field ${quoteName(field)} ${problem}`);
  }
}

/** The exit code of a client for an answer with this HTTP status. */
export function exitCodeOf(status: number): ExitCode {
  const kind = Object.values<ErrorKind>(errorKinds).find((each) => each.status === status);
  return kind?.exit ?? exitCodes.failed;
}
