import { createHash, type Hash } from 'node:crypto';
import { existsSync, renameSync, utimesSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Owner } from '../../access/index.js';
import { formatBytes, ServiceError } from '../../contract/index.js';
import { hashFile, syncDirectory } from '../../files/index.js';
import type { DiskSpace, Reservation } from './disk-space.js';
import { FileWriter } from './file-writer.js';
import type { Removals } from './removals.js';

const filePattern = /^([0-9a-f]{64})(?:\.(\d{1,15})\.part)?$/;

/** The information in the name of an upload's file. The file's size and times provide the rest. */
export interface FileName {
  readonly sha256: string;
  /** Size in bytes of the complete upload; null if the upload is already complete. */
  readonly length: number | null;
}

/** Parses a file name; null if it is not that of an upload. */
export function readFileName(name: string): FileName | null {
  const [, sha256, length] = filePattern.exec(name) ?? [];
  if (sha256 === undefined) return null;
  return { sha256, length: length === undefined ? null : Number(length) };
}

const completeFile = (directory: string, sha256: string): string => path.join(directory, sha256);

/** The file of an incomplete upload. */
export const partFile = (directory: string, sha256: string, length: number): string =>
  path.join(directory, `${sha256}.${length}.part`);

/** A checksum that a client sends with a body. */
export interface Checksum {
  readonly algorithm: string;
  readonly digest: Buffer;
}

/** The body of a request, while it is received for an upload. */
export interface ArrivingBody {
  readonly body: Readable;
  /** Resolves when the whole body has arrived. Rejects if the body breaks off, or if no byte arrives for too long. */
  readonly arrived: Promise<void>;
  /** Aborted when the sender may no longer send. */
  readonly refused: AbortSignal;
}

/** The exclusive right of one request to write an upload. */
export interface Turn extends Disposable {
  /** Aborted when another request is waiting for this one to end. */
  readonly awaited: AbortSignal;
}

/** What the uploads of all owners share. */
export interface Shared {
  /** Milliseconds that an upload is kept after its last use. */
  readonly keep: number;
  /** Milliseconds of the wall clock. */
  readonly now: () => number;
  readonly removals: Removals;
  /** Looks into a file whose bytes have all arrived. @throws ServiceError if the server does not take it */
  readonly inspect: (file: string) => Promise<void>;
  readonly announceComplete: (upload: Upload) => void;
}

/** What an upload needs from the collection that it belongs to. */
export interface UploadOwner {
  readonly name: Owner;
  readonly directory: string;
  readonly shared: Shared;
  /** Removes the upload, because its bytes are wrong or lost. */
  remove(upload: Upload): Promise<void>;
  /** Called when the upload was just used. */
  used(upload: Upload): void;
}

/** What an earlier server has left of an upload. */
export interface FoundUpload {
  readonly size: number;
  readonly isComplete: boolean;
  /** Milliseconds of the wall clock. */
  readonly usedAt: number;
}

/**
 * An upload of one owner: a file that grows. It is complete when all its bytes have arrived and have the hash that is its name.
 * Every offset that is reported to a client is already on disk.
 */
export class Upload {
  /** Number of bytes that have arrived and survive a power cut. */
  offset: number;
  /** Whether all bytes have arrived and were checked. */
  isComplete: boolean;
  /** Milliseconds of the wall clock. */
  lastUse: number;
  #writer: AbortController | null = null;
  #pins = 0;
  /** The hash of the first `#hashed` bytes. If these are not all bytes in the end, the whole file is read to hash it. */
  readonly #hash: Hash = createHash('sha256');
  #hashed = 0;
  /** Whether the file's name survives a power cut. */
  #isNamed: boolean;

  /**
   * @param found null for a new upload
   * @param space reserved for the missing bytes; null if none is reserved
   */
  constructor(
    readonly sha256: string,
    readonly length: number,
    private readonly owner: UploadOwner,
    found: FoundUpload | null,
    private space: Reservation | null = null,
  ) {
    this.offset = found?.size ?? 0;
    this.isComplete = found?.isComplete ?? false;
    this.#isNamed = found !== null;
    this.lastUse = found?.usedAt ?? owner.shared.now();
  }

  /** Whether a request is writing the upload or a submission needs it, so that it must not be removed. */
  get isInUse(): boolean {
    return this.#writer !== null || this.#pins > 0;
  }

  /** False if an admin has deleted the file, to free disk space. */
  get exists(): boolean {
    return this.isInUse || existsSync(this.file);
  }

  get file(): string {
    const { directory } = this.owner;
    if (this.isComplete) return completeFile(directory, this.sha256);
    return partFile(directory, this.sha256, this.length);
  }

  /** Records a use as the time of the file, which the next server reads. */
  use(): void {
    this.lastUse = this.owner.shared.now();
    utimesSync(this.file, this.lastUse / 1000, this.lastUse / 1000);
    this.owner.used(this);
  }

  /** Prevents removal until `unpin` has been called as many times. */
  pin(): void {
    this.#pins += 1;
  }

  unpin(): void {
    this.#pins -= 1;
  }

  /**
   * Reserves space for the missing bytes, unless that has already been done. The caller must have the turn. If an upload is not
   * continued for a while, its space is released.
   * @throws ServiceError `diskFull`
   */
  async reserve(disk: DiskSpace): Promise<Reservation> {
    const space = this.space ?? disk.reservationFor(this.owner.name);
    const missing = this.length - this.offset;
    await space.take(Math.max(0, missing - space.bytes), `an upload of ${formatBytes(missing)}`);
    this.space = space;
    return space;
  }

  /** Releases the reserved space. */
  release(): void {
    this.space?.[Symbol.dispose]();
    this.space = null;
  }

  /**
   * Gives one request the right to write. If another request has it, that one is from now on allowed only a short silence.
   * @throws ServiceError `uploadInUse`
   */
  takeTurn(): Turn {
    if (this.#writer) {
      this.#writer.abort();
      const detail = 'Another request is writing this upload; ask for its offset in a moment';
      throw new ServiceError('uploadInUse', detail);
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
   * Checks an upload whose bytes had all arrived when an earlier server ended.
   * @throws ServiceError `uploadInUse`, or `wrongContent`, after which the upload is removed
   */
  async checkContent(): Promise<void> {
    if (this.isComplete || this.offset < this.length) return;
    using _turn = this.takeTurn();
    // The earlier server may have been killed before it synced the last bytes.
    await using handle = await open(this.file, 'r+');
    await this.#keep(handle, this.length);
    await this.#finish();
  }

  /**
   * Appends a body, and checks the upload after its last byte. If the body breaks off, the bytes that arrived are kept. The
   * caller must have the turn.
   * @throws ServiceError `uploadTooLarge`, `wrongChecksum`, `wrongContent` or `notDeidentified`; what `arrived` rejects with;
   *   an `AbortError` if the sender is refused; the system's error
   */
  async append(
    { body, arrived, refused }: ArrivingBody,
    checksum: Checksum | null,
    space: Reservation,
  ): Promise<void> {
    // The promise may reject before it is awaited.
    arrived.catch(() => {});
    const { file, length } = this;
    const offset = this.offset;
    const sum = checksum && createHash(checksum.algorithm);
    await using handle = await open(file, 'r+');
    const writer = new FileWriter({
      ...{ handle, offset, space },
      maxLength: length,
      onWritten: (data) => {
        sum?.update(data);
        if (writer.offset - data.length === this.#hashed) {
          this.#hash.update(data);
          this.#hashed = writer.offset;
        }
      },
    });
    addAbortSignal(refused, writer);
    try {
      await Promise.all([finished(body.pipe(writer)), arrived]);
    } finally {
      body.unpipe(writer);
      await writer.flushed();
      await this.#keep(handle, writer.offset);
    }
    if (checksum && !sum?.digest().equals(checksum.digest)) {
      await this.#keep(handle, offset);
      const detail = 'The bytes that arrived do not match the checksum that came with them; send them again';
      throw new ServiceError('wrongChecksum', detail);
    }
    this.use();
    if (this.offset === length) await this.#finish();
  }

  /** Syncs the first bytes of the file, so that they survive a power cut, and removes the others. */
  async #keep(handle: FileHandle, bytes: number): Promise<void> {
    try {
      if ((await handle.stat()).size !== bytes) await handle.truncate(bytes);
      await handle.datasync();
      if (!this.#isNamed) await syncDirectory(this.owner.directory);
      this.#isNamed = true;
      this.offset = bytes;
      if (this.#hashed > bytes) this.#hashed = -1;
    } catch (cause) {
      // It is unknown which bytes the disk has.
      await this.owner.remove(this);
      throw cause;
    }
  }

  /** Checks the complete content. @throws ServiceError `wrongContent`, or what `inspect` throws; the upload is then removed */
  async #finish(): Promise<void> {
    const { file, length, sha256, owner } = this;
    const found = this.#hashed === length ? this.#hash.digest('hex') : (await hashFile(file)).sha256;
    // A hash can be digested only once.
    this.#hashed = -1;
    if (found !== sha256) {
      await owner.remove(this);
      throw new ServiceError(
        'wrongContent',
        `The ${length} bytes that arrived do not have the SHA-256 ${sha256}. They are removed; send the file again`,
      );
    }
    try {
      await owner.shared.inspect(file);
    } catch (cause) {
      await owner.remove(this);
      throw cause;
    }
    renameSync(file, completeFile(owner.directory, sha256));
    this.isComplete = true;
    this.release();
    await syncDirectory(owner.directory);
    owner.shared.announceComplete(this);
  }
}
