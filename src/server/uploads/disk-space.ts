import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { Owner } from '../../access/index.js';
import { formatBytes, ServiceError } from '../../contract/index.js';
import { isOutOfInodes } from '../../files/index.js';

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

/** What can be removed when the disk is short. */
export interface Evictions {
  /** Bytes that can be freed for an owner who is about to keep so many more. Removes nothing. */
  evictable(owner: Owner, more: number): Promise<number>;
  /**
   * Frees at least this many bytes, starting with files of this owner.
   * @returns false, with nothing removed, if that is not possible
   */
  makeRoom(bytes: number, owner: Owner): Promise<boolean>;
}

/** The disk of the data directory, and what of it is promised to requests that have not written it yet. */
export class DiskSpace {
  /** Free bytes that are already promised. */
  promised = 0;
  /** Bytes that are promised and become free by evictions, once they are needed. */
  owed = 0;

  constructor(
    private readonly directory: string,
    readonly evictions: Evictions,
  ) {}

  /** Blocks for a moment: starting a thread takes longer than most file systems take to answer. */
  freeNow(): FreeSpace {
    return spaceOf(statfsSync(this.directory), this.promised);
  }

  /** The same in a thread, as a network file system may take a while to answer. */
  async free(): Promise<FreeSpace> {
    return spaceOf(await statfs(this.directory), this.promised);
  }

  /** Space for one request or upload of an owner, none of which is reserved yet. */
  reservationFor(owner: Owner): Reservation {
    return new Reservation(this, owner);
  }
}

/**
 * The disk space of one request or upload. It is reserved first, and checked again while bytes are written, because jobs write to the
 * same disk. Reserving removes no files, because claiming a length costs nothing: others lose files only to bytes that have arrived.
 * Many requests at once may together use up to `checkInterval` each of the reserve before they are refused.
 */
export class Reservation implements Disposable {
  /** Bytes that are reserved, free and not written. */
  #left = 0;
  /** Bytes that are reserved and have to be freed when they are written. */
  #owed = 0;
  #unchecked = checkInterval;

  constructor(
    private readonly disk: DiskSpace,
    private readonly owner: Owner,
  ) {}

  /** A second reservation of the same owner. */
  another(): Reservation {
    return new Reservation(this.disk, this.owner);
  }

  /** A reservation that takes over what this one has. */
  moved(): Reservation {
    const other = this.another();
    other.#left = this.#left;
    other.#owed = this.#owed;
    this.#left = 0;
    this.#owed = 0;
    return other;
  }

  /** Bytes that are reserved and not written. */
  get bytes(): number {
    return this.#left + this.#owed;
  }

  /**
   * Reserves space that is free, or that can be freed.
   * @throws ServiceError `diskFull`
   */
  async take(bytes: number, what: string, files = 0): Promise<void> {
    const { disk } = this;
    const isShort = (await disk.free()).bytes < bytes;
    const evictable = isShort ? (await disk.evictions.evictable(this.owner, bytes)) - disk.owed : 0;
    const space = disk.freeNow();
    const left = Math.max(0, Math.min(bytes, space.bytes));
    if (Math.min(0, space.bytes) + left + Math.max(0, evictable) < bytes || space.files < files)
      throw noSpace(space, what, files);
    this.#add(left, bytes - left);
  }

  /**
   * Waits until so many bytes can be written, beside what others were promised. Makes room for them if there is too little.
   * @throws ServiceError `diskFull` if some of the reserve is used, and no room can be made
   */
  async ensure(bytes: number, what: string): Promise<void> {
    for (;;) {
      const space = await this.disk.free();
      // What is reserved for this request may be used by it.
      const missing = bytes - space.bytes - this.#left;
      if (missing <= 0 && space.files >= 0) return;
      if (!(await this.disk.evictions.makeRoom(Math.max(1, missing), this.owner))) throw noSpace(space, what);
    }
  }

  /**
   * Counts bytes that are about to be written. The first time, regularly from then on, and always where room has to be made, waits
   * until they can be.
   */
  async use(bytes: number): Promise<void> {
    this.#unchecked += bytes;
    if (this.#unchecked >= checkInterval || (this.#owed > 0 && bytes > this.#left)) {
      this.#unchecked = 0;
      await this.ensure(bytes, 'this upload');
    }
    const left = Math.min(bytes, this.#left);
    this.#add(-left, -Math.min(bytes - left, this.#owed));
  }

  [Symbol.dispose](): void {
    this.#add(-this.#left, -this.#owed);
  }

  #add(left: number, owed: number): void {
    this.#left += left;
    this.#owed += owed;
    this.disk.promised += left;
    this.disk.owed += owed;
  }
}
