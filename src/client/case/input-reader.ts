import { app as askApp, type Connection } from '../connection/index.js';
import { remarksOn } from '../found-files.js';
import { recordName } from '../output-names.js';
import type { Case } from '../submit/index.js';
import { recordWait } from './complete-result.js';
import { computationOf } from './computation.js';
import { stampIfThere } from './file-times.js';
import type { JobOptions } from './job-options.js';
import { keepSentCase } from './kept-facts.js';
import { hashInputs, type SentCase } from './record.js';

/**
 * Reads and hashes the inputs of a case for its record while its job runs, so that this takes no extra time. If the inputs have
 * changed since they were sent, no record is written, and a note says so.
 */
export class InputReader implements Disposable {
  readonly #reading = new AbortController();
  readonly #stamp: string | null;
  #sent: Promise<SentCase | null> | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly work: Case,
    private readonly options: JobOptions,
  ) {
    this.#stamp = stampIfThere(work.found);
  }

  /** Called when the job is accepted. A data set gets no record, because its result is a checkpoint. */
  start(jobId: string): void {
    if (this.work.found.dataSet) return;
    const { configDir } = this.options.deidentify;
    this.#sent = this.#read().then(
      (sent) => {
        if (this.#isUnchanged) keepSentCase(configDir, jobId, this.connection.server, sent);
        return sent;
      },
      () => null,
    );
  }

  /** Resolves when its inputs are read, or cannot be. */
  async read(): Promise<void> {
    await this.#sent;
  }

  get #isUnchanged(): boolean {
    return this.#stamp !== null && this.#stamp === stampIfThere(this.work.found);
  }

  async #read(): Promise<SentCase> {
    const { submission, found, outgoing } = this.work;
    const [inputs, app] = await Promise.all([
      hashInputs(found, this.#reading.signal),
      askApp(this.connection, submission.app, recordWait).catch(() => null),
    ]);
    const computation = computationOf(submission, app, outgoing?.note ?? null, this.options.clientVersion);
    return { ...computation, inputs, inputs_remarks: remarksOn(found) };
  }

  /**
   * What the record says about the case, once the inputs are read. Null if no record is written, with a note if the inputs have
   * changed.
   */
  async sent(): Promise<SentCase | null> {
    if (!this.#sent) return null;
    const sent = await this.#sent;
    if (sent !== null && this.#isUnchanged) return sent;
    this.connection.signal?.throwIfAborted();
    this.options.reporter.note(
      `The inputs have changed since they were sent, so no ${recordName} is written`,
    );
    return null;
  }

  /** Stops reading the inputs, for example because the job has failed. */
  [Symbol.dispose](): void {
    this.#reading.abort();
  }
}
