import {
  app as askApp,
  devices as askDevices,
  limits as askLimits,
  type Connection,
} from '../connection/index.js';
import { remarksOn } from '../found-files.js';
import { recordName } from '../output-names.js';
import type { Case } from '../submit/index.js';
import { stampIfThere } from './file-times.js';
import type { JobOptions } from './job-options.js';
import { type InputFacts, keepFacts } from './kept-facts.js';
import { computationOf, hashInputs, type ServerFacts } from './record.js';

/** Seconds that a question for the record may take. Without an answer the record says less. */
export const recordWait = 10;

/** What a server says of itself; null or empty where it does not answer. Never rejects. */
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

/**
 * Reads the inputs of a case for its record while its job runs, so that nobody waits for it. If they have changed since they were
 * sent, no record is written, and a note says so.
 */
export class InputReader implements Disposable {
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
  start(jobId: string): void {
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
      askApp(this.connection, submission.app, recordWait).catch(() => null),
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
