import { exitCodes, quoteName } from '../../contract/index.js';
import { appendLine, errorCode, lastLines, sharedMode, writeTextFile } from '../../files/index.js';
import { ClientError } from '../errors.js';

/** The last job of a case, from this command or an earlier one. */
interface KnownJob {
  readonly key: string;
  /** How many times the case was sent, including this time. */
  readonly attempt: number;
  readonly jobId: string;
  /** Whether the job ended without a result that counts, and this was reported: the server is not asked about it again. */
  readonly isOver: boolean;
}

/** Maximum number of bytes read from the end of the file: about 200,000 jobs. */
const maxBytes = 32 << 20;

const lineOf = (name: string, { key, attempt, jobId, isOver }: KnownJob): string =>
  JSON.stringify([name, key, attempt, jobId, isOver]);

/** Parses a line of the file: the case and its job. */
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
    // An incomplete last line from a killed command.
    return null;
  }
}

/**
 * The jobs of the cases, in a file with one appended line per job. If a command is killed, the next one asks for the state of
 * these jobs instead of sending the cases again. If a power cut loses a line, the `Idempotency-Key` finds the job again.
 */
export class KnownJobs {
  readonly #jobs = new Map<string, KnownJob>();
  #isChanged = false;

  /** @throws the system's error if the file exists but cannot be read */
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

  /** The last job of a case; null if the case was never sent, or sent with another key. */
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

/** Which case each job belongs to. If a server answered two cases with the same job, they would share a result. */
export class JobCases {
  /** By the ids of jobs. */
  readonly #cases = new Map<string, { readonly name: string; readonly key: string }>();

  remember(jobId: string, name: string, key: string): void {
    if (!this.#cases.has(jobId)) this.#cases.set(jobId, { name, key });
  }

  /** @throws ClientError if the job belongs to a case with other files */
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
