import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { formatBytes, ServiceError } from '../../contract/index.js';

const mebibyte = 1 << 20;

/** Bytes that an upload writes between two disk checks; small, so that all uploads together preserve the headroom. */
const lookEvery = mebibyte;
/** Bytes that an empty file counts as: it takes an inode and perhaps a block of the disk. */
const leastFile = 4096;
/** Most files that an upload may start before the second check from now is answered, however small they are. */
const filesAhead = (2 * lookEvery) / leastFile;

/**
 * Bytes that uploads and their extracted archives leave free for the logs, records and results of running jobs: 2 % of the
 * disk, at least 64 MiB and at most 1 GiB; an eighth of a disk under 512 MiB.
 */
const headroomOf = (size: number): number =>
  Math.min(size / 8, Math.max(64 * mebibyte, Math.min(1024 * mebibyte, size / 50)));

/** The same as a number of files, on a disk with a limited number of inodes. */
const headroomOfFiles = (files: number): number => Math.min(files / 8, 1000);

/** How much of the disk that holds `directory` uploads may still use. */
export interface DiskSpace {
  /** Bytes that are free. */
  readonly free: number;
  /** Free bytes without the headroom; negative if jobs have used some of the headroom. */
  readonly bytes: number;
  /** The same as a number of files; infinite on a disk without an inode limit. */
  readonly files: number;
}

function spaceOf({ bavail, bsize, blocks, files, ffree }: StatsFs): DiskSpace {
  const free = bavail * bsize;
  return {
    free,
    bytes: free - headroomOf(blocks * bsize),
    files: files === 0 ? Number.POSITIVE_INFINITY : ffree - headroomOfFiles(files),
  };
}

/** Asks the file system for its free space, as often as once a MiB: a network file system may take a while to answer. */
const askSpace = async (directory: string): Promise<DiskSpace> => spaceOf(await statfs(directory));

/**
 * The same for a single question of a request, because starting a thread takes longer than most file systems take to
 * answer.
 */
export const diskSpace = (directory: string): DiskSpace => spaceOf(statfsSync(directory));

/** The error of an upload that does not fit on the disk. */
export function noSpace({ free, bytes }: DiskSpace, what: string): ServiceError {
  const problem =
    bytes < 0
      ? `The server's disk has ${formatBytes(free)} free, which it keeps for the jobs that run: too little for ${what}`
      : `The server's disk has too little room for ${what}`;
  return new ServiceError('diskFull', `${problem}; try again later`);
}

/** Makes room on the disk. False if there is nothing to remove. */
export type MakeRoom = () => Promise<boolean>;

/** Tries a step, and repeats it as long as the disk lacks space for it and room can be made. */
export async function withSpace<T>(makeRoom: MakeRoom, attempt: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (cause) {
      const isFull = cause instanceof ServiceError && cause.code === 'diskFull';
      if (!isFull || !(await makeRoom())) throw cause;
    }
  }
}

/** What all uploads together may write and create before their next checks. It must fit without using the headroom. */
const promised = { bytes: 0, files: 0 };
/** Number of files created by uploads since the server started. */
let made = 0;

/**
 * @throws ServiceError `diskFull` if the promised bytes and files do not fit, in addition to files that the answer may
 *   not include yet
 */
function checkPromised(space: DiskSpace, madeMeanwhile: number, what: string): void {
  if (space.bytes < promised.bytes || space.files - madeMeanwhile < promised.files)
    throw noSpace(space, what);
}

/**
 * Checks the disk again and again while an upload is written, because other uploads and jobs write to it as well. The
 * upload continues during a check, but waits if it has written as much again before the answer arrives. The bytes written
 * and files created until then are subtracted from the results of other uploads' checks.
 */
export class DiskWatch implements Disposable {
  #sinceLook = 0;
  /** Bytes that have arrived, and files that were started or planned, of which the file system does not know yet. */
  #unwritten = 0;
  #unmade = 0;
  /** The part of `promised` that belongs to this upload. */
  readonly #promise = { bytes: 0, files: 0 };
  /** The check that is in progress or has failed. */
  #looking: Promise<void> | null = null;
  #isAnswered = false;
  #isOver = false;

  /**
   * @param onFailure called with the ServiceError `diskFull` if only the headroom is left
   * @param maxFiles that may be begun without a plan, if that is known
   * @param makeRoom called before that, as long as it frees some
   */
  constructor(
    private readonly directory: string,
    private readonly onFailure: (cause: unknown) => void,
    private readonly maxFiles = Number.POSITIVE_INFINITY,
    private readonly makeRoom: MakeRoom = () => Promise.resolve(false),
  ) {}

  /**
   * Whether nothing more may be written before `settled` resolves. Before the first answer nothing may be written at all,
   * because many uploads that start at once could use up the headroom together.
   */
  get isBehind(): boolean {
    return this.#looking !== null && (!this.#isAnswered || this.#sinceLook >= lookEvery);
  }

  /** Records that a file is started, which is created later. */
  expectFile(): void {
    this.#unmade += 1;
    this.count(leastFile);
  }

  /**
   * Reserves files that are all created next, and checks at once whether they fit.
   * @param what they are, for a sentence
   * @throws ServiceError `diskFull`
   */
  plan(files: number, what: string): void {
    this.#unmade += files;
    this.#promiseNext();
    try {
      checkPromised(diskSpace(this.directory), 0, what);
    } catch (cause) {
      this.#unmade -= files;
      this.#promiseNext();
      throw cause;
    }
  }

  /** Records that a planned file or directory was created. */
  madePlanned(): void {
    this.madeFile();
    this.count(leastFile);
  }

  /** Records that an expected file was created. */
  madeFile(): void {
    this.#unmade -= 1;
    made += 1;
    this.#allow(this.#promise.bytes, Math.max(0, this.#promise.files - 1));
  }

  /** Counts bytes, and starts a check when there are enough. */
  count(bytes: number): void {
    this.#sinceLook += bytes;
    if (this.#sinceLook >= lookEvery) this.look();
  }

  /** Counts bytes that are written later. */
  expect(bytes: number): void {
    this.#unwritten += bytes;
    this.count(bytes);
  }

  /** Records that expected bytes were written. */
  wrote(bytes: number): void {
    this.#unwritten -= bytes;
  }

  /** Starts a check, unless one is in progress. */
  look(): void {
    if (this.#looking || this.#isOver) return;
    this.#sinceLook = 0;
    this.#looking = this.#look();
    this.#looking.catch(this.onFailure);
  }

  /**
   * Resolves when no check is in progress.
   * @throws ServiceError `diskFull` if a check has failed
   */
  async settled(): Promise<void> {
    while (this.#looking) await this.#looking;
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#allow(0, 0);
  }

  async #look(): Promise<void> {
    this.#promiseNext();
    try {
      await withSpace(this.makeRoom, async () => {
        const madeBefore = made;
        const space = await askSpace(this.directory);
        checkPromised(space, made - madeBefore, 'this upload');
      });
    } catch (cause) {
      // Keeps only what has already arrived, so that some of many uploads that are checked at once still fit.
      if (!this.#isOver) this.#allow(this.#unwritten, this.#unmade);
      throw cause;
    }
    this.#isAnswered = true;
    this.#looking = null;
    this.count(0);
  }

  /** What is written and made before the next check is answered: what waits, and as much as is counted during two checks. */
  #promiseNext(): void {
    this.#allow(this.#unwritten + 2 * lookEvery, this.#unmade + Math.min(filesAhead, this.maxFiles));
  }

  #allow(bytes: number, files: number): void {
    promised.bytes += bytes - this.#promise.bytes;
    promised.files += files - this.#promise.files;
    this.#promise.bytes = bytes;
    this.#promise.files = files;
  }
}
