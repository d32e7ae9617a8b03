import { statfs } from 'node:fs/promises';
import { formatBytes } from '../../contract/bytes.js';
import { ServiceError } from '../../contract/errors.js';

const mebibyte = 1 << 20;

/** Bytes that are written between two looks at the disk. All uploads together stay within the headroom by it. */
const lookEvery = mebibyte;
/** Bytes that even an empty file takes, as far as `lookEvery` is concerned: a block of the disk, and an inode. */
const leastFile = 4096;

/**
 * What uploads and the archives in them leave free, in bytes: it belongs to the jobs that run, to their logs, records
 * and results. 2 % of the disk, at least 64 MiB and at most 1 GiB; of a disk under 512 MiB an eighth.
 */
const headroomOf = (size: number): number =>
  Math.min(size / 8, Math.max(64 * mebibyte, Math.min(1024 * mebibyte, size / 50)));

/** The same in files, on a disk that can hold only so many. */
const headroomOfFiles = (files: number): number => Math.min(files / 8, 1000);

/** What uploads may still take of the disk that holds `directory`. */
export interface DiskRoom {
  /** Bytes that are free. */
  readonly free: number;
  /** Bytes that are free beside the headroom; below 0 where jobs have taken of it. */
  readonly bytes: number;
  /** The same in files; infinite on a disk that does not count them. */
  readonly files: number;
}

/** Looks at the disk. */
export async function diskRoom(directory: string): Promise<DiskRoom> {
  const { bavail, bsize, blocks, files, ffree } = await statfs(directory);
  const free = bavail * bsize;
  return {
    free,
    bytes: free - headroomOf(blocks * bsize),
    files: files === 0 ? Number.POSITIVE_INFINITY : ffree - headroomOfFiles(files),
  };
}

/** The error of an upload for which there is no room. */
export function noRoom({ free, bytes }: DiskRoom, what: string): ServiceError {
  const problem =
    bytes < 0
      ? `The server's disk has ${formatBytes(free)} free, which it keeps for the jobs that run: too little for ${what}`
      : `The server's disk has too little room for ${what}`;
  return new ServiceError('diskFull', `${problem}; try again later`);
}

/** Bytes that uploads may write before each looks again. Together they must fit beside the headroom. */
let promised = 0;

/**
 * Looks at the disk again and again while an upload is written. It does not add up what the upload has taken, for
 * other uploads and jobs write to the same disk. What a look allows to be written counts against the looks of others.
 */
export class DiskWatch implements Disposable {
  #sinceLook = lookEvery;
  #promise = 0;

  constructor(private readonly directory: string) {}

  /** Whether so much was written that the disk must be looked at before more is. */
  get isDue(): boolean {
    return this.#sinceLook >= lookEvery;
  }

  /** Notes that a file was begun. */
  countFile(): void {
    this.#sinceLook += leastFile;
  }

  count(bytes: number): void {
    this.#sinceLook += bytes;
  }

  /**
   * @param coming bytes that are written next
   * @throws ServiceError `diskFull` where only the headroom is left
   */
  async look(coming = 0): Promise<void> {
    this.#sinceLook = 0;
    this.#allow(Math.max(coming, lookEvery));
    const room = await diskRoom(this.directory);
    if (room.bytes < promised || room.files < 0) throw noRoom(room, 'this upload');
  }

  [Symbol.dispose](): void {
    this.#allow(0);
  }

  #allow(bytes: number): void {
    promised += bytes - this.#promise;
    this.#promise = bytes;
  }
}
