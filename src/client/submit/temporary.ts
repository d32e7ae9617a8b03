import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A directory that only this user can read and that does not outlive the process. */
export class TemporaryDirectory {
  readonly #onExit: () => void;

  private constructor(readonly path: string) {
    // A second Ctrl-C leaves at once: no `finally` runs then, this does.
    this.#onExit = () => rmSync(path, { recursive: true, force: true });
    process.once('exit', this.#onExit);
  }

  static async create(): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(path.join(tmpdir(), 'remote-app-')));
  }

  async remove(): Promise<void> {
    process.removeListener('exit', this.#onExit);
    await rm(this.path, { recursive: true, force: true });
  }
}
