import { lstat, opendir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { formatBytes } from '../../contract/bytes.js';
import type { JobDirectory } from './job-directory.js';

/** Milliseconds between two measurements; a tree that takes long to walk is walked less often. */
const interval = 1000;
const restPerWalk = 20;

/** Bytes by the part of a job's directory. */
type Use = readonly (readonly [part: string, bytes: number])[];

const sum = (use: Use): number => use.reduce((total, [, bytes]) => total + bytes, 0);

/**
 * Bytes of the disk that a tree takes: a sparse file counts as what it takes, one that has several names once. No link is
 * followed, and what cannot be read counts as nothing.
 * @param seen files of several names that are counted already
 */
async function diskUse(root: string, seen: Set<string>): Promise<number> {
  const stats = await lstat(root).catch(() => null);
  if (stats === null) return 0;
  if (!stats.isDirectory()) {
    const id = `${stats.dev}:${stats.ino}`;
    if (stats.nlink > 1 && seen.has(id)) return 0;
    if (stats.nlink > 1) seen.add(id);
    return stats.blocks * 512;
  }
  let bytes = 0;
  try {
    for await (const { name } of await opendir(root)) bytes += await diskUse(path.join(root, name), seen);
  } catch {
    // It was removed meanwhile, or the app has made it unreadable.
  }
  return bytes;
}

/** Measures what a job writes while it runs, again and again, and tells once it is more than a job may write. */
export class DiskLimit {
  #isOver = false;
  /** Bytes of the input when the job started: these it has not written. */
  readonly #given: Promise<number>;

  /** @param most bytes that the job may write */
  constructor(
    private readonly directory: JobDirectory,
    readonly most: number,
  ) {
    this.#given = diskUse(directory.input, new Set());
  }

  /** Resolves with a sentence of where the bytes are as soon as there are too many; with null once it is closed. */
  async exceeded(): Promise<string | null> {
    while (!this.#isOver) {
      const start = performance.now();
      const found = await this.look();
      if (found !== null) return found;
      const took = performance.now() - start;
      await delay(Math.max(interval, restPerWalk * took), undefined, { ref: false });
    }
    return null;
  }

  /** Measures once. @returns where the bytes are, in words, if there are too many; otherwise null */
  async look(): Promise<string | null> {
    const { input, output, workspace } = this.directory;
    const seen = new Set<string>();
    // The input first: the app may give its files further names.
    const written = (await diskUse(input, seen)) - (await this.#given);
    const use: [string, number][] = [['Input', Math.max(0, written)]];
    for (const part of [output, workspace]) use.push([path.basename(part), await diskUse(part, seen)]);
    if (sum(use) <= this.most) return null;
    const parts = use
      .filter(([, bytes]) => bytes > 0)
      .map(([part, bytes]) => `${part} ${formatBytes(bytes)}`);
    return `${formatBytes(sum(use))} (${parts.join(', ')})`;
  }

  close(): void {
    this.#isOver = true;
  }
}
