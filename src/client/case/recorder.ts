import { quotePath, recordName } from '../../contract/index.js';
import { isSystemError } from '../../files/index.js';
import {
  type AppAnswer,
  app as askApp,
  devices as askDevices,
  job as askJob,
  limits as askLimits,
  type Connection,
  type JobAnswer,
} from '../connection/index.js';
import type { FoundFiles } from '../inputs/index.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import { numbersOf } from './numbers.js';
import {
  computationOf,
  hashInputs,
  hashOutputs,
  inputPaths,
  makeRecord,
  type RecordedInput,
  type ServerFacts,
  stampOf,
  writeRecord,
} from './record.js';

/** Seconds for a question without whose answer the record says less. */
const maxWait = 10;

/** What a server says of itself, as far as it does. Never rejects. */
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

/** What a record says besides what the job and its result say. */
export interface CaseFacts {
  readonly inputs: readonly RecordedInput[];
  readonly app: AppAnswer | null;
  readonly server: ServerFacts;
}

interface RecordOptions {
  readonly submission: Submission;
  /** The version of this program. */
  readonly clientVersion: string;
}

/**
 * Writes the record of a job among the files of its result.
 * @param job with the server's view of it, if there is one
 * @throws the system's error
 */
export async function recordResult(
  connection: Connection,
  { submission, clientVersion }: RecordOptions,
  facts: CaseFacts,
  job: { readonly id: string; readonly view: JobAnswer | null },
  directory: string,
): Promise<void> {
  const outputs = await hashOutputs(directory, connection.signal);
  const record = makeRecord({
    ...facts,
    computation: computationOf(submission, facts.app),
    job: job.view,
    jobId: job.id,
    clientVersion,
    outputs,
    numbers: numbersOf(directory, outputs),
  });
  writeRecord(directory, record);
}

/** The stamp of what is sent; undefined if a file is gone. */
function stampNow(found: FoundFiles): string | undefined {
  try {
    return stampOf(inputPaths(found));
  } catch {
    return undefined;
  }
}

/**
 * The record of a case of which nothing is known before it is sent: its inputs are read while its job runs, so that nobody waits
 * for it. No record is written, and a note says why, if they are not as they were sent any more.
 */
export class BackgroundRecorder implements Disposable {
  readonly #reading = new AbortController();
  #stamp: string | undefined;
  #facts: Promise<CaseFacts> | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly found: FoundFiles,
    private readonly options: RecordOptions & { readonly reporter: Reporter },
  ) {}

  /** Called when the case is about to be sent. */
  sends(): void {
    this.#stamp = stampNow(this.found);
  }

  /** Called when its job is accepted. */
  begins(): void {
    // A data set has no record: its result is a checkpoint.
    if (this.found.dataSet) return;
    this.#facts = this.#read();
    // It is awaited at the end of the job, if that has a result.
    this.#facts.catch(() => {});
  }

  async #read(): Promise<CaseFacts> {
    const { connection } = this;
    const [inputs, app, server] = await Promise.all([
      hashInputs(this.found, this.#reading.signal),
      askApp(connection, this.options.submission.app, maxWait).catch(() => null),
      serverFacts(connection),
    ]);
    return { inputs, app, server };
  }

  /** @param directory of the result, before it gets its place */
  async write(jobId: string, directory: string): Promise<void> {
    if (!this.#facts) return;
    const { connection } = this;
    const { reporter } = this.options;
    const facts = await this.#facts.catch(() => undefined);
    if (!facts || this.#stamp === undefined || this.#stamp !== stampNow(this.found)) {
      connection.signal?.throwIfAborted();
      reporter.note(`The inputs have changed since they were sent, so that no ${recordName} is written`);
      return;
    }
    const view = await askJob(connection, jobId, maxWait).catch(() => null);
    try {
      await recordResult(connection, this.options, facts, { id: jobId, view }, directory);
    } catch (cause) {
      if (!isSystemError(cause)) throw cause;
      reporter.note(`${quotePath(recordName)} cannot be written: ${(cause as Error).message}`);
    }
  }

  /** Ends the reading of the inputs, of a job that has failed for example. */
  [Symbol.dispose](): void {
    this.#reading.abort();
  }
}
