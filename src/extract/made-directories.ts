import { lstatSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from '../files/error-code.js';
import type { TimeSlice } from '../files/time-slice.js';

/** Makes directories below a root, each once, and goes through no link that lies there. */
export class MadeDirectories {
  readonly #made: Set<string>;

  /** @param root a directory that is there; how it is reached is the user's own choice */
  constructor(root: string) {
    this.#made = new Set([path.join(root)]);
  }

  /** @throws the system's error; EEXIST where a link, or anything but a directory, is in the way */
  make(directory: string): void {
    if (this.#made.has(directory)) return;
    this.make(path.dirname(directory));
    try {
      mkdirSync(directory);
    } catch (cause) {
      // Windows and macOS have other codes for a directory that is there and cannot be made.
      if (!['EEXIST', 'EPERM', 'EISDIR'].includes(errorCode(cause)) || !isDirectory(directory)) throw cause;
    }
    this.#made.add(directory);
  }

  /**
   * Makes many, with pauses for other work. What is in the way of one is not told of here: whoever has an entry there
   * calls `make` again.
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
        // Told of where it is needed.
      }
      await slice.pause();
    }
  }
}

const isDirectory = (place: string): boolean =>
  lstatSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false;
