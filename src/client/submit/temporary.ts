import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Tried several times: Windows removes no file that something, such as a virus scanner, has open. */
const removal = { recursive: true, force: true, maxRetries: 5 };

/** A directory that only this user can read and that is removed when the process ends. */
export class TemporaryDirectory {
  readonly #onExit: () => void;

  private constructor(readonly path: string) {
    // After a second Ctrl-C no `finally` block runs, but this handler does.
    this.#onExit = () => rmSync(path, removal);
    process.once('exit', this.#onExit);
  }

  static async create(): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(path.join(tmpdir(), 'remote-app-')));
  }

  async remove(): Promise<void> {
    process.removeListener('exit', this.#onExit);
    await rm(this.path, removal);
  }
}
