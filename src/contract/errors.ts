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
  usage: 'The command line, or something it names, is wrong, or the app refused its input',
  timedOut: 'A time limit was exceeded',
  notAuthorised: 'The token is missing or wrong',
  notReached: 'The server could not be reached, or something else answered in its place',
  busy:
    'The server cannot accept the request now: it is busy or draining, its disk or a limit is full, or it has no ' +
    'GPU. For health: jobs have to wait',
  interrupted: 'Interrupted from the keyboard or by a signal',
};

interface ErrorKind {
  readonly status: number;
  readonly exit: ExitCode;
  /** Description for the documentation; the sentence in an answer is more specific. */
  readonly means: string;
  /** Seconds after which a retry makes sense; sent as `Retry-After`. */
  readonly retryAfter?: number | undefined;
}

const kind = (
  status: number,
  exit: keyof typeof exitCodes,
  means: string,
  retryAfter?: number,
): ErrorKind => ({ status, exit: exitCodes[exit], means, retryAfter });

/** Every error that the service can answer with: its HTTP status, the client's exit code, and its meaning. */
export const errorKinds = {
  badRequest: kind(400, 'usage', 'The request or an archive cannot be read'),
  unknownGpu: kind(400, 'usage', 'The server has no GPU with that id'),
  missingToken: kind(401, 'notAuthorised', 'The token is missing'),
  invalidToken: kind(401, 'notAuthorised', 'The token is wrong'),
  adminOnly: kind(403, 'notAuthorised', "Only an admin's token may do this"),
  foreignOrigin: kind(403, 'usage', 'A server without a token does not answer web pages of other sites'),
  notFound: kind(404, 'usage', 'There is no such path or file'),
  unknownApp: kind(404, 'usage', 'There is no such app'),
  unknownJob: kind(404, 'usage', 'There is no such job'),
  unknownUpload: kind(404, 'usage', 'No upload of this token has that name'),
  nothingLeft: kind(404, 'usage', 'The job left no output files'),
  methodNotAllowed: kind(405, 'usage', 'The path does not allow this method'),
  uploadStalled: kind(408, 'timedOut', 'The upload stalled'),
  jobActive: kind(409, 'failed', 'The job has not ended'),
  wrongOffset: kind(409, 'failed', 'The upload continues at another offset'),
  uploadsMissing: kind(
    409,
    'failed',
    'Uploads named in the submission are missing or incomplete: send them, then submit again',
  ),
  expired: kind(410, 'failed', 'The job has expired, or was removed'),
  otherResult: kind(412, 'failed', 'The result is not the one requested'),
  otherProtocol: kind(412, 'failed', "The request lacks 'Tus-Resumable: 1.0.0'"),
  fileTooLarge: kind(413, 'usage', 'A file is too large'),
  uploadTooLarge: kind(413, 'usage', 'The upload is too large'),
  notMultipart: kind(415, 'usage', 'The body is neither a multipart form nor JSON'),
  notOffsetStream: kind(415, 'usage', "The body of an upload is not 'application/offset+octet-stream'"),
  noSuchRange: kind(416, 'failed', 'There is no such range'),
  invalidField: kind(422, 'usage', 'A field is missing or invalid'),
  notDeidentified: kind(
    422,
    'usage',
    'The server accepts only de-identified scans, and the form does not declare them so, or a file contains ' +
      'identifying information',
  ),
  wrongContent: kind(
    422,
    'usage',
    'The received bytes do not match the digest that names the upload; it was removed',
  ),
  uploadInUse: kind(423, 'busy', 'Another request is writing the upload, or a submission is using it', 1),
  busy: kind(429, 'busy', 'The limit of active jobs is reached', 10),
  streamOpen: kind(429, 'busy', 'The log is already being read', 2),
  tooManyStreams: kind(429, 'busy', 'Too many logs are being read', 5),
  headersTooLarge: kind(431, 'usage', 'The headers of the request are too long'),
  wrongChecksum: kind(460, 'failed', 'The bytes do not match their checksum; send them again'),
  internal: kind(500, 'failed', 'An internal error of the server'),
  noGpu: kind(503, 'busy', 'The server has no GPU', 60),
  gpusUnknown: kind(503, 'busy', 'The GPUs are not known at the moment', 10),
  memoryUnknown: kind(501, 'failed', 'GPU memory cannot be determined here'),
  unreadableJob: kind(503, 'busy', 'The job cannot be read at the moment', 5),
  shortage: kind(503, 'busy', 'The server is out of file descriptors or memory', 5),
  shuttingDown: kind(503, 'busy', 'The server is stopping', 10),
  draining: kind(503, 'busy', 'The server is not accepting new jobs', 60),
  upgraded: kind(
    503,
    'busy',
    'The program was upgraded while the server was running, and the server must be restarted',
    60,
  ),
  tooManyConnections: kind(503, 'busy', 'No connection is free', 5),
  keptFull: kind(507, 'busy', 'The jobs of this token have reached their storage limit'),
  diskFull: kind(507, 'busy', "The server's disk is full"),
  unwritable: kind(507, 'busy', 'The server cannot write to its data directory'),
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
