import { closeSync, openSync } from 'node:fs';
import { appendWhole, readSmallFile, writeTextFile } from '../../files/index.js';

/** The last job of a case, as an earlier command or this one left it. */
interface KnownJob {
  readonly key: string;
  /** How often the case was sent, this time included. */
  readonly attempt: number;
  readonly jobId: string;
  /** Whether the job ended without a result, and a person was told: it is not asked about again. */
  readonly isOver: boolean;
}

/** Largest file that is read, in bytes: some 200,000 jobs. */
const maxBytes = 32 << 20;

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
 * about them instead of sending their cases again. What is lost in a power cut, the server's `Idempotency-Key` makes good.
 */
export class KnownJobs {
  readonly #jobs = new Map<string, KnownJob>();
  #descriptor: number | null = null;

  constructor(private readonly file: string) {
    try {
      for (const line of readSmallFile(file, maxBytes).split('\n')) {
        const read = readLine(line);
        if (read) this.#jobs.set(...read);
      }
    } catch {
      // A new directory. A damaged file costs another upload of the cases that are running.
    }
  }

  /** The last job of a case; null if it was sent for another key, or never. */
  get(name: string, key: string): KnownJob | null {
    const job = this.#jobs.get(name);
    return job?.key === key ? job : null;
  }

  set(name: string, job: KnownJob): void {
    this.#jobs.set(name, job);
    const { key, attempt, jobId, isOver } = job;
    this.#descriptor ??= openSync(this.file, 'a', 0o600);
    appendWhole(this.#descriptor, Buffer.from(`${JSON.stringify([name, key, attempt, jobId, isOver])}\n`));
  }

  /** Forgets the jobs of cases that are done, and closes the file. */
  close(done: ReadonlySet<string>): void {
    if (this.#descriptor === null) return;
    closeSync(this.#descriptor);
    this.#descriptor = null;
    const left = [...this.#jobs].filter(([name]) => !done.has(name));
    const lines = left.map(([name, { key, attempt, jobId, isOver }]) =>
      JSON.stringify([name, key, attempt, jobId, isOver]),
    );
    writeTextFile(this.file, lines.map((line) => `${line}\n`).join(''), { isKept: false });
  }
}
