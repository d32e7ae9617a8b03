import { appendFileSync, closeSync, constants, fstatSync, fsyncSync, readSync } from 'node:fs';
import path from 'node:path';
import { jobIdBytes, jobIdSource } from '../../contract/job.js';
import { writeTextFile } from '../../files/atomic-json.js';
import { errorCode } from '../../files/error-code.js';
import { openOwnFile } from '../../files/own-file.js';
import { setAside } from '../data-directory/set-aside.js';
import type { Report } from '../report.js';

/** How many expired jobs are remembered: their ids and times. */
const remembered = 10_000;
/** Bytes of one: an id, a time, a space and a line feed. */
const lineBytes = 2 * jobIdBytes + 24 + 2;

const linePattern = new RegExp(`^(${jobIdSource}) (\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z)$`);

/** Which jobs have expired, and when: what makes the answer 410 rather than 404, after a restart too. */
export class ExpiredJobs {
  readonly #file: string;
  readonly #times = new Map<string, string>();

  /** A file that cannot be read, or is none, is set aside: no start fails for it. */
  constructor(
    dataDirectory: string,
    private readonly report: Report,
  ) {
    this.#file = path.join(dataDirectory, 'expired');
    try {
      this.#load();
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      if (errorCode(cause) !== 'ENOENT') setAside(dataDirectory, this.#file, why, this.report);
    }
  }

  /** @throws the system's error where it cannot be noted; it is remembered all the same, until the server ends */
  add(id: string): void {
    const time = new Date().toISOString();
    this.#times.set(id, time);
    const oldest = this.#times.keys().next().value;
    if (this.#times.size > remembered && oldest !== undefined) this.#times.delete(oldest);
    const file = openOwnFile(this.#file, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT);
    try {
      appendFileSync(file, `${id} ${time}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }

  /** When the job expired, ISO 8601; undefined for a job that is not known to have. */
  when(id: string): string | undefined {
    return this.#times.get(id);
  }

  #rewrite(): void {
    try {
      writeTextFile(this.#file, [...this.#times].map(([id, time]) => `${id} ${time}\n`).join(''));
    } catch (cause) {
      this.report('The list of expired jobs could not be shortened', cause);
    }
  }

  /** Reads the newest entries, and shortens a file that has grown to twice of them. */
  #load(): void {
    const file = openOwnFile(this.#file, constants.O_RDONLY);
    let text: string;
    let size: number;
    try {
      ({ size } = fstatSync(file));
      const tail = Buffer.alloc(Math.min(size, remembered * lineBytes));
      text = tail.toString('latin1', 0, readSync(file, tail, 0, tail.length, size - tail.length));
    } finally {
      closeSync(file);
    }
    for (const line of text.split('\n')) {
      const [, id = '', time = ''] = linePattern.exec(line) ?? [];
      if (id !== '') this.#times.set(id, time);
    }
    // A line that a crash cut would swallow the beginning of the next one.
    const isTorn = text !== '' && !text.endsWith('\n');
    if (isTorn || size > 2 * remembered * lineBytes) this.#rewrite();
  }
}
