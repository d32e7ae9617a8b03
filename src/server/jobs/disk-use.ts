import { lstatSync, statfsSync } from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { countFiles } from '../../archive/index.js';
import { formatBytes, mostCounted } from '../../contract/index.js';
import { type Clock, pause } from '../../files/index.js';
import type { JobDirectory } from './job-directory.js';

/** Bytes of the regular files below a directory. Unreadable ones do not count; no link is followed. */
export async function treeSize(root: string): Promise<number> {
  let bytes = 0;
  const left = [root];
  for (let directory = left.pop(); directory !== undefined; directory = left.pop()) {
    try {
      for await (const entry of await opendir(directory)) {
        const name = path.join(directory, entry.name);
        if (entry.isDirectory()) left.push(name);
        else if (entry.isFile())
          bytes += await lstat(name).then(
            ({ size }) => size,
            () => 0,
          );
      }
    } catch {
      // It was removed in the meantime, or an app made it unreadable.
    }
  }
  return bytes;
}

/** Milliseconds between two measurements; a tree that takes long to walk is measured less often. */
const interval = 1000;
const pausePerWalk = 20;

/** Bytes for each part of a job's directory. */
type Use = readonly (readonly [part: string, bytes: number])[];

const sum = (use: Use): number => use.reduce((total, [, bytes]) => total + bytes, 0);

/**
 * Disk space taken by a tree, in bytes. A sparse file counts with what it occupies, and a file with several names counts
 * once. No link is followed, and unreadable files do not count.
 * @param seen files with several names that have been counted already
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
    // It was removed in the meantime, or the app made it unreadable.
  }
  return bytes;
}

/** Measures repeatedly how much a running job has written, until that exceeds its limit. */
export class DiskLimit {
  #isOver = false;
  /** Size of the input when the job started, in bytes. It does not count towards the limit. */
  readonly #given: Promise<number>;

  /** @param most bytes that the job may write */
  constructor(
    private readonly directory: JobDirectory,
    readonly most: number,
    private readonly clock: Clock,
  ) {
    this.#given = diskUse(directory.input, new Set());
  }

  /** Resolves with a phrase that says where the bytes are, once the limit is exceeded; with null once it is closed. */
  async exceeded(): Promise<string | null> {
    while (!this.#isOver) {
      const start = this.clock.monotonic();
      const found = await this.look();
      if (found !== null) return found;
      const took = this.clock.monotonic() - start;
      await pause(this.clock, Math.max(interval, pausePerWalk * took));
    }
    return null;
  }

  /** Measures once. @returns a phrase that says where the bytes are if the limit is exceeded; otherwise null */
  async look(): Promise<string | null> {
    const { input, output, workspace } = this.directory;
    const seen = new Set<string>();
    // The input is counted first, because the app may give its files further names.
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

/** Milliseconds that counting may take: a disk that does not answer must not delay the end of a job. */
const countTimeout = 2000;

/** How many files a job that has failed left in its output; null if they cannot be counted, or not in time. Never rejects. */
export async function countLeftFiles(output: string): Promise<number | null> {
  const late = new AbortController();
  try {
    const counted = countFiles(output, mostCounted, late.signal).catch(() => null);
    return await Promise.race([counted, delay(countTimeout, null, { ref: false })]);
  } finally {
    late.abort();
  }
}

/** An error message if the app removed or replaced its output directory; otherwise null. */
export function outputFault(output: string): string | null {
  const stats = lstatSync(output, { throwIfNoEntry: false });
  if (!stats) return 'The app removed its output directory: there is no result';
  return stats.isDirectory()
    ? null
    : 'The app replaced its output directory, which is not followed: there is no result';
}

/** Milliseconds that measuring may take: a disk that does not answer must not delay the end of a job. */
const sizeTimeout = 10_000;

/** Bytes of the archive; null if there is none, or something else is in its place. */
function archiveSize({ result }: JobDirectory): number | null {
  try {
    const stats = lstatSync(result);
    return stats.isFile() ? stats.size : null;
  } catch {
    return null;
  }
}

/**
 * Bytes of a result: those of its archive, or of its files if it is packed while it is downloaded; null if the disk does
 * not tell in time. Never rejects.
 */
export async function resultSize(directory: JobDirectory): Promise<number | null> {
  const size = archiveSize(directory);
  return size ?? Promise.race([treeSize(directory.output), delay(sizeTimeout, null, { ref: false })]);
}

/** The default limit for what a job may write, in bytes: a tenth of the free space, at least 10 GiB. */
export function usualDiskPerJob(dataDirectory: string): number {
  const { bavail, bsize } = statfsSync(dataDirectory);
  return Math.max(10 * 2 ** 30, (bavail * bsize) / 10);
}
