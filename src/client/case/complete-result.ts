import { type OperationName, operationOf, quotePath } from '../../contract/index.js';
import { isSystemError } from '../../files/index.js';
import type { AppAnswer, Connection, JobAnswer } from '../connection/index.js';
import type { FoundFiles } from '../found-files.js';
import { type FollowedLog, keepLog } from '../logs/index.js';
import type { OriginalNames } from '../outgoing.js';
import { recordName } from '../output-names.js';
import type { Reporter } from '../reporter.js';
import type { Conversion, ResultFacts } from './imaging.js';
import type { JobOptions } from './job-options.js';
import { numbersOf, type ReadNumbers } from './numbers.js';
import {
  type CaseRecord,
  type Computation,
  devicesOf,
  digestOf,
  freeRecordName,
  hashOutputs,
  keyOf,
  type RecordedFile,
  type RecordedInput,
  type ServerFacts,
  writeRecord,
} from './record.js';

/** What is added to a result before it has its place. */
export interface Addition extends Pick<JobOptions, 'imaging' | 'conversion'> {
  readonly originals: OriginalNames;
  /** The log, if this command has followed it. */
  readonly followed?: FollowedLog;
  /** What was sent, which a conversion may need. */
  readonly found?: FoundFiles;
  /** Whether it is an error if the record cannot be written, and not only a note. */
  readonly needsRecord?: boolean;
}

/** What is known of a finished job before its result is looked at. */
export interface RecordFacts {
  readonly computation: Computation;
  readonly app: AppAnswer | null;
  readonly job: JobAnswer | null;
  readonly jobId: string;
  /** The name of the file with its log; null if there is none. */
  readonly log?: string | null;
  readonly server: ServerFacts;
  readonly clientVersion: string;
  readonly inputs: readonly RecordedInput[];
  /** What the client noticed in the inputs, in sentences. */
  readonly remarks: readonly string[];
}

function secondsOf({ run_seconds, started_at, finished_at }: JobAnswer): number | null {
  if (run_seconds !== null) return Math.round(run_seconds * 1000) / 1000;
  const seconds = (Date.parse(finished_at ?? '') - Date.parse(started_at ?? '')) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

/** The one unit that the app states for all its images. Null if it states none, or if they differ: a record has room for one. */
function unitOf(volumes: NonNullable<AppAnswer & { available: true }>['inputs'] = {}): string | null {
  const images = Object.values(volumes).filter((each) => each.volume_type === 'VOLUME');
  const [first, ...others] = new Set(images.map((each) => each.unit));
  return others.length === 0 && first !== undefined ? first.slice(0, 20) : null;
}

/** The unit of the images that a job wrote. Null for operations whose results are not images, such as scores. */
function outputUnit({ app, computation }: Pick<RecordFacts, 'app' | 'computation'>): string | null {
  const { writesOutputs } = operationOf(computation.operation as OperationName);
  return app?.available && writesOutputs ? unitOf(app.outputs) : null;
}

/** The version of the app that the job ran. Null if the server says that it is unknown; a server may have no versions at all. */
const ranVersion = ({ computation, job }: Pick<RecordFacts, 'computation' | 'job'>): string | null =>
  job?.version === undefined ? computation.version : job.version;

/** The record of a result. Its key has the version of the app that the job ran. */
export function makeRecord(
  facts: RecordFacts,
  outputs: readonly RecordedFile[],
  { numbers, unread }: ReadNumbers,
  conversion: Conversion | null = null,
): CaseRecord {
  const { app, job, inputs, server } = facts;
  const computation = { ...facts.computation, version: ranVersion(facts) };
  const { version } = computation;
  const described = app?.available ? app : null;
  return {
    GeneratedBy: [
      {
        Name: computation.app,
        ...(version === null ? {} : { Version: version }),
        ...(described ? { Description: described.display_name } : {}),
        ...(described?.repository ? { CodeURL: `https://huggingface.co/${described.repository.name}` } : {}),
      },
      { Name: 'remote-app', Version: facts.clientVersion },
    ],
    key: keyOf(computation, digestOf(inputs)),
    operation: computation.operation,
    app: computation.app,
    app_version: version,
    checkpoints: [...computation.checkpoints],
    options: computation.settings,
    inputs: [...inputs],
    inputs_remarks: [...facts.remarks],
    outputs: [...outputs],
    deidentified: computation.deidentified && {
      ...computation.deidentified,
      allowed: [...computation.deidentified.allowed],
    },
    case: null,
    edited: [],
    stamps: { inputs: null, outputs: null },
    log: facts.log ?? null,
    numbers,
    numbers_unread: [...unread],
    conversion: conversion && {
      as: [...conversion.as],
      outputs: [...conversion.outputs],
      problems: [...conversion.problems],
    },
    labels: described?.terminology ?? {},
    citation: described?.citation ?? [],
    units: { inputs: unitOf(described?.inputs), outputs: outputUnit(facts) },
    job_id: facts.jobId,
    server: server.address,
    server_version: server.version,
    client_version: facts.clientVersion,
    devices: devicesOf(job, server),
    created_at: job?.created_at ?? null,
    started_at: job?.started_at ?? null,
    finished_at: job?.finished_at ?? null,
    seconds: job ? secondsOf(job) : null,
  };
}

/** What a converted file says of the app that made it. */
function resultFactsOf({ app, computation, job, clientVersion }: RecordFacts): ResultFacts {
  return {
    app: computation.app,
    appVersion: ranVersion({ computation, job }),
    version: clientVersion,
    madeAt: new Date(job?.finished_at ?? Date.now()),
    unit: outputUnit({ app, computation }),
    terminology: (app?.available ? app.terminology : undefined) ?? {},
  };
}

/**
 * Completes a result in its private directory: adds the log of its job, restores the names that the person knows, converts the
 * volumes, and writes the record.
 * @param facts what the record will say; null for no record and no conversion
 * @returns what became of the conversion; null if there was none
 * @throws the system's error
 */
export async function completeResult(
  connection: Connection,
  jobId: string,
  directory: string,
  facts: Omit<RecordFacts, 'jobId' | 'log'> | null,
  addition: Addition,
  reporter: Reporter,
): Promise<Conversion | null> {
  const { imaging, originals, followed, conversion: request, found } = addition;
  const log = await keepLog(connection, jobId, directory, followed);
  await imaging.restoreNames(directory, originals, reporter);
  if (!facts) return null;
  const known = { ...facts, jobId, log };
  try {
    freeRecordName(directory);
    const conversion =
      request && found
        ? await imaging.convert(directory, { request, found, facts: resultFactsOf(known) }, reporter)
        : null;
    const outputs = await hashOutputs(directory, connection.signal, log);
    const names = facts.app?.available ? facts.app.terminology : undefined;
    writeRecord(directory, makeRecord(known, outputs, numbersOf(directory, outputs, names), conversion));
    return conversion;
  } catch (cause) {
    if (addition.needsRecord || !isSystemError(cause)) throw cause;
    reporter.note(`${quotePath(recordName)} cannot be written: ${(cause as Error).message}`);
    return null;
  }
}
