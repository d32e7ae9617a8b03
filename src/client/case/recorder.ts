import { quotePath } from '../../contract/index.js';
import { isSystemError } from '../../files/index.js';
import type { Connection } from '../connection/index.js';
import type { FoundFiles } from '../found-files.js';
import { type FollowedLog, keepLog } from '../logs/index.js';
import type { OriginalNames } from '../outgoing.js';
import { recordName } from '../output-names.js';
import type { Reporter } from '../reporter.js';
import type { Conversion, ResultFacts } from './imaging.js';
import type { JobOptions } from './job-options.js';
import { numbersOf } from './numbers.js';
import {
  freeRecordName,
  hashOutputs,
  makeRecord,
  outputUnit,
  type RecordFacts,
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

/** What its description says of the app that made a result. */
function resultFactsOf({ app, computation, job, clientVersion }: RecordFacts): ResultFacts {
  return {
    app: computation.app,
    appVersion: job?.version ?? computation.version,
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
