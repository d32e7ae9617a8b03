import { closeSync, constants, fstatSync, fsyncSync, readSync } from 'node:fs';
import path from 'node:path';
import type { Owner } from '../../access/principal.js';
import { jobIdBytes, jobIdSource } from '../../contract/job.js';
import { appendWhole } from '../../files/append-whole.js';
import { writeTextFile } from '../../files/atomic-json.js';
import { openOwnFile } from '../../files/own-file.js';
import { readOrSetAside } from '../data-directory/set-aside.js';
import type { GoneCause } from '../events.js';
import type { Report } from '../report.js';

/** What stands before the name of its owner, if it has one. */
const ownerMark = ' of ';
/** Longest name of an owner, in bytes. */
const longestOwner = 64;

/** Number of expired jobs whose ids and times are remembered. */
const remembered = 10_000;
/** Most bytes of an entry: an id, a time, a space and a line feed, and the marks. */
const lineBytes = 2 * jobIdBytes + 24 + 2 + ' removed'.length + ownerMark.length + longestOwner;

const linePattern = new RegExp(
  `^(${jobIdSource}) (\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z)(?: (removed|fetched))?(?:${ownerMark}(\\S+))?$`,
);

/** How a job came to be gone. */
export interface Gone {
  /** ISO 8601. */
  readonly time: string;
  readonly cause: GoneCause;
  /** Whose it was. */
  readonly owner: Owner;
}

const lineOf = ([id, { time, cause, owner }]: readonly [string, Gone]): string =>
  `${id} ${time}${cause === 'expired' ? '' : ` ${cause}`}${owner === null ? '' : ownerMark + owner}\n`;

/** The jobs that have expired or were removed, and when. For these the answer is 410 instead of 404, also after a restart. */
export class ExpiredJobs {
  readonly #file: string;
  readonly #gone = new Map<string, Gone>();

  /** A file that cannot be read, or is not a file, is set aside, so that a start does not fail because of it. */
  constructor(
    dataDirectory: string,
    private readonly report: Report,
  ) {
    this.#file = path.join(dataDirectory, 'expired');
    readOrSetAside(dataDirectory, this.#file, report, () => this.#load());
  }

  /** @throws the system's error if it cannot be written; it is remembered until the server ends all the same */
  add(id: string, cause: GoneCause, owner: Owner): void {
    const gone = { time: new Date().toISOString(), cause, owner };
    this.#gone.set(id, gone);
    const oldest = this.#gone.keys().next().value;
    if (this.#gone.size > remembered && oldest !== undefined) this.#gone.delete(oldest);
    const file = openOwnFile(this.#file, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT);
    try {
      appendWhole(file, Buffer.from(lineOf([id, gone])));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }

  /** When and how the job went; undefined for any other job. */
  find(id: string): Gone | undefined {
    return this.#gone.get(id);
  }

  #rewrite(): void {
    try {
      writeTextFile(this.#file, [...this.#gone].map(lineOf).join(''));
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
      const [, id = '', time = '', mark = 'expired', owner = null] = linePattern.exec(line) ?? [];
      if (id !== '') this.#gone.set(id, { time, cause: mark as GoneCause, owner });
    }
    // Ends a line that a crash has cut off, so that the next one is not appended to it.
    const isTorn = text !== '' && !text.endsWith('\n');
    if (isTorn || size > 2 * remembered * lineBytes) this.#rewrite();
  }
}
