import { randomBytes } from 'node:crypto';
import { chmodSync, lstatSync, readdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { jobIdSource } from '../../contract/index.js';
import { errorCode, isForbidden } from '../../files/index.js';
import { runProgram } from '../../programs/index.js';
import { ownDirectory } from '../data-directory/index.js';
import type { Report } from '../report.js';
import type { JobDirectory } from './job-directory.js';

/** Names in the trash: a job's id, and a suffix that distinguishes entries with the same id. */
const trashName = new RegExp(`^${jobIdSource}\\.[0-9a-f]{8}$`);

/** Milliseconds until a failed removal is tried again. */
const retryPause = 10 * 60_000;

/**
 * The only place where jobs and unaccepted submissions are deleted. A directory is first renamed into `DATA/trash`, so that
 * it disappears in one step, and removed from there. Failed removals are reported, and tried again later and at the next
 * start.
 */
export class Trash {
  readonly #directory: string;
  /** Functions that retry a removal, by the directory that could not be removed. */
  readonly #stuck = new Map<string, () => Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    dataDirectory: string,
    private readonly report: Report,
  ) {
    this.#directory = ownDirectory(dataDirectory, 'trash', report);
  }

  /**
   * Deletes the directory of a job that has expired, or a part of it that is no longer needed, or the directory of a submission
   * that was never accepted. Resolves when it is gone, or cannot be removed now. Never rejects.
   * @param isSubmission whether no app has written to it: then Node's own removal is safe, and needs no process
   * @param id id of the job, if `directory` is only a part of its directory
   */
  async throwAway(directory: string, isSubmission = false, id = path.basename(directory)): Promise<void> {
    const target = path.join(this.#directory, `${id}.${randomBytes(4).toString('hex')}`);
    try {
      moveOwn(directory, target);
      this.#stuck.delete(directory);
    } catch (cause) {
      const again = () => this.throwAway(directory, isSubmission, id);
      if (errorCode(cause) === 'ENOENT') this.#stuck.delete(directory);
      else this.#tryLater(directory, 'could not be moved to the trash', cause, again);
      return;
    }
    const isGone =
      isSubmission &&
      (await rm(target, { recursive: true }).then(
        () => true,
        () => false,
      ));
    if (!isGone) await this.#remove(target);
  }

  /** Removes what a job has written besides its log. */
  async discardWritten({ id, output, workspace }: JobDirectory): Promise<void> {
    await Promise.all([output, workspace].map((part) => this.throwAway(part, false, id)));
  }

  /** Removes the input of a job that has ended: it is large, no longer needed, and may be a patient's scan. */
  async discardInput({ id, input }: JobDirectory): Promise<void> {
    await this.throwAway(input, false, id);
  }

  /** Removes what earlier servers could not remove, or did not finish. */
  empty(): void {
    try {
      for (const name of readdirSync(this.#directory)) {
        if (trashName.test(name)) void this.#remove(path.join(this.#directory, name));
      }
    } catch (cause) {
      this.report(`${this.#directory} could not be read`, cause);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  async #remove(directory: string): Promise<void> {
    try {
      await removeTree(directory);
      this.#stuck.delete(directory);
    } catch (cause) {
      this.#tryLater(directory, 'could not be removed', cause, () => this.#remove(directory));
    }
  }

  /** Reports a failed removal the first time, and retries it together with all other failed ones. */
  #tryLater(directory: string, what: string, cause: unknown, again: () => Promise<void>): void {
    if (!this.#stuck.has(directory)) this.report(`${directory} ${what}; it is tried again later`, cause);
    this.#stuck.set(directory, again);
    this.#timer ??= setTimeout(() => this.#retry(), retryPause).unref();
  }

  #retry(): void {
    this.#timer = undefined;
    for (const again of this.#stuck.values()) void again();
  }
}

/** Moves a directory. If the job made its own directory unwritable, the system would move it only for root. */
function moveOwn(directory: string, target: string): void {
  try {
    renameSync(directory, target);
  } catch (cause) {
    if (!isForbidden(cause) || !lstatSync(directory).isDirectory()) throw cause;
    chmodSync(directory, 0o700);
    renameSync(directory, target);
  }
}

/** Milliseconds that `rm` may take. What it has not removed by then is removed by the next attempt. */
const removalLimit = 60 * 60_000;

/** Runs a program and keeps only the beginning of its output. */
const run = (words: readonly string[]) =>
  runProgram(words, { environment: process.env, limit: removalLimit, maxBytes: 4096, beyond: 'keepFirst' });

/**
 * Removes a directory and everything in it with the system's `rm`, which can do two things that Node's cannot: it removes
 * paths that are longer than PATH_MAX, and stays on one file system, so that it does not empty what a job has mounted.
 * Directories that the job made unwritable are made writable first.
 * @throws Error with the message of `rm`
 */
async function removeTree(directory: string): Promise<void> {
  if (process.platform === 'linux') {
    const remove = () => run(['rm', '-rf', '--one-file-system', '--', directory]);
    let end = await remove();
    if (end.exitCode !== 0) {
      await run(['chmod', '-R', 'u+rwX', '--', directory]);
      end = await remove();
    }
    if (end.exitCode !== 0) {
      throw new Error(end.stderr.trim().split('\n').slice(0, 3).join('; ') || 'rm was ended');
    }
  } else {
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }
  if (lstatSync(directory, { throwIfNoEntry: false })) throw new Error('some of it is still there');
}
