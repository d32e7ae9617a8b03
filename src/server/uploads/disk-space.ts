import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { Owner } from '../../access/index.js';
import { formatBytes, ServiceError } from '../../contract/index.js';
import { isDiskFull, isOutOfInodes } from '../../files/index.js';

const mebibyte = 1 << 20;

/** Bytes that stay free for the logs, records and results of running jobs. */
const reserve = 256 * mebibyte;
/** Files that stay free on a disk with a limited number of inodes. */
const reservedFiles = 1000;
/** The largest part of a small disk that is reserved. */
const maxReservedShare = 1 / 8;

/** Bytes that may be written between two checks of the disk. */
const checkInterval = 2 * mebibyte;

/** What requests may still use of a disk. */
export interface FreeSpace {
  /** Free bytes, the reserve included. */
  readonly free: number;
  /** Free bytes without the reserve and what is promised to others; negative if some of the reserve is used. */
  readonly bytes: number;
  /** The same as a number of files; infinite on a disk without a limit of inodes. */
  readonly files: number;
}

function spaceOf({ bavail, bsize, blocks, files, ffree }: StatsFs, promised: number): FreeSpace {
  const free = bavail * bsize;
  return {
    free,
    bytes: free - Math.min(reserve, blocks * bsize * maxReservedShare) - promised,
    files: files === 0 ? Number.POSITIVE_INFINITY : ffree - Math.min(reservedFiles, files * maxReservedShare),
  };
}

const noInodes = (what: string): ServiceError =>
  new ServiceError(
    'diskFull',
    `The server's disk has too few inodes (files) left for ${what}; try again later, or ask its admin to remove files there`,
  );

/** The error for something that needs more files than there may be, or otherwise more bytes. */
function noSpace({ free, bytes, files }: FreeSpace, what: string, neededFiles = 0): ServiceError {
  if (bytes >= 0 && files < neededFiles) return noInodes(what);
  const problem =
    bytes < 0
      ? `The server's disk has ${formatBytes(free)} free, which it keeps for running jobs: too little for ${what}`
      : `The server's disk has too little room for ${what}`;
  return new ServiceError('diskFull', `${problem}; try again later`);
}

/**
 * The error for a request that could not be written. Call it before the request's files are removed, because then there
 * are inodes again.
 */
export const writeFault = (cause: unknown): unknown =>
  isOutOfInodes(cause) ? noInodes('this upload') : cause;

/**
 * Frees at least so many bytes of the disk, first from what this owner keeps.
 * @returns false, with nothing removed, if that is not possible
 */
export type MakeRoom = (bytes: number, owner: Owner) => Promise<boolean>;

/** The disk of the data directory, and what of it is promised to requests that have not written it yet. */
export class DiskSpace {
  promised = 0;

  constructor(
    private readonly directory: string,
    readonly makeRoom: MakeRoom,
  ) {}

  /** Blocks for a moment: starting a thread takes longer than most file systems take to answer. */
  freeNow(): FreeSpace {
    return spaceOf(statfsSync(this.directory), this.promised);
  }

  /** The same in a thread, as a network file system may take a while to answer. */
  async free(): Promise<FreeSpace> {
    return spaceOf(await statfs(this.directory), this.promised);
  }

  /** Space for one request of an owner, none of which is reserved yet. */
  reservationFor(owner: Owner): Reservation {
    return new Reservation(this, owner);
  }
}

/**
 * The disk space of one request: what is reserved for it, and regular checks while it writes, because jobs write to the
 * same disk. Many requests at once may together use up to `checkInterval` each of the reserve before they are refused.
 */
export class Reservation implements Disposable {
  /** Bytes that are reserved and not written. */
  #left = 0;
  #unchecked = 0;

  constructor(
    private readonly disk: DiskSpace,
    private readonly owner: Owner,
  ) {}

  /** A second reservation of the same owner. */
  another(): Reservation {
    return new Reservation(this.disk, this.owner);
  }

  /**
   * Reserves space, and frees some if there is too little.
   * @throws ServiceError `diskFull`
   */
  async take(bytes: number, what: string): Promise<void> {
    await this.withSpace(
      () => bytes,
      async () => this.takeNow(bytes, 0, what),
    );
  }

  /** Reserves space, but frees none. @throws ServiceError `diskFull` */
  takeNow(bytes: number, files: number, what: string): void {
    const space = this.disk.freeNow();
    if (space.bytes < bytes || space.files < files) throw noSpace(space, what, files);
    this.#left += bytes;
    this.disk.promised += bytes;
  }

  /**
   * Takes a step, and repeats it as long as the disk is too full and room can be made.
   * @param needed the bytes that it needs, asked after it failed
   */
  async withSpace<T>(needed: () => number, attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt();
      } catch (cause) {
        const isFull = isDiskFull(cause) || (cause instanceof ServiceError && cause.code === 'diskFull');
        if (!isFull) throw cause;
        const missing = Math.max(1, needed() - (await this.disk.free()).bytes);
        if (!(await this.disk.makeRoom(missing, this.owner))) throw cause;
      }
    }
  }

  /**
   * Counts bytes that were written, and checks the disk if it is time to.
   * @throws ServiceError `diskFull` if some of the reserve is used, and no room can be made
   */
  async wrote(bytes: number): Promise<void> {
    this.#release(bytes);
    this.#unchecked += bytes;
    if (this.#unchecked < checkInterval) return;
    this.#unchecked = 0;
    const check = async () => {
      const space = await this.disk.free();
      // What is reserved for this request may be used by it.
      if (space.bytes + this.#left < 0 || space.files < 0) throw noSpace(space, 'this upload');
    };
    await this.withSpace(() => -this.#left, check);
  }

  [Symbol.dispose](): void {
    this.#release(this.#left);
  }

  #release(bytes: number): void {
    const released = Math.min(bytes, this.#left);
    this.#left -= released;
    this.disk.promised -= released;
  }
}
