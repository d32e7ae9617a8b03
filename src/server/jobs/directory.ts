import { appendFileSync, closeSync, fstatSync, mkdirSync, openSync, readSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { servicePrefix } from '../../contract/log-stream.js';
import { readJsonFile, writeJsonFile } from '../../files/atomic-json.js';
import type { JobRecord } from './record.js';

/** Bytes at the end of a log in which the service's last lines are looked for. */
const tailBytes = 16 * 1024;

/**
 * The directory of one job, which is the truth about it: everything can be read with `ls` and `cat`, and goes
 * away with one `rm -r`. A directory without `job.json` is an upload that was never accepted.
 */
export class JobDirectory {
  constructor(
    readonly id: string,
    readonly path: string,
  ) {}

  /** What was uploaded. */
  get input(): string {
    return path.join(this.path, 'Input');
  }

  /** What the app writes; becomes the result. */
  get output(): string {
    return path.join(this.path, 'Output');
  }

  /** The command's working directory: its own to litter. */
  get workspace(): string {
    return path.join(this.path, 'Workspace');
  }

  get temporary(): string {
    return path.join(this.workspace, 'tmp');
  }

  get logFile(): string {
    return path.join(this.path, 'log');
  }

  get result(): string {
    return path.join(this.path, 'result.zip');
  }

  create(): void {
    for (const directory of [this.input, this.output, this.temporary]) {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
    }
  }

  save(record: JobRecord): void {
    writeJsonFile(this.#recordFile, record);
  }

  load(): JobRecord | undefined {
    return readJsonFile(this.#recordFile) as JobRecord | undefined;
  }

  log(line: string): void {
    appendFileSync(this.logFile, `${servicePrefix}${line}\n`, { mode: 0o600 });
  }

  /** Whether a line of the service's own stands at the end of the log: an earlier server may have come that far. */
  hasLogged(line: string): boolean {
    const file = openSync(this.logFile, 'r');
    try {
      const { size } = fstatSync(file);
      const tail = Buffer.alloc(Math.min(size, tailBytes));
      readSync(file, tail, 0, tail.length, size - tail.length);
      return `\n${tail}`.includes(`\n${servicePrefix}${line}\n`);
    } finally {
      closeSync(file);
    }
  }

  /** Removes all but the record and the log: what a job that has failed for want of room gives back. */
  async makeRoom(): Promise<void> {
    const bulk = [this.input, this.output, this.workspace, this.result];
    await Promise.all(bulk.map((each) => rm(each, { recursive: true, force: true })));
  }

  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, maxRetries: 3 });
  }

  get #recordFile(): string {
    return path.join(this.path, 'job.json');
  }
}
