import path from 'node:path';
import {
  type AppRefusal,
  carriesFiles,
  excerpt,
  exitCodes,
  type FieldValue,
  fieldWithRole,
  fileRefusals,
  flagName,
  kindBytes,
  notAvailable,
  type Operation,
  quoteName,
  readText,
  refusals,
  someOf,
} from '../../contract/index.js';
import { firstBytes } from '../../files/index.js';
import {
  type AvailableAppAnswer,
  apps,
  type Connection,
  app as describe,
  devices,
  limits,
  untilAnswered,
} from '../connection/index.js';
import { ClientError, HttpError, TransportError, UsageError } from '../errors.js';
import type { FoundFiles } from '../found-files.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import { checkSizes, checkTimes, keptForADay, type SizedSource } from './limits.js';

/**
 * Maximum time for a request before the submission, in seconds. Without an answer, the submission is sent anyway, and the server
 * decides.
 */
const maxWait = 30;

/** Whether an error means that the submission would fail too. */
function stopsAll(error: unknown): boolean {
  if (error instanceof TransportError) return error.fault === 'unreached';
  if (!(error instanceof HttpError)) return false;
  const hasMoved = error.status < 400;
  // The app needs more than the server can provide.
  const isRefused = error.status === 422;
  return hasMoved || isRefused || error.exitCode === exitCodes.notAuthorised;
}

/**
 * Asks a server for something that a submission can do without. Null if the server does not know the route, as KonfAI's server
 * has no limits, or cannot answer now.
 * @throws errors that would end the submission too: no connection, a refused token, an interruption
 */
async function ifItCanSay<T>(connection: Connection, ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch (error) {
    connection.signal?.throwIfAborted();
    if (stopsAll(error)) throw error;
    return null;
  }
}

const isNotFound = (error: unknown): error is HttpError => error instanceof HttpError && error.status === 404;

/**
 * Checks a submission against the description of its app (docs/http.md, Apps).
 * @param counts decides which refusals count
 * @throws UsageError naming the flags as the user types them
 */
function checkDescribed(
  { operation, fields, options, files }: Submission,
  app: AvailableAppAnswer,
  counts: (refusal: AppRefusal) => boolean = () => true,
): void {
  const values: Record<string, FieldValue> = { ...options };
  for (const field of operation.fields) {
    const value = readText(field, fields[field.name] ?? '');
    if (value !== undefined) values[field.name] = value;
  }
  const groups = Object.fromEntries(files.map(({ field, groups: all }) => [field.name, all.length]));
  const found = refusals(app, operation, values, groups).filter(counts);
  const sentences = found.map(({ field, value, problem }) => {
    const says = `the app ${quoteName(app.app)} ${problem}`;
    if (field === null) return says;
    if (field.kind === 'boolean') return `${says}; leave that out with --no-${flagName(field)}`;
    if (!carriesFiles(field)) return `--${flagName(field)} ${excerpt(value ?? '', 200)}: ${says}`;
    const flag = field.char ? `-${field.char}` : `--${flagName(field)}`;
    return `${says}. The paths without a flag are the first group, and each ${flag} adds one`;
  });
  if (sentences.length === 0) return;
  const message = sentences.join('; ');
  throw new UsageError(message.replace(/^the/, 'The'));
}

/**
 * Checks a submission against the server's description of its app. A server may run an app that it cannot describe.
 * @throws UsageError for anything that the app does not accept, and for an unavailable app; HttpError 404 for an app that the
 *   server does not have
 * @returns the description; null if the server cannot describe the app
 */
async function checkApp(connection: Connection, submission: Submission): Promise<AvailableAppAnswer | null> {
  let isMissing = false;
  const view = await ifItCanSay(connection, () =>
    describe(connection, submission.app, maxWait).catch((error: unknown) => {
      isMissing = isNotFound(error);
      throw error;
    }),
  );
  if (view?.available) checkDescribed(submission, view);
  // KonfAI's server gives no reason, so it may just have failed to describe the app.
  else if (view && view.reason !== null) throw new UsageError(notAvailable(submission.app, view.reason));
  if (!isMissing) return view?.available ? view : null;
  // A 404 may also mean that the server lacks the route, so its list of apps decides.
  const list = await ifItCanSay(connection, () => apps(connection, maxWait));
  if (list === null || list.includes(submission.app)) return null;
  throw new HttpError(404, `Unknown app ${quoteName(submission.app)}`, null);
}

/**
 * If the files cannot be sent, checks whether the app supports the operation at all, because that error matters more. If the
 * server does not say or answer, nothing is refused. Not checked for inference, which nearly every app supports.
 */
export async function checkOperation(connection: Connection, submission: Submission): Promise<void> {
  if (submission.operation.needs.every(({ capability }) => capability === 'inference')) return;
  const view = await describe(connection, submission.app, maxWait).catch(() => null);
  connection.signal?.throwIfAborted();
  if (view?.available) checkDescribed(submission, view, ({ field }) => field === null);
}

/**
 * Checks that the server has the GPUs that a submission names. If the server cannot list its GPUs at the moment, it decides
 * later.
 * @throws UsageError for an id that the server does not have; ClientError (exit 6) if it has no GPU at all
 */
async function checkGpus(
  connection: Connection,
  { operation, fields }: Pick<Submission, 'operation' | 'fields'>,
): Promise<void> {
  const gpu = fieldWithRole(operation, 'gpus');
  const given = fields[gpu.name];
  if (given === undefined) return;
  const list = await ifItCanSay(connection, () => devices(connection, maxWait));
  if (list === null) return;
  const known = list.devices_index;
  const unknown = given
    .split(',')
    .map(Number)
    .filter((id) => !known.includes(id));
  if (unknown.length === 0) return;
  const flag = `--${flagName(gpu)}`;
  if (known.length === 0) {
    const cpu = `--${flagName(fieldWithRole(operation, 'workers'))}`;
    throw new ClientError(
      `${flag} ${given}: ${connection.server} has no GPU; leave out ${flag}, or give ${cpu}, to run on its CPU`,
      exitCodes.busy,
    );
  }
  const names = known.map((id, index) => `${id} (${quoteName(list.devices_name[index] ?? '')})`).join(', ');
  throw new UsageError(
    `${flag} ${given}: ${connection.server} has no GPU ${unknown.join(', ')}; it has: ${names}`,
  );
}

/** Checks that the app accepts the kind of each file. @throws UsageError naming the files that it does not accept */
function checkKinds(app: AvailableAppAnswer, operation: Operation, volumes: FoundFiles['volumes']): void {
  const { groups = [] } = volumes.find(({ field }) => field.role === 'paths') ?? {};
  const files = groups.map((units) =>
    units.flatMap((unit) =>
      unit.kind === 'file' && !unit.isHalf
        ? [{ name: path.basename(unit.path), start: () => firstBytes(unit.path, kindBytes) }]
        : [],
    ),
  );
  const problems = fileRefusals(app, operation, files).map(({ problem }) => problem);
  if (problems.length > 0) throw new UsageError(`The app ${quoteName(app.app)} ${someOf(problems)}`);
}

/** The consequences of a server's limits for a submission. */
export interface ServerTerms {
  /** Checks the kinds of files against those that the app accepts. */
  readonly checkKinds: (volumes: FoundFiles['volumes']) => void;
  /** Checks the sizes of files, some of which are packed later. */
  readonly checkSizes: (files: readonly SizedSource[]) => void;
  /** Fields to add if the submission does not set them. */
  readonly fields: Readonly<Record<string, string>>;
  /** Maximum number of active jobs; null if the server does not say. */
  readonly maxJobs: number | null;
  /** Whether submissions with the same `Idempotency-Key` become one job, as on every server that reports its limits. */
  readonly knowsKeys: boolean;
  /** Whether files can be sent as uploads, to which submissions refer by content. */
  readonly takesUploads: boolean;
  /** Whether the server accepts only de-identified submissions; null if it does not know the field that declares them. */
  readonly requiresDeidentified: boolean | null;
}

/** For a server that does not say what its limits are. */
const unknownTerms: ServerTerms = {
  checkKinds: () => {},
  checkSizes: () => {},
  fields: {},
  maxJobs: null,
  knowsKeys: false,
  takesUploads: false,
  requiresDeidentified: null,
};

/**
 * Checks a submission against what the server says about GPUs, the app and its limits, before anything is packed or sent. What
 * the server does not report is not checked: the server decides when it has the submission.
 * @returns the other consequences of the limits for the submission
 * @throws ClientError for the first problem
 */
export async function preflight(
  connection: Connection,
  submission: Submission,
  reporter?: Reporter,
): Promise<ServerTerms> {
  // A server may restart after its first answer.
  const [known, app] = await untilAnswered(connection, connection.patience(reporter), () =>
    Promise.all([
      ifItCanSay(connection, () => limits(connection, maxWait, submission)),
      checkApp(connection, submission),
      checkGpus(connection, submission),
    ]),
  );
  const ofApp: Pick<ServerTerms, 'checkKinds'> = {
    checkKinds: (volumes) => app && checkKinds(app, submission.operation, volumes),
  };
  if (!known) return { ...unknownTerms, ...ofApp };
  const { server, longestOutage } = connection;
  checkTimes(submission, known, server);
  return {
    ...ofApp,
    checkSizes: (files) => checkSizes(files, known, server),
    fields: keptForADay(submission.operation, longestOutage, known),
    maxJobs: known.max_jobs,
    knowsKeys: true,
    takesUploads: known.uploads !== null,
    requiresDeidentified: known.require_deidentified,
  };
}
