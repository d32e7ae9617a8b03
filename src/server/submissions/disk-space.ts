import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { formatBytes, ServiceError } from '../../contract/index.js';
import { isDiskFull, isOutOfInodes } from '../../files/index.js';

const mebibyte = 1 << 20;

/** Bytes that uploads leave free for the logs, records and results of running jobs. */
const reserve = 256 * mebibyte;
/** Files that they leave free on a disk with a limited number of inodes. */
const reservedFiles = 1000;
/** Most of a small disk that is reserved. */
const mostReserved = 1 / 8;

/** Bytes that an upload writes between two checks of the disk. */
const checkEvery = 2 * mebibyte;
/** Bytes that an empty file counts as: it takes an inode and perhaps a block of the disk. */
const leastFile = 4096;

/** How much of a disk uploads may still use. */
export interface DiskSpace {
  /** Bytes that are free. */
  readonly free: number;
  /** Free bytes without the reserve; negative if some of the reserve is used. */
  readonly bytes: number;
  /** The same as a number of files; infinite on a disk without a limit of inodes. */
  readonly files: number;
}

function spaceOf({ bavail, bsize, blocks, files, ffree }: StatsFs): DiskSpace {
  const free = bavail * bsize;
  return {
    free,
    bytes: free - Math.min(reserve, blocks * bsize * mostReserved),
    files: files === 0 ? Number.POSITIVE_INFINITY : ffree - Math.min(reservedFiles, files * mostReserved),
  };
}

/** Blocks for a moment: starting a thread takes longer than most file systems take to answer. */
export const diskSpace = (directory: string): DiskSpace => spaceOf(statfsSync(directory));

/** The error of an upload of more files than the disk has inodes for, although it has the space. */
export const noInodes = (what: string): ServiceError =>
  new ServiceError(
    'diskFull',
    `The server's disk has too few inodes (files) left for ${what}; try again later, or ask its admin to remove files there`,
  );

/** The error of an upload that does not fit on the disk. */
export function noSpace({ free, bytes, files }: DiskSpace, what: string): ServiceError {
  if (bytes >= 0 && files < 0) return noInodes(what);
  const problem =
    bytes < 0
      ? `The server's disk has ${formatBytes(free)} free, which it keeps for the jobs that run: too little for ${what}`
      : `The server's disk has too little room for ${what}`;
  return new ServiceError('diskFull', `${problem}; try again later`);
}

/** The error of an upload that failed, asked before its files are removed: then there are inodes again. */
export const uploadFault = (cause: unknown): unknown =>
  isOutOfInodes(cause) ? noInodes('this upload') : cause;

/** Makes room on the disk. False if there is nothing to remove. */
export type MakeRoom = () => Promise<boolean>;

/** Tries a step, and repeats it as long as the disk lacks space for it and room can be made. */
export async function withSpace<T>(makeRoom: MakeRoom, attempt: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (cause) {
      const isFull = isDiskFull(cause) || (cause instanceof ServiceError && cause.code === 'diskFull');
      if (!isFull || !(await makeRoom())) throw cause;
    }
  }
}

/**
 * Checks the disk again and again while an upload is written, because other uploads and jobs write to it as well. Many
 * uploads at once may together use up to `checkEvery` each of the reserve before they are refused.
 */
export class DiskWatch {
  #unchecked = 0;

  constructor(
    private readonly directory: string,
    private readonly makeRoom: MakeRoom,
  ) {}

  /** Counts a file that was written in one step. */
  wroteFile(bytes: number): void {
    this.#unchecked += Math.max(bytes, leastFile);
  }

  /**
   * Counts bytes that were written, and checks the disk if it is time to.
   * @throws ServiceError `diskFull` if some of the reserve is used, and no room can be made
   */
  async wrote(bytes: number): Promise<void> {
    this.#unchecked += bytes;
    if (this.isDue) await this.check();
  }

  /** Whether the disk is to be checked before more is written. */
  get isDue(): boolean {
    return this.#unchecked >= checkEvery;
  }

  /** @throws ServiceError `diskFull` */
  async check(): Promise<void> {
    this.#unchecked = 0;
    await withSpace(this.makeRoom, async () => {
      // In a thread, as a network file system may take a while to answer.
      const space = spaceOf(await statfs(this.directory));
      if (space.bytes < 0 || space.files < 0) throw noSpace(space, 'this upload');
    });
  }
}
