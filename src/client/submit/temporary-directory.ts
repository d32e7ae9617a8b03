import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Retried several times: Windows cannot remove a file that is open elsewhere, for example in a virus scanner. */
const removal = { recursive: true, force: true, maxRetries: 5 };

/** A directory that only this user can read: created on first use, and removed when the process ends. */
export class TemporaryDirectory {
  #path: string | null = null;
  /** After a second Ctrl-C no `finally` block runs, but this handler does. */
  readonly #onExit = () => {
    if (this.#path !== null) rmSync(this.#path, removal);
  };

  async path(): Promise<string> {
    if (this.#path === null) {
      this.#path = await mkdtemp(path.join(tmpdir(), 'remote-app-'));
      process.once('exit', this.#onExit);
    }
    return this.#path;
  }

  /** Removes a file, if it is in this directory. */
  async discard(file: string): Promise<void> {
    if (this.#path !== null && path.dirname(file) === this.#path) await rm(file, removal);
  }

  async remove(): Promise<void> {
    if (this.#path === null) return;
    process.removeListener('exit', this.#onExit);
    await rm(this.#path, removal);
  }
}
