import { exitCodes, quoteName } from '../../contract/index.js';
import { appendLine, errorCode, lastLines, sharedMode, writeTextFile } from '../../files/index.js';
import { ClientError } from '../errors.js';

/** The last job of a case, as an earlier command or this one left it. */
interface KnownJob {
  readonly key: string;
  /** How often the case was sent, this time included. */
  readonly attempt: number;
  readonly jobId: string;
  /** Whether the job ended without a result that counts, and a person was told: it is not asked about again. */
  readonly isOver: boolean;
}

/** Bytes at the end of the file that are read: some 200,000 jobs. */
const maxBytes = 32 << 20;

const lineOf = (name: string, { key, attempt, jobId, isOver }: KnownJob): string =>
  JSON.stringify([name, key, attempt, jobId, isOver]);

/** A line of the file: the case, and what is known of its job. */
function readLine(line: string): readonly [string, KnownJob] | null {
  try {
    const [name, key, attempt, jobId, isOver] = JSON.parse(line) as unknown[];
    const isValid =
      typeof name === 'string' &&
      typeof key === 'string' &&
      typeof jobId === 'string' &&
      Number.isInteger(attempt);
    return isValid ? [name, { key, attempt: Number(attempt), jobId, isOver: isOver === true }] : null;
  } catch {
    // The last line of a command that was killed.
    return null;
  }
}

/**
 * The jobs of the cases, in a file to which a line is appended for each: a command that goes on after another one was killed asks
 * about them instead of sending their cases again. If a power cut loses a line, the `Idempotency-Key` finds the job again.
 */
export class KnownJobs {
  readonly #jobs = new Map<string, KnownJob>();
  #isChanged = false;

  /** @throws the system's error if there is a file that cannot be read */
  constructor(private readonly file: string) {
    try {
      for (const line of lastLines(file, maxBytes)) {
        const read = readLine(line);
        if (read) this.#jobs.set(...read);
      }
    } catch (cause) {
      // A new directory.
      if (errorCode(cause) !== 'ENOENT') throw cause;
    }
  }

  /** The last job of a case; null if it was sent for another key, or never. */
  get(name: string, key: string): KnownJob | null {
    const job = this.#jobs.get(name);
    return job?.key === key ? job : null;
  }

  set(name: string, job: KnownJob): void {
    this.#jobs.set(name, job);
    this.#isChanged = true;
    appendLine(this.file, lineOf(name, job), { mode: sharedMode });
  }

  /** Forgets the jobs of cases that are done. */
  close(done: ReadonlySet<string>): void {
    if (!this.#isChanged) return;
    const remaining = [...this.#jobs].filter(([name]) => !done.has(name));
    const text = remaining.map((entry) => `${lineOf(...entry)}\n`).join('');
    writeTextFile(this.file, text, { isKept: false, mode: sharedMode });
  }
}

/** Which case each job belongs to: if a server answers two cases with one job, they would share a result. */
export class JobCases {
  /** By the ids of jobs. */
  readonly #cases = new Map<string, { readonly name: string; readonly key: string }>();

  remember(jobId: string, name: string, key: string): void {
    if (!this.#cases.has(jobId)) this.#cases.set(jobId, { name, key });
  }

  /** @throws ClientError if the job is that of another case, whose files are not the same */
  claim(jobId: string, name: string, key: string): void {
    const other = this.#cases.get(jobId);
    if (other && other.name !== name && other.key !== key)
      throw new ClientError(
        `The server answered with job ${jobId}, which is that of ${quoteName(other.name)}`,
        exitCodes.failed,
      );
    this.#cases.set(jobId, { name, key });
  }
}
