import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { argumentsOf, isRunning } from './processes.mjs';

/** How the imitation of nvidia-smi misbehaves (test/fixtures/bin); `well` means that it works. */
export type Mode =
  | 'well'
  | 'fail'
  | 'crash'
  | 'hang'
  | 'hold'
  | 'silent'
  | 'garbage'
  | 'flood'
  | 'lost'
  | 'dead'
  | 'untold'
  | 'warned'
  | 'late';

/** Controls how the imitation of nvidia-smi behaves, also while a server runs, and counts its starts. */
export class FakeNvidiaSmi implements Disposable {
  readonly #directory = mkdtempSync(path.join(tmpdir(), 'remote-app-test-smi-'));
  readonly #file = path.join(this.#directory, 'mode');

  constructor(mode: Mode) {
    this.mode = mode;
  }

  set mode(mode: Mode) {
    writeFileSync(this.#file, `${mode}\n`);
  }

  get environment() {
    return { FAKE_NVIDIA_SMI: this.#file };
  }

  /** Process ids, in the order of the starts. */
  get started(): number[] {
    return this.#read('started');
  }

  #read(what: string): number[] {
    const file = `${this.#file}.${what}`;
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : [];
  }

  /** Process ids of those that have not ended. Another process may have got the id of one that has. */
  get running(): number[] {
    const isImitation = (pid: number) => argumentsOf(pid).some((word) => word.endsWith('/nvidia-smi'));
    return this.started.filter((pid) => isRunning(pid) && isImitation(pid));
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
