import { quotePath, recordName } from '../../contract/index.js';
import { isSystemError } from '../../files/index.js';
import {
  app as askApp,
  devices as askDevices,
  job as askJob,
  limits as askLimits,
  type Connection,
} from '../connection/index.js';
import type { Reporter } from '../reporter.js';
import { numbersOf } from './numbers.js';
import {
  computationOf,
  hashInputs,
  hashOutputs,
  makeRecord,
  type RecordFacts,
  type ServerFacts,
  stampIfThere,
  writeRecord,
} from './record.js';
import type { Case } from './run-case.js';

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

/** Writes the record of a job among the files of its result. @throws the system's error */
export async function recordResult(
  directory: string,
  facts: RecordFacts,
  signal: AbortSignal | undefined,
): Promise<void> {
  const outputs = await hashOutputs(directory, signal, facts.log ?? null);
  writeRecord(directory, makeRecord(facts, outputs, numbersOf(directory, outputs)));
}

/**
 * The record of a case whose inputs were not read before it was sent: they are read while its job runs, so that nobody waits for
 * it. If they have changed since they were sent, no record is written, and a note says so.
 */
export class BackgroundRecorder implements Disposable {
  readonly #reading = new AbortController();
  readonly #stamp: string | null;
  #facts: Promise<Omit<RecordFacts, 'job' | 'jobId' | 'log'> | null> | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly work: Case,
    private readonly how: { readonly reporter: Reporter; readonly clientVersion: string },
  ) {
    this.#stamp = stampIfThere(work.found);
  }

  /** Called when its job is accepted. A data set has no record: its result is a checkpoint. */
  begins(): void {
    if (!this.work.found.dataSet) this.#facts = this.#read().catch(() => null);
  }

  async #read(): Promise<Omit<RecordFacts, 'job' | 'jobId' | 'log'>> {
    const { submission, found } = this.work;
    const [inputs, app, server] = await Promise.all([
      hashInputs(found, this.#reading.signal),
      askApp(this.connection, submission.app, maxWait).catch(() => null),
      serverFacts(this.connection),
    ]);
    const { clientVersion } = this.how;
    return { computation: computationOf(submission, app), inputs, app, server, clientVersion };
  }

  /** @param directory of the result, before it gets its place */
  async write(jobId: string, directory: string, log: string | null): Promise<void> {
    if (!this.#facts) return;
    const { signal } = this.connection;
    const facts = await this.#facts;
    if (facts === null || this.#stamp === null || this.#stamp !== stampIfThere(this.work.found)) {
      signal?.throwIfAborted();
      this.how.reporter.note(
        `The inputs have changed since they were sent, so that no ${recordName} is written`,
      );
      return;
    }
    const job = await askJob(this.connection, jobId, maxWait).catch(() => null);
    try {
      await recordResult(directory, { ...facts, job, jobId, log }, signal);
    } catch (cause) {
      if (!isSystemError(cause)) throw cause;
      this.how.reporter.note(`${quotePath(recordName)} cannot be written: ${(cause as Error).message}`);
    }
  }

  /** Stops reading the inputs, for example because the job has failed. */
  [Symbol.dispose](): void {
    this.#reading.abort();
  }
}
