import { randomBytes } from 'node:crypto';
import { readdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { errorCode, makeDirectory } from '../../files/index.js';
import type { Report } from '../report.js';

/** Removes uploads, and whole directories of them. Their names are free at once, their disk space soon after. */
export class Removals {
  /** @param directory to which they are first moved; on the same file system */
  constructor(
    readonly directory: string,
    private readonly report: Report,
  ) {
    makeDirectory(directory, 0o700);
  }

  /** Continues the removals that an earlier server did not finish. */
  resume(): void {
    for (const name of readdirSync(this.directory)) void this.#delete(path.join(this.directory, name));
  }

  /** Removes a file or directory. Resolves when its disk space is free. Never rejects. */
  async remove(entry: string): Promise<void> {
    const target = path.join(this.directory, randomBytes(8).toString('hex'));
    try {
      renameSync(entry, target);
    } catch (cause) {
      if (errorCode(cause) !== 'ENOENT') this.report(`${entry} could not be removed`, cause);
      return;
    }
    await this.#delete(target);
  }

  async #delete(entry: string): Promise<void> {
    await rm(entry, { recursive: true, force: true }).catch((cause) =>
      this.report(`${entry} could not be removed; the next start tries again`, cause),
    );
  }
}
