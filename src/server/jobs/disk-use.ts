import { lstatSync, statfsSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { countFiles } from '../../archive/index.js';
import { formatBytes, maxCounted, quotePath } from '../../contract/index.js';
import {
  type Clock,
  faultWithoutPath,
  isMissing,
  orElse,
  pause,
  walkDirectories,
} from '../../files/index.js';
import type { JobDirectory } from './job-directory.js';

/** The size of a tree. */
interface TreeUse {
  /** Bytes that it occupies on the disk. Of a sparse file, only the written part counts. */
  readonly allocated: number;
  /** Total length of its files in bytes. A file counts once per hard link, because an archive contains it that often. */
  readonly length: number;
}

/**
 * Counts a tree. A file with several names occupies the disk once. No link is followed.
 * @param seen files with several names that have been counted already
 * @param onUnseen called for whatever exists but cannot be examined
 */
async function countTree(
  root: string,
  seen = new Set<string>(),
  onUnseen: (place: string, cause: unknown) => void = () => {},
): Promise<TreeUse> {
  const use = { allocated: 0, length: 0 };
  const missed = (place: Buffer | string, cause: unknown) => {
    if (!isMissing(cause)) onUnseen(place.toString(), cause);
  };
  const count = async (place: Buffer) => {
    try {
      const stats = await lstat(place);
      const { dev, ino, nlink, blocks, size } = stats;
      const isDirectory = stats.isDirectory();
      if (!isDirectory) use.length += size;
      const id = `${dev}:${ino}`;
      if (isDirectory || nlink === 1 || !seen.has(id)) use.allocated += blocks * 512;
      if (!isDirectory && nlink > 1) seen.add(id);
    } catch (cause) {
      missed(place, cause);
    }
  };
  await count(Buffer.from(root));
  try {
    for await (const { entries } of walkDirectories(root, { onUnreadable: missed }))
      for (const { path: place } of entries) await count(place);
  } catch (cause) {
    // The app may also have replaced it by a file, which is counted.
    missed(root, cause);
  }
  return use;
}

/** Bytes that a tree occupies on the disk, as far as it can be examined. */
export const treeSize = async (root: string): Promise<number> => (await countTree(root)).allocated;

/** Milliseconds between two measurements; a tree that takes long to walk is measured less often. */
const interval = 1000;
const pausePerWalk = 20;

/** What `DiskLimit` needs to know about a job besides its files. */
export interface DiskLimitDeps {
  /** Bytes that the job may write. */
  readonly max: number;
  /** Bytes of files that the job has deleted but still has open. */
  readonly removedButOpen: () => Promise<number>;
  readonly clock: Clock;
}

/** Measures repeatedly how much a running job has written, until that exceeds its limit. */
export class DiskLimit {
  #isOver = false;
  /** Bytes of the input when the job started. They do not count towards the limit. */
  readonly #given: Promise<number>;

  constructor(
    private readonly directory: JobDirectory,
    private readonly deps: DiskLimitDeps,
  ) {
    this.#given = treeSize(directory.input);
  }

  /** Resolves with what is wrong once the limit is exceeded, or with null once this is closed. */
  async exceeded(): Promise<string | null> {
    while (!this.#isOver) {
      const start = this.deps.clock.monotonic();
      const found = await this.look();
      if (found !== null) return found;
      const took = this.deps.clock.monotonic() - start;
      await pause(this.deps.clock, Math.max(interval, pausePerWalk * took));
    }
    return null;
  }

  /**
   * Measures once.
   * @returns what is wrong, as the beginning of a sentence, if the limit is exceeded, or if something cannot be counted; null
   *   otherwise
   */
  async look(): Promise<string | null> {
    const { input, output, workspace, path: root } = this.directory;
    const seen = new Set<string>();
    let unseen: string | null = null;
    const onUnseen = (place: string, cause: unknown) => {
      const what = `${quotePath(path.relative(root, place))} (${faultWithoutPath(cause)})`;
      unseen ??= `the server cannot look into ${what}, so that what it wrote cannot be counted`;
    };
    const of = async (part: string) => (await countTree(part, seen, onUnseen)).allocated;
    // The input is counted first, because the app may create further hard links to its files.
    const use = [{ part: 'Input', bytes: Math.max(0, (await of(input)) - (await this.#given)) }];
    for (const part of [output, workspace]) use.push({ part: path.basename(part), bytes: await of(part) });
    use.push({ part: 'removed files that are still open', bytes: await this.deps.removedButOpen() });
    const sum = use.reduce((total, { bytes }) => total + bytes, 0);
    if (unseen !== null || sum <= this.deps.max) return unseen;
    const parts = use
      .filter(({ bytes }) => bytes > 0)
      .map(({ part, bytes }) => `${part} ${formatBytes(bytes)}`);
    return `it wrote ${formatBytes(sum)} (${parts.join(', ')}), and ${this.#allowed}`;
  }

  /**
   * Checks whether the result can be packed within the limit. A sparse file may have any length, and a file is packed once per
   * hard link.
   * @returns what is wrong, as the beginning of a sentence; null if the result can be packed
   */
  async lookAtResult(): Promise<string | null> {
    const { length } = await countTree(this.directory.output);
    if (length <= this.deps.max) return null;
    return `its result has ${formatBytes(length)} to pack, and ${this.#allowed}`;
  }

  get #allowed(): string {
    return `a job may write ${formatBytes(this.deps.max)} (--disk-per-job of the server)`;
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
    const counted = countFiles(output, maxCounted, late.signal).catch(() => null);
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
  const stats = orElse(() => lstatSync(result), null);
  return stats?.isFile() ? stats.size : null;
}

/**
 * Bytes of a result: those of its archive, or of its files if it is packed while it is downloaded; null if the disk does
 * not answer in time. Never rejects.
 */
export async function resultSize(directory: JobDirectory): Promise<number | null> {
  const size = archiveSize(directory);
  return size ?? Promise.race([treeSize(directory.output), delay(sizeTimeout, null, { ref: false })]);
}

/**
 * The default limit for what a job may write, in bytes: a tenth of the disk, at least 10 GiB. It does not depend on the free
 * space: otherwise a server that starts on a full disk would limit all later jobs.
 */
export function usualDiskPerJob(dataDirectory: string): number {
  const { blocks, bsize } = statfsSync(dataDirectory);
  return Math.max(10 * 2 ** 30, (blocks * bsize) / 10);
}
