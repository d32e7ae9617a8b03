import { renameSync, utimesSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { ServiceError } from '../../contract/index.js';
import { syncDirectory } from '../../files/index.js';
import { Appender, type Writing } from './appender.js';
import type { FileHash, FileHashes } from './file-hashes.js';
import { partFile, wholeFile } from './names.js';

/** The one request that writes an upload. */
export interface Turn extends Disposable {
  /** Aborted when another request waits for its end. */
  readonly awaited: AbortSignal;
}

/** What an upload asks of the place that keeps it. */
export interface UploadPlace {
  readonly directory: string;
  readonly hashes: FileHashes;
  /** Milliseconds of the wall clock. */
  now(): number;
  /** Removes it: its bytes are wrong, or lost. */
  remove(upload: Upload): Promise<void>;
  /** It has become whole. */
  completed(upload: Upload): void;
  /** Its time has started anew. */
  used(upload: Upload): void;
}

/** What there is of an upload on the disk. */
export interface FoundUpload {
  readonly size: number;
  readonly isWhole: boolean;
  /** Milliseconds of the wall clock. */
  readonly usedAt: number;
}

/**
 * One upload of one owner: a file that grows, and becomes whole when all its bytes are there and are those that its name
 * stands for. The offset that it tells is on the disk.
 */
export class Upload {
  #offset: number;
  #isWhole: boolean;
  #lastUse: number;
  #writer: AbortController | null = null;
  #holds = 0;
  #hash: FileHash | null = null;
  /** Whether its name survives a power cut. */
  #isNamed: boolean;
  /** What it takes as an archive that was extracted without a fault: files and directories, bytes of the disk, bytes of content. */
  extracts: { readonly entries: number; readonly bytes: number; readonly content: number } | null = null;

  /** @param found null for a new one */
  constructor(
    readonly sha256: string,
    readonly length: number,
    private readonly place: UploadPlace,
    found: FoundUpload | null,
  ) {
    this.#offset = found?.size ?? 0;
    this.#isWhole = found?.isWhole ?? false;
    this.#isNamed = found !== null;
    this.#lastUse = found?.usedAt ?? place.now();
  }

  /** Bytes that are there, and survive a power cut. */
  get offset(): number {
    return this.#offset;
  }

  /** Whether all its bytes are there, and are the right ones. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Milliseconds of the wall clock. */
  get lastUse(): number {
    return this.#lastUse;
  }

  /** Whether a request writes it or a submission takes it, so that it must stay. */
  get isInUse(): boolean {
    return this.#writer !== null || this.#holds > 0;
  }

  get file(): string {
    const { directory } = this.place;
    if (this.#isWhole) return wholeFile(directory, this.sha256);
    return partFile(directory, this.sha256, this.length);
  }

  /** Starts its time anew. The time of the file tells it to the next server. */
  use(): void {
    this.#lastUse = this.place.now();
    utimesSync(this.file, this.#lastUse / 1000, this.#lastUse / 1000);
    this.place.used(this);
  }

  /** Keeps it from being removed, until what is returned is called. */
  hold(): () => void {
    this.#holds += 1;
    return () => {
      this.#holds -= 1;
    };
  }

  /**
   * Lets one request write. If another one does, that one may not be idle for long from now on.
   * @throws ServiceError `uploadInUse`
   */
  take(): Turn {
    if (this.#writer) {
      this.#writer.abort();
      throw new ServiceError(
        'uploadInUse',
        'Another request writes this upload; ask for its offset in a moment',
      );
    }
    const writer = new AbortController();
    this.#writer = writer;
    return {
      awaited: writer.signal,
      [Symbol.dispose]: () => {
        this.#writer = null;
      },
    };
  }

  /**
   * Checks an upload whose bytes all came before the server was ended.
   * @throws ServiceError `uploadInUse`, or `wrongContent`: then it is removed
   */
  async settle(): Promise<void> {
    if (this.#isWhole || this.#offset < this.length) return;
    using _turn = this.take();
    await this.#finish();
  }

  /**
   * Appends a body, and checks the upload after its last byte. Of a body that breaks off, what came is kept. For whoever
   * has taken the turn.
   * @param send writes the body; rejects if it breaks off
   * @throws ServiceError `uploadTooLarge`, `wrongChecksum` or `wrongContent`; what `send` rejects with; the system's error
   */
  async append(send: (sink: Writable) => Promise<void>, how: Writing): Promise<void> {
    const { file, length } = this;
    const offset = this.#offset;
    await using handle = await open(file, 'r+');
    const hash = this.#follow();
    const appender = new Appender({ file, handle, offset, length, grew: (size) => hash.grew(size) }, how);
    try {
      await send(appender);
    } finally {
      await appender.settled();
      await this.#keep(handle, appender.at, how);
    }
    if (!appender.isRight) {
      await this.#keep(handle, offset, how);
      this.forget();
      throw new ServiceError(
        'wrongChecksum',
        'What came does not have the checksum that came with it; send it again',
      );
    }
    this.use();
    if (this.#offset === length) await this.#finish();
  }

  /** Ends the hashing of its bytes: they are removed, or are all hashed. */
  forget(): void {
    this.#hash?.[Symbol.dispose]();
    this.#hash = null;
  }

  /** Its bytes are hashed as they come. After a restart they are read again from the start. */
  #follow(): FileHash {
    this.#hash ??= this.place.hashes.follow(this.file, this.length);
    return this.#hash;
  }

  /** Makes the first bytes of the file survive a power cut, and removes the others. */
  async #keep(handle: FileHandle, bytes: number, { behind }: Writing): Promise<void> {
    try {
      await behind.settled();
      if ((await handle.stat()).size !== bytes) await handle.truncate(bytes);
      await handle.datasync();
      if (!this.#isNamed) await syncDirectory(this.place.directory);
      this.#isNamed = true;
      this.#offset = bytes;
    } catch (cause) {
      // Nobody knows which bytes the disk has.
      await this.place.remove(this);
      throw cause;
    }
  }

  /** @throws ServiceError `wrongContent` */
  async #finish(): Promise<void> {
    const { file, length, sha256, place } = this;
    const found = await this.#follow().digest();
    this.forget();
    if (found !== sha256) {
      await place.remove(this);
      throw new ServiceError(
        'wrongContent',
        `The ${length} bytes that came are not those that ${sha256} stands for: they are removed; send the file again`,
      );
    }
    renameSync(file, wholeFile(place.directory, sha256));
    this.#isWhole = true;
    await syncDirectory(place.directory);
    place.completed(this);
  }
}
