import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { JobDirectory } from './directory.js';
import type { JobRecord } from './record.js';

/** A job id (spec.md, Job envelope). */
const jobIdPattern = /^[0-9a-f]{12}$/;

export interface StoredJob {
  readonly directory: JobDirectory;
  readonly record: JobRecord;
}

/** The job directories of one data directory. There is no other memory of the jobs. */
export class JobStore {
  readonly #jobs: string;

  constructor(dataDirectory: string) {
    this.#jobs = path.join(dataDirectory, 'jobs');
    mkdirSync(this.#jobs, { recursive: true, mode: 0o700 });
  }

  /** A new directory, empty, with an id that no other has. */
  create(): JobDirectory {
    const id = randomBytes(6).toString('hex');
    const directory = new JobDirectory(id, path.join(this.#jobs, id));
    if (existsSync(directory.path)) return this.create();
    try {
      directory.create();
    } catch (cause) {
      rmSync(directory.path, { recursive: true, force: true });
      throw cause;
    }
    return directory;
  }

  /**
   * Every job there is, oldest first, and the directories that hold none: uploads that were cut.
   * @param report is told of a record that cannot be read: its directory counts as left over
   */
  scan(report: (problem: string, cause: unknown) => void): {
    readonly jobs: StoredJob[];
    readonly leftovers: JobDirectory[];
  } {
    const load = (directory: JobDirectory): JobRecord | undefined => {
      try {
        return jobIdPattern.test(directory.id) ? directory.load() : undefined;
      } catch (cause) {
        report(`The record of job ${directory.id} is damaged; the job is removed`, cause);
        return undefined;
      }
    };
    const jobs: StoredJob[] = [];
    const leftovers: JobDirectory[] = [];
    for (const name of readdirSync(this.#jobs)) {
      const directory = new JobDirectory(name, path.join(this.#jobs, name));
      const record = load(directory);
      if (record) jobs.push({ directory, record });
      else leftovers.push(directory);
    }
    jobs.sort((a, b) => (a.record.createdAt < b.record.createdAt ? -1 : 1));
    return { jobs, leftovers };
  }
}
