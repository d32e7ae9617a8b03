import { randomBytes } from 'node:crypto';
import { lstatSync, readdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { jobIdSource } from '../../contract/job.js';
import { errorCode } from '../../files/error-code.js';
import { ownDirectory } from '../data-directory/own-directory.js';
import type { Report } from '../report.js';

/** What lies in the trash under a name of ours: a job's id, and what keeps two of one id apart. */
const trashName = new RegExp(`^${jobIdSource}\\.[0-9a-f]{8}$`);

/** Milliseconds until what could not be removed is tried again. */
const retryPause = 10 * 60_000;

/**
 * The one place where jobs and cut uploads are deleted. A directory is renamed into `DATA/trash` first, so that it is
 * gone for everybody at once, and removed from there; what cannot be removed is reported, left, and tried again later
 * and at the next start.
 */
export class Trash {
  readonly #directory: string;
  readonly #stuck = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    dataDirectory: string,
    private readonly report: Report,
  ) {
    this.#directory = ownDirectory(dataDirectory, 'trash', report);
  }

  /**
   * Deletes the directory of a job that has expired, or of an upload that was never accepted. Resolves when it is gone
   * or cannot be removed now; never rejects.
   * @param isUpload no app has been at it: Node's own way of removing is safe, and starts no process
   */
  async throwAway(directory: string, isUpload = false): Promise<void> {
    const target = path.join(
      this.#directory,
      `${path.basename(directory)}.${randomBytes(4).toString('hex')}`,
    );
    try {
      renameSync(directory, target);
    } catch (cause) {
      if (errorCode(cause) !== 'ENOENT') this.report(`${directory} could not be moved to the trash`, cause);
      return;
    }
    const isGone =
      isUpload &&
      (await rm(target, { recursive: true }).then(
        () => true,
        () => false,
      ));
    if (!isGone) await this.#remove(target);
  }

  /** Goes on with what earlier servers could not remove, or did not get to. */
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
      if (!this.#stuck.has(directory))
        this.report(`${directory} could not be removed; it is tried again later`, cause);
      this.#stuck.add(directory);
      this.#timer ??= setTimeout(() => this.#retry(), retryPause).unref();
    }
  }

  #retry(): void {
    this.#timer = undefined;
    for (const directory of this.#stuck) void this.#remove(directory);
  }
}

/**
 * Removes a directory with all that is in it. `rm` of the system does what Node's does not: it goes below paths that
 * are too long to be named, and stays on the file system, so that what a job mounted is not emptied. Directories that
 * the job made unwritable are made writable first.
 * @throws Error with what `rm` says of what is left
 */
async function removeTree(directory: string): Promise<void> {
  if (process.platform === 'linux') {
    // Imported with the first removal, to keep the start fast.
    const { execa } = await import('execa');
    const remove = () => execa('rm', ['-rf', '--one-file-system', '--', directory], { reject: false });
    let end = await remove();
    if (end.failed) {
      await execa('chmod', ['-R', 'u+rwX', '--', directory], { reject: false });
      end = await remove();
    }
    if (end.failed) throw new Error(end.stderr?.split('\n').slice(0, 3).join('; ') || end.message);
  } else {
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }
  if (lstatSync(directory, { throwIfNoEntry: false })) throw new Error('some of it is still there');
}
