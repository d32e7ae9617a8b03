import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { formatBytes } from '../../contract/bytes.js';
import { ServiceError } from '../../contract/errors.js';

const mebibyte = 1 << 20;

/** Bytes that an upload writes between two checks of the disk; small, so that all uploads together keep the headroom. */
const lookEvery = mebibyte;
/** Bytes that an empty file counts as: it takes an inode and perhaps a block of the disk. */
const leastFile = 4096;

/**
 * Bytes that uploads and their extracted archives leave free for the logs, records and results of running jobs: 2 % of the
 * disk, at least 64 MiB and at most 1 GiB; an eighth of a disk under 512 MiB.
 */
const headroomOf = (size: number): number =>
  Math.min(size / 8, Math.max(64 * mebibyte, Math.min(1024 * mebibyte, size / 50)));

/** The same as a number of files, on a disk with a limited number of inodes. */
const headroomOfFiles = (files: number): number => Math.min(files / 8, 1000);

/** What uploads may still take of the disk that holds `directory`. */
export interface DiskRoom {
  /** Bytes that are free. */
  readonly free: number;
  /** Free bytes without the headroom; negative if jobs have used some of the headroom. */
  readonly bytes: number;
  /** The same as a number of files; infinite on a disk that does not count inodes. */
  readonly files: number;
}

function roomOf({ bavail, bsize, blocks, files, ffree }: StatsFs): DiskRoom {
  const free = bavail * bsize;
  return {
    free,
    bytes: free - headroomOf(blocks * bsize),
    files: files === 0 ? Number.POSITIVE_INFINITY : ffree - headroomOfFiles(files),
  };
}

/** Asks the file system for its free room, as often as once a MiB: a network file system may take a while to answer. */
const askRoom = async (directory: string): Promise<DiskRoom> => roomOf(await statfs(directory));

/** The same for one question of a request: a thread takes longer to begin than most file systems take to answer. */
export const diskRoom = (directory: string): DiskRoom => roomOf(statfsSync(directory));

/** The error of an upload for which there is no room. */
export function noRoom({ free, bytes }: DiskRoom, what: string): ServiceError {
  const problem =
    bytes < 0
      ? `The server's disk has ${formatBytes(free)} free, which it keeps for the jobs that run: too little for ${what}`
      : `The server's disk has too little room for ${what}`;
  return new ServiceError('diskFull', `${problem}; try again later`);
}

/** Bytes that all uploads together may write before their next checks. They must fit without using the headroom. */
let promised = 0;

/**
 * Checks the disk again and again while an upload is written, because other uploads and jobs write to it as well. The upload
 * goes on during a check, and waits if it has written as much again before the answer comes. The bytes that are written until
 * then are subtracted from what the checks of other uploads find.
 */
export class DiskWatch implements Disposable {
  #sinceLook = 0;
  /** Bytes that have arrived and are not written yet: the file system does not know of them. */
  #unwritten = 0;
  #promise = 0;
  /** The check that is under way, or has failed. */
  #looking: Promise<void> | null = null;
  #isOver = false;

  /** @param onFailure called with the ServiceError `diskFull` if only the headroom is left */
  constructor(
    private readonly directory: string,
    private readonly onFailure: (cause: unknown) => void,
  ) {}

  /** Whether nothing more may be written before `settled`. */
  get isBehind(): boolean {
    return this.#looking !== null && this.#sinceLook >= lookEvery;
  }

  /** Notes that a file was begun. */
  countFile(): void {
    this.count(leastFile);
  }

  /** Counts bytes, and begins a check when there are enough. */
  count(bytes: number): void {
    this.#sinceLook += bytes;
    if (this.#sinceLook >= lookEvery) this.look();
  }

  /** Counts bytes that are written later. */
  expect(bytes: number): void {
    this.#unwritten += bytes;
    this.count(bytes);
  }

  /** Notes that expected bytes are written. */
  wrote(bytes: number): void {
    this.#unwritten -= bytes;
  }

  /** Begins a check, if none is under way. */
  look(): void {
    if (this.#looking || this.#isOver) return;
    this.#sinceLook = 0;
    this.#looking = this.#look();
    this.#looking.catch(this.onFailure);
  }

  /**
   * Resolves when no check is under way.
   * @throws ServiceError `diskFull` if a check has failed
   */
  async settled(): Promise<void> {
    while (this.#looking) await this.#looking;
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#allow(0);
  }

  async #look(): Promise<void> {
    // Written before the next check is answered: what waits to be written, and as much as is counted during two checks.
    this.#allow(this.#unwritten + 2 * lookEvery);
    const room = await askRoom(this.directory);
    if (room.bytes < promised || room.files < 0) throw noRoom(room, 'this upload');
    this.#looking = null;
    this.count(0);
  }

  #allow(bytes: number): void {
    promised += bytes - this.#promise;
    this.#promise = bytes;
  }
}
