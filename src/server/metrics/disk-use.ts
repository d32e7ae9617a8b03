import { statfs } from 'node:fs/promises';

export interface DiskUse {
  /** Bytes that an ordinary user may still write. */
  readonly free: number;
  readonly size: number;
}

/**
 * Asks for the room of one file system. While it does not answer no second question is put: each would keep one of the few
 * threads that read and write files.
 */
export class DiskLook {
  #pending: Promise<DiskUse | null> | null = null;

  constructor(private readonly directory: string) {}

  /** @returns null if the file system cannot be asked */
  ask(): Promise<DiskUse | null> {
    this.#pending ??= this.#look().finally(() => {
      this.#pending = null;
    });
    return this.#pending;
  }

  async #look(): Promise<DiskUse | null> {
    try {
      const { bavail, blocks, bsize } = await statfs(this.directory);
      return { free: bavail * bsize, size: blocks * bsize };
    } catch {
      return null;
    }
  }
}
