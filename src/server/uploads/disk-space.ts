import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { Owner } from '../../access/index.js';
import { formatBytes, ServiceError } from '../../contract/index.js';
import { isOutOfInodes } from '../../files/index.js';

const mebibyte = 1 << 20;

/** Number of bytes that stay free for the logs, records and results of running jobs. */
const reserve = 256 * mebibyte;
/** Number of files that stay free on a disk with a limited number of inodes. */
const reservedFiles = 1000;
/** Maximum share of a small disk that is reserved. */
const maxReservedShare = 1 / 8;

/** Number of bytes that may be written between two checks of the disk. */
const checkInterval = 2 * mebibyte;

/** What requests may still use of a disk. */
export interface FreeSpace {
  /** Free bytes, including the reserve. */
  readonly free: number;
  /** Free bytes without the reserve and without what others were promised; negative if part of the reserve is used. */
  readonly bytes: number;
  /** The same as a number of files; infinite on a disk without an inode limit. */
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

/** The error for something that needs more files than there may be or, failing that, more bytes. */
function noSpace({ free, bytes, files }: FreeSpace, what: string, neededFiles = 0): ServiceError {
  if (bytes >= 0 && files < neededFiles) return noInodes(what);
  const problem =
    bytes < 0
      ? `The server's disk has ${formatBytes(free)} free, which it keeps for running jobs: too little for ${what}`
      : `The server's disk has too little room for ${what}`;
  return new ServiceError('diskFull', `${problem}; try again later`);
}

/**
 * The error for a request that could not be written. Must be called before the request's files are removed, which frees inodes.
 */
export const writeFault = (cause: unknown): unknown =>
  isOutOfInodes(cause) ? noInodes('this upload') : cause;

/** What can be removed when disk space is short. */
export interface Evictions {
  /** Number of bytes that could be freed for an owner who is about to store `more` bytes. Removes nothing. */
  evictable(owner: Owner, more: number): Promise<number>;
  /**
   * Frees at least this many bytes, starting with files of this owner.
   * @returns false, with nothing removed, if that is not possible
   */
  makeRoom(bytes: number, owner: Owner): Promise<boolean>;
}

/** The disk of the data directory, with the space that is promised to requests that have not written it yet. */
export class DiskSpace {
  /** Bytes that are free and already promised. */
  promised = 0;
  /** Bytes that are promised but not free: they will be freed by evictions when needed. */
  owed = 0;

  constructor(
    private readonly directory: string,
    readonly evictions: Evictions,
  ) {}

  /**
   * The current free space. Blocks for a moment, because starting a thread takes longer than most file systems take to answer.
   */
  freeNow(): FreeSpace {
    return spaceOf(statfsSync(this.directory), this.promised);
  }

  /** The same in a thread, as a network file system may take a while to answer. */
  async free(): Promise<FreeSpace> {
    return spaceOf(await statfs(this.directory), this.promised);
  }

  /** A reservation for one request or upload of an owner, with nothing reserved yet. */
  reservationFor(owner: Owner): Reservation {
    return new Reservation(this, owner);
  }
}

/**
 * The disk space of one request or upload. Space is reserved first, and checked again while bytes are written, because jobs write
 * to the same disk. A reservation removes no files, because stating a length costs nothing: others lose files only to bytes that
 * have actually arrived. Many simultaneous requests may each use up to `checkInterval` bytes of the reserve before they are
 * refused.
 */
export class Reservation implements Disposable {
  /** Bytes that are reserved, free and not written. */
  #left = 0;
  /** Bytes that are reserved, but must be freed by evictions before they are written. */
  #owed = 0;
  #unchecked = checkInterval;

  constructor(
    private readonly disk: DiskSpace,
    private readonly owner: Owner,
  ) {}

  /** A new, empty reservation for the same owner. */
  another(): Reservation {
    return new Reservation(this.disk, this.owner);
  }

  /** A new reservation that takes over everything from this one. */
  moved(): Reservation {
    const other = this.another();
    other.#left = this.#left;
    other.#owed = this.#owed;
    this.#left = 0;
    this.#owed = 0;
    return other;
  }

  /** Number of bytes that are reserved and not yet written. */
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
   * Makes sure that so many bytes can be written in addition to what others were promised. Evicts files if there is too little
   * space.
   * @throws ServiceError `diskFull` if part of the reserve is used and no space can be freed
   */
  async ensure(bytes: number, what: string): Promise<void> {
    for (;;) {
      const space = await this.disk.free();
      // This request may use what it has reserved itself.
      const missing = bytes - space.bytes - this.#left;
      if (missing <= 0 && space.files >= 0) return;
      if (!(await this.disk.evictions.makeRoom(Math.max(1, missing), this.owner))) throw noSpace(space, what);
    }
  }

  /**
   * Counts bytes that are about to be written. The first time, at regular intervals, and whenever space must be freed, waits
   * until they can be written.
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
