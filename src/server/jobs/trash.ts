import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from '../../files/error-code.js';

const run = promisify(execFile);

/** What lies in the trash under a name of ours: a job's id, and what keeps two of one id apart. */
const trashName = /^[0-9a-f]{12}\.[0-9a-f]{8}$/;

/** Milliseconds until what could not be removed is tried again. */
const retryPause = 10 * 60_000;

export type Report = (problem: string, cause: unknown) => void;

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
    this.#directory = path.join(dataDirectory, 'trash');
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
  }

  /**
   * Deletes the directory of a job that has expired, or of an upload that was never accepted. Resolves when it is gone
   * or cannot be removed now; never rejects.
   */
  async throwAway(directory: string): Promise<void> {
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
    await this.#remove(target);
  }

  /** Goes on with what earlier servers could not remove, or did not get to. */
  empty(): void {
    for (const name of readdirSync(this.#directory)) {
      if (trashName.test(name)) void this.#remove(path.join(this.#directory, name));
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
    const remove = () => run('rm', ['-rf', '--one-file-system', '--', directory]);
    try {
      await remove();
    } catch (first) {
      await run('chmod', ['-R', 'u+rwX', '--', directory]).catch(() => {});
      await remove().catch((second) => {
        throw describe(second ?? first);
      });
    }
  } else {
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  }
  if (lstatSync(directory, { throwIfNoEntry: false })) throw new Error('some of it is still there');
}

/** What `rm` said, its first lines. */
function describe(cause: unknown): unknown {
  const text = cause instanceof Error && 'stderr' in cause ? String(cause.stderr) : '';
  return text === '' ? cause : new Error(text.split('\n').slice(0, 3).join('; '), { cause });
}
