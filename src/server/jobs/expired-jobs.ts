import { statSync } from 'node:fs';
import path from 'node:path';
import { mayReach, type Owner, type Principal } from '../../access/index.js';
import { jobIdBytes, jobIdSource, ServiceError } from '../../contract/index.js';
import { appendLine, type Clock, lastLines, writeTextFile } from '../../files/index.js';
import { readOrSetAside } from '../data-directory/index.js';
import type { GoneCause } from '../events.js';
import type { Report } from '../report.js';

/** Precedes the owner's name in a line. */
const ownerMark = ' of ';
/** Maximum size in bytes of an owner's name. */
const maxOwnerBytes = 64;

/** Number of expired jobs whose ids and times are remembered. */
const remembered = 10_000;
/** Maximum size in bytes of an entry: an id, a time, a space, a line feed, and the markers. */
const lineBytes = 2 * jobIdBytes + 24 + 2 + ' removed'.length + ownerMark.length + maxOwnerBytes;

const linePattern = new RegExp(
  `^(${jobIdSource}) (\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z)(?: (removed|fetched))?(?:${ownerMark}(\\S+))?$`,
);

/** When and why a job was removed. */
interface Gone {
  /** ISO 8601. */
  readonly time: string;
  readonly cause: GoneCause;
  readonly owner: Owner;
}

const lineOf = ([id, { time, cause, owner }]: readonly [string, Gone]): string =>
  `${id} ${time}${cause === 'expired' ? '' : ` ${cause}`}${owner === null ? '' : ownerMark + owner}`;

/**
 * The jobs that have expired or were removed, and when. Requests for them are answered with 410 instead of 404, even
 * after a restart.
 */
export class ExpiredJobs {
  readonly #file: string;
  readonly #gone = new Map<string, Gone>();

  /** A file that cannot be read, or is not a regular file, is set aside, so that the server can still start. */
  constructor(
    dataDirectory: string,
    private readonly clock: Clock,
    private readonly report: Report,
  ) {
    this.#file = path.join(dataDirectory, 'expired');
    readOrSetAside(dataDirectory, this.#file, report, () => this.#load());
  }

  /**
   * Records that a job is gone.
   * @throws the system's error if the file cannot be written; the job is still remembered until the server ends
   */
  add(id: string, cause: GoneCause, owner: Owner): void {
    const gone = { time: new Date(this.clock.now()).toISOString(), cause, owner };
    this.#gone.set(id, gone);
    const oldest = this.#gone.keys().next().value;
    if (this.#gone.size > remembered && oldest !== undefined) this.#gone.delete(oldest);
    appendLine(this.#file, lineOf([id, gone]), { isKept: true });
  }

  has(id: string): boolean {
    return this.#gone.has(id);
  }

  /** @throws ServiceError `expired` for a job that is gone, if this person could see it */
  check(id: string, principal: Principal): void {
    const gone = this.#gone.get(id);
    if (!gone || !mayReach(principal, gone.owner)) return;
    const { time, cause } = gone;
    const what = {
      expired: `expired at ${time}: it and its result are removed`,
      removed: `was removed at ${time}`,
      fetched: `was removed at ${time}, since its result had been fetched and the disk was short`,
    }[cause];
    throw new ServiceError('expired', `Job ${id} ${what}; submit it again`);
  }

  #rewrite(): void {
    try {
      const lines = [...this.#gone].map((entry) => `${lineOf(entry)}\n`);
      writeTextFile(this.#file, lines.join(''));
    } catch (cause) {
      this.report('The list of expired jobs could not be shortened', cause);
    }
  }

  /** Reads the newest entries, and shortens the file if it has more than twice as many. */
  #load(): void {
    for (const line of lastLines(this.#file, remembered * lineBytes)) {
      const [, id = '', time = '', mark = 'expired', owner = null] = linePattern.exec(line) ?? [];
      if (id !== '') this.#gone.set(id, { time, cause: mark as GoneCause, owner });
    }
    if (statSync(this.#file).size > 2 * remembered * lineBytes) this.#rewrite();
  }
}
