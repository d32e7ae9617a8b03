import { quotePath } from '../../contract/index.js';
import { isSystemError } from '../../files/index.js';
import {
  devices as askDevices,
  limits as askLimits,
  type Connection,
  type JobAnswer,
} from '../connection/index.js';
import type { FoundFiles } from '../found-files.js';
import { type FollowedLog, keepLog } from '../logs/index.js';
import type { OriginalNames } from '../outgoing.js';
import { recordName } from '../output-names.js';
import type { Reporter } from '../reporter.js';
import { digestOf, keyOf } from './computation.js';
import type { JobOptions } from './job-options.js';
import { numbersOf } from './numbers.js';
import {
  type CaseRecord,
  type Conversion,
  freeRecordName,
  hashOutputs,
  type SentCase,
  writeRecord,
} from './record.js';

/** What is added to a result before it is moved to its place. */
export interface Addition extends Pick<JobOptions, 'imaging' | 'conversion'> {
  readonly originals: OriginalNames;
  /** The log, if this command has followed it. */
  readonly followed?: FollowedLog;
  /** What was sent, which a conversion may need. */
  readonly found?: FoundFiles;
  /** Whether failing to write the record is an error instead of a note. */
  readonly needsRecord?: boolean;
}

/** Maximum time for a request about facts for the record, in seconds. Without an answer, the record contains less. */
export const recordWait = 10;

/** What a server says of itself. */
export interface ServerFacts {
  readonly address: string;
  /** Version of remote-app on the server; null if the server does not report it, like KonfAI's. */
  readonly version: string | null;
  /** Names of its GPUs, by their ids. */
  readonly devices: ReadonlyMap<number, string>;
}

/** Asks a server about itself. Fields are null or empty if it does not answer. Never rejects. */
export async function serverFacts(connection: Connection): Promise<ServerFacts> {
  const [limits, list] = await Promise.all([
    askLimits(connection, recordWait).catch(() => null),
    askDevices(connection, recordWait).catch(() => null),
  ]);
  return {
    address: connection.server,
    version: limits?.version ?? null,
    devices: new Map(list?.devices_index.map((id, index) => [id, list.devices_name[index] ?? String(id)])),
  };
}

/** Names of a job's GPUs, or their ids if the server does not name them. */
export const devicesOf = (job: JobAnswer | null, { devices }: ServerFacts): string[] =>
  (job?.assigned_gpus ?? []).map((id) => devices.get(id) ?? String(id));

/** What is known about a case whose job has ended, without its result. */
export interface EndedCase {
  readonly sent: SentCase;
  readonly job: JobAnswer | null;
  readonly server: ServerFacts;
}

function secondsOf({ run_seconds, started_at, finished_at }: JobAnswer): number | null {
  if (run_seconds !== null) return Math.round(run_seconds * 1000) / 1000;
  const seconds = (Date.parse(finished_at ?? '') - Date.parse(started_at ?? '')) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

/**
 * The part of a job's record that does not depend on the files of its result. The key uses the version of the app that the job
 * ran.
 * @param log the name of the log file; null if there is none
 */
export function makeRecord({ sent, job, server }: EndedCase, jobId: string, log: string | null): CaseRecord {
  // The version is null if the server says that it is unknown, and undefined if the server has no versions.
  const version = job?.version === undefined ? sent.app_version : job.version;
  const [generator, ...programs] = sent.GeneratedBy;
  const computed = {
    ...sent,
    GeneratedBy: [
      { Name: sent.app, ...generator, ...(version === null ? {} : { Version: version }) },
      ...programs,
    ],
    app_version: version,
  };
  return {
    ...computed,
    key: keyOf(computed, digestOf(sent.inputs)),
    outputs: [],
    case: null,
    edited: [],
    stamps: { inputs: null, outputs: null },
    log,
    numbers: {},
    numbers_unread: [],
    conversion: null,
    job_id: jobId,
    server: server.address,
    server_version: server.version,
    devices: devicesOf(job, server),
    created_at: job?.created_at ?? null,
    started_at: job?.started_at ?? null,
    finished_at: job?.finished_at ?? null,
    seconds: job ? secondsOf(job) : null,
  };
}

/**
 * Completes a result in its private directory: adds the job's log, restores the original file names, converts the volumes, and
 * writes the record.
 * @param ended contents of the record; null for no record and no conversion
 * @returns the outcome of the conversion; null if there was none
 * @throws the system's error
 */
export async function completeResult(
  connection: Connection,
  jobId: string,
  directory: string,
  ended: EndedCase | null,
  addition: Addition,
  reporter: Reporter,
): Promise<Conversion | null> {
  const { imaging, originals, followed, conversion: request, found } = addition;
  const log = await keepLog(connection, jobId, directory, followed);
  await imaging.restoreNames(directory, originals, reporter);
  if (!ended) return null;
  const record = makeRecord(ended, jobId, log);
  try {
    freeRecordName(directory);
    const conversion =
      request && found ? await imaging.convert(directory, { request, found, record }, reporter) : null;
    const outputs = await hashOutputs(directory, connection.signal, log);
    const numbers = numbersOf(directory, outputs, record.labels);
    writeRecord(directory, { ...record, outputs, conversion, ...numbers });
    return conversion;
  } catch (cause) {
    if (addition.needsRecord || !isSystemError(cause)) throw cause;
    reporter.note(`${quotePath(recordName)} cannot be written: ${(cause as Error).message}`);
    return null;
  }
}
