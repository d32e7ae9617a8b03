import { lstatSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from '../files/error-code.js';
import type { TimeSlice } from '../files/time-slice.js';

/** Makes directories below a root, each once, and follows no link there. */
export class MadeDirectories {
  readonly #made: Set<string>;

  /** @param root a directory that exists; the path to it may contain links, since the user chose it */
  constructor(root: string) {
    this.#made = new Set([path.join(root)]);
  }

  /** @throws the system's error; EEXIST if something other than a directory has the name */
  make(directory: string): void {
    if (this.#made.has(directory)) return;
    this.make(path.dirname(directory));
    try {
      mkdirSync(directory);
    } catch (cause) {
      // Windows and macOS have other codes for a directory that exists already.
      if (!['EEXIST', 'EPERM', 'EISDIR'].includes(errorCode(cause)) || !isDirectory(directory)) throw cause;
    }
    this.#made.add(directory);
  }

  /**
   * Makes many directories, with pauses for other work. Errors are ignored here: `make` is called again for each entry and
   * reports them.
   */
  async makeAll(
    directories: Iterable<string>,
    slice: TimeSlice,
    {
      signal,
      onMake,
    }: { readonly signal: AbortSignal | undefined; readonly onMake: (() => void) | undefined },
  ): Promise<void> {
    for (const directory of directories) {
      signal?.throwIfAborted();
      onMake?.();
      try {
        this.make(directory);
      } catch {
        // Reported by the entry that needs it.
      }
      await slice.pause();
    }
  }
}

const isDirectory = (place: string): boolean =>
  lstatSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false;
