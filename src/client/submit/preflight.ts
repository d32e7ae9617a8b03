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

/** Seconds that a question to the server may take. Without an answer the submission is sent anyway, and the server decides. */
const maxWait = 30;

/** Whether an error would make the submission fail too. */
function stopsAll(error: unknown): boolean {
  if (error instanceof TransportError) return error.fault === 'unreached';
  if (!(error instanceof HttpError)) return false;
  const hasMoved = error.status < 400;
  // The app needs more than the server has.
  const isRefused = error.status === 422;
  return hasMoved || isRefused || error.exitCode === exitCodes.notAuthorised;
}

/**
 * Asks a server for something that a submission can go without: null if the server does not know the route, as KonfAI's
 * knows no limits, or cannot answer now.
 * @throws what would end the submission too: no connection, a token that is refused, an interruption
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
 * Checks a submission against what the description of its app states (docs/http.md, Apps).
 * @param counts which refusals count
 * @throws UsageError naming the flags as a person types them
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
 * Checks a submission against what the server says of its app. A server that cannot describe the app may run it all the
 * same.
 * @throws UsageError for what the app does not take, and for an app that is not available; HttpError 404 for an app that the
 * server does not have
 * @returns its description; null if the server cannot describe it
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
  // KonfAI's server gives no reason: it may just have failed to describe the app.
  else if (view && view.reason !== null) throw new UsageError(notAvailable(submission.app, view.reason));
  if (!isMissing) return view?.available ? view : null;
  // A server may also lack the route; its list decides.
  const list = await ifItCanSay(connection, () => apps(connection, maxWait));
  if (list === null || list.includes(submission.app)) return null;
  throw new HttpError(404, `Unknown app ${quoteName(submission.app)}`, null);
}

/**
 * Checks whether an app has the operation that it is asked for, where the files cannot be sent: that matters more. Where the
 * server does not say, or does not answer, nothing is refused. Inference is not asked about: nearly every app has it.
 */
export async function checkOperation(connection: Connection, submission: Submission): Promise<void> {
  if (submission.operation.needs.every(({ capability }) => capability === 'inference')) return;
  const view = await describe(connection, submission.app, maxWait).catch(() => null);
  connection.signal?.throwIfAborted();
  if (view?.available) checkDescribed(submission, view, ({ field }) => field === null);
}

/**
 * Checks that the server has the GPUs that a submission names. A server that cannot tell its GPUs at the moment decides
 * later.
 * @throws UsageError for an id that it does not have; ClientError (exit 6) if it has no GPU at all
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

/** Checks that no file is of a kind that the app does not take. @throws UsageError naming each file */
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

/** What a server's limits mean for a submission. */
export interface ServerTerms {
  /** Checks the kinds of files against what the app says that it takes. */
  readonly checkKinds: (volumes: FoundFiles['volumes']) => void;
  /** Checks files, some of which are packed later. */
  readonly checkSizes: (files: readonly SizedSource[]) => void;
  /** Fields to send where the submission does not set them. */
  readonly fields: Readonly<Record<string, string>>;
  /** Most jobs that may be active at once; null if the server does not say. */
  readonly maxJobs: number | null;
  /** Whether the server makes one job of all submissions with one `Idempotency-Key`, as one does that says its limits. */
  readonly knowsKeys: boolean;
  /** Whether files can be sent as uploads, which submissions name by their contents. */
  readonly takesUploads: boolean;
  /** Whether it takes de-identified submissions alone; null if it does not know the field that says that one is. */
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
 * Checks a submission against what the server says of itself before anything is packed or sent: GPUs, the app, limits. What
 * the server does not say is not checked: it decides when it has the submission.
 * @returns what else its limits mean for the submission
 * @throws ClientError for the first thing that cannot be right
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
