import { quotePath, recordName } from '../../contract/index.js';
import { isSystemError } from '../../files/index.js';
import {
  type AppAnswer,
  app as askApp,
  devices as askDevices,
  job as askJob,
  limits as askLimits,
  type Connection,
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

/** The record of one job: what it says of inputs, app and GPUs is found out while the job runs. */
export class JobRecord implements Disposable {
  readonly #reading = new AbortController();
  #found: FoundFiles | null = null;
  #stamp: string | null = null;
  #inputs: Promise<readonly RecordedInput[] | null> = Promise.resolve(null);
  #app: Promise<AppAnswer | null> = Promise.resolve(null);
  #server: Promise<ServerFacts> | null = null;

  constructor(
    private readonly connection: Connection,
    private readonly submission: Submission,
    private readonly how: { readonly reporter: Reporter; readonly clientVersion: string },
  ) {}

  /** Notes what is sent, before it is. A data set has no record: its result is a checkpoint. */
  sends(found: FoundFiles): void {
    if (found.dataSet) return;
    this.#found = found;
    this.#stamp = this.#stampNow();
  }

  /** Begins to read the inputs. They have been sent, so that nobody waits for it. */
  begin(): void {
    const { connection, submission } = this;
    if (!this.#found) return;
    this.#inputs = hashInputs(this.#found, this.#reading.signal).catch(() => null);
    this.#app = askApp(connection, submission.app, maxWait).catch(() => null);
    this.#server = serverFacts(connection);
  }

  #stampNow(): string | null {
    try {
      return stampOf(inputPaths(this.#found as FoundFiles));
    } catch {
      return null;
    }
  }

  /**
   * Writes the record among the files of the result. None is written, and a note says why, if the inputs are not as they were
   * sent any more.
   */
  async write(jobId: string, directory: string): Promise<void> {
    if (!this.#found) return;
    const { connection, submission } = this;
    const { reporter, clientVersion } = this.how;
    const inputs = await this.#inputs;
    if (inputs === null || this.#stamp === null || this.#stamp !== this.#stampNow()) {
      connection.signal?.throwIfAborted();
      reporter.note(`The inputs have changed since they were sent, so that no ${recordName} is written`);
      return;
    }
    const [view, job] = [await this.#app, await askJob(connection, jobId, maxWait).catch(() => null)];
    try {
      const outputs = await hashOutputs(directory, connection.signal);
      const record = makeRecord({
        computation: computationOf(submission, view),
        app: view,
        job,
        jobId,
        server: await (this.#server ?? serverFacts(connection)),
        clientVersion,
        inputs,
        outputs,
        numbers: numbersOf(directory, outputs),
      });
      writeRecord(directory, record);
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
