import { appendFileSync, closeSync, constants, fstatSync, fsyncSync, readSync } from 'node:fs';
import path from 'node:path';
import { jobIdBytes, jobIdSource } from '../../contract/job.js';
import { writeTextFile } from '../../files/atomic-json.js';
import { errorCode } from '../../files/error-code.js';
import { openOwnFile } from '../../files/own-file.js';
import { setAside } from '../data-directory/set-aside.js';
import type { Report } from '../report.js';

/** Number of expired jobs whose ids and times are remembered. */
const remembered = 10_000;
/** Bytes of an entry: an id, a time, a space and a line feed. */
const lineBytes = 2 * jobIdBytes + 24 + 2;

const linePattern = new RegExp(`^(${jobIdSource}) (\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z)$`);

/** The jobs that have expired, and when. For these the answer is 410 instead of 404, also after a restart. */
export class ExpiredJobs {
  readonly #file: string;
  readonly #times = new Map<string, string>();

  /** A file that cannot be read, or is not a file, is set aside, so that a start does not fail because of it. */
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

  /** @throws the system's error if it cannot be written; it is remembered until the server ends all the same */
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

  /** When the job expired, ISO 8601; undefined for any other job. */
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

  /** Reads the newest entries, and shortens the file if it has more than twice as many. */
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
    // Ends a line that a crash has cut off, so that the next one is not appended to it.
    const isTorn = text !== '' && !text.endsWith('\n');
    if (isTorn || size > 2 * remembered * lineBytes) this.#rewrite();
  }
}
