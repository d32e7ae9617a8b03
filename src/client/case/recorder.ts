import { quotePath } from '../../contract/index.js';
import { isSystemError } from '../../files/index.js';
import {
  app as askApp,
  devices as askDevices,
  job as askJob,
  limits as askLimits,
  type Connection,
} from '../connection/index.js';
import { type FoundFiles, remarksOn } from '../found-files.js';
import { recordName } from '../output-names.js';
import type { Reporter } from '../reporter.js';
import type { Case } from '../submit/index.js';
import { stampIfThere } from './file-times.js';
import type { Conversion, ResultFacts } from './imaging.js';
import type { JobOptions } from './job-options.js';
import { type InputFacts, keepFacts } from './kept-facts.js';
import { numbersOf } from './numbers.js';
import {
  computationOf,
  freeRecordName,
  hashInputs,
  hashOutputs,
  makeRecord,
  outputUnit,
  type RecordFacts,
  type ServerFacts,
  writeRecord,
} from './record.js';

/** Seconds that a question for the record may take. Without an answer the record says less. */
const maxWait = 10;

/** What a server says of itself; null or empty where it does not answer. Never rejects. */
export async function serverFacts(connection: Connection): Promise<ServerFacts> {
  const [limits, list] = await Promise.all([
    askLimits(connection, maxWait).catch(() => null),
    askDevices(connection, maxWait).catch(() => null),
  ]);
  return {
    address: connection.server,
    version: limits?.version ?? null,
    devices: new Map(list?.devices_index.map((id, index) => [id, list.devices_name[index] ?? String(id)])),
  };
}

/** The inputs of a result that may have to be converted, and how. */
export type Converting = Pick<JobOptions, 'imaging' | 'conversion' | 'reporter'> & {
  readonly found: FoundFiles;
};

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
 * Writes the record of a job among the files of its result, which are converted before. @throws the system's error
 * @returns what became of the conversion; null if none was asked for
 */
export async function recordResult(
  directory: string,
  facts: RecordFacts,
  signal: AbortSignal | undefined,
  converting?: Converting,
): Promise<Conversion | null> {
  freeRecordName(directory);
  const { conversion: request = null } = converting ?? {};
  const conversion =
    converting && request
      ? await converting.imaging.finish(
          directory,
          { conversion: { request, found: converting.found, facts: resultFactsOf(facts) } },
          converting.reporter,
        )
      : null;
  const outputs = await hashOutputs(directory, signal, facts.log ?? null);
  const names = facts.app?.available ? facts.app.terminology : undefined;
  const record = makeRecord(facts, outputs, numbersOf(directory, outputs, names), conversion);
  writeRecord(directory, record);
  return conversion;
}

/** Writes the record of a job that was sent before among the files of its result. A fault of the disk is noted. */
export async function recordLater(
  connection: Connection,
  jobId: string,
  facts: InputFacts,
  { directory, log }: { readonly directory: string; readonly log: string | null },
  reporter: Reporter,
  converting?: Converting,
): Promise<Conversion | null> {
  const job = await askJob(connection, jobId, maxWait).catch(() => null);
  try {
    return await recordResult(directory, { ...facts, job, jobId, log }, connection.signal, converting);
  } catch (cause) {
    if (!isSystemError(cause)) throw cause;
    reporter.note(`${quotePath(recordName)} cannot be written: ${(cause as Error).message}`);
    return null;
  }
}

/**
 * The record of a case whose inputs were not read before it was sent: they are read while its job runs, so that nobody waits for
 * it. If they have changed since they were sent, no record is written, and a note says so.
 */
export class BackgroundRecorder implements Disposable {
  readonly #reading = new AbortController();
  readonly #stamp: string | null;
  #facts: Promise<InputFacts | null> | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly work: Case,
    private readonly options: JobOptions,
  ) {
    this.#stamp = stampIfThere(work.found);
  }

  /** Called when its job is accepted. A data set has no record: its result is a checkpoint. */
  begins(jobId: string): void {
    if (this.work.found.dataSet) return;
    this.#facts = this.#read().then(
      (facts) => {
        if (this.#isUnchanged) keepFacts(this.options.deidentify.configDir, jobId, facts);
        return facts;
      },
      () => null,
    );
  }

  /** Resolves when its inputs are read, or cannot be. */
  async read(): Promise<void> {
    await this.#facts;
  }

  get #isUnchanged(): boolean {
    return this.#stamp !== null && this.#stamp === stampIfThere(this.work.found);
  }

  async #read(): Promise<InputFacts> {
    const { submission, found, outgoing } = this.work;
    const [inputs, app, server] = await Promise.all([
      hashInputs(found, this.#reading.signal),
      askApp(this.connection, submission.app, maxWait).catch(() => null),
      serverFacts(this.connection),
    ]);
    const { clientVersion } = this.options;
    return {
      computation: computationOf(submission, app, outgoing?.note ?? null),
      inputs,
      remarks: remarksOn(found),
      app,
      server,
      clientVersion,
    };
  }

  /** What is known once the inputs are read; null where no record is written, with a note if they have changed. */
  async facts(): Promise<InputFacts | null> {
    if (!this.#facts) return null;
    const facts = await this.#facts;
    if (facts !== null && this.#isUnchanged) return facts;
    this.connection.signal?.throwIfAborted();
    this.options.reporter.note(
      `The inputs have changed since they were sent, so that no ${recordName} is written`,
    );
    return null;
  }

  /** Stops reading the inputs, for example because the job has failed. */
  [Symbol.dispose](): void {
    this.#reading.abort();
  }
}
