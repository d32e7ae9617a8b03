import { closeSync, lstatSync, mkdirSync, openSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Owner } from '../../access/index.js';
import { FieldError, ServiceError, tus } from '../../contract/index.js';
import { isRealDirectory, syncDirectorySync } from '../../files/index.js';
import type { Reservation } from './disk-space.js';
import { partFile, readFileName, type Shared, Upload, type UploadOwner } from './upload.js';

/** Maximum number of uploads per owner: each takes a few hundred bytes of memory, and time when the server starts. */
const maxUploads = 100_000;
/** Milliseconds after its last use during which an upload is not evicted, because a submission may be about to name it. */
const minIdle = 10 * 60_000;

/** The uploads of one owner, in their own directory. Other owners' uploads are never accessed here. */
export class OwnedUploads implements UploadOwner {
  /** Least recently used first. */
  readonly #uploads = new Map<string, Upload>();
  /** Total size in bytes of all uploads when they are complete. */
  bytes = 0;
  /** Whether the directory exists and its name survives a power cut. */
  #isNamed = false;

  constructor(
    readonly name: Owner,
    readonly directory: string,
    readonly shared: Shared,
  ) {}

  /**
   * Finds the uploads that an earlier server left. Removes those that have expired or are damaged. Of two with the same name, the
   * complete one remains or, if neither is complete, the one that was used last.
   * @returns names of entries that are not uploads
   */
  load(): string[] {
    if (!isRealDirectory(this.directory)) return [];
    const foreign: string[] = [];
    const found: Upload[] = [];
    for (const entry of readdirSync(this.directory)) {
      const name = readFileName(entry);
      const stats = lstatSync(path.join(this.directory, entry));
      if (!name || !stats.isFile()) {
        foreign.push(entry);
        continue;
      }
      const { sha256, length } = name;
      const usedAt = Math.min(stats.mtimeMs, this.shared.now());
      const left = { size: stats.size, isComplete: length === null, usedAt };
      found.push(new Upload(sha256, length ?? stats.size, this, left));
    }
    for (const upload of found.sort((a, b) => a.lastUse - b.lastUse)) {
      const other = this.#uploads.get(upload.sha256);
      if (upload.offset > upload.length || other?.isComplete || this.#isExpired(upload)) {
        void this.remove(upload);
        continue;
      }
      if (other) void this.remove(other);
      this.#add(upload);
    }
    return foreign;
  }

  used(upload: Upload): void {
    if (this.#uploads.get(upload.sha256) !== upload) return;
    this.#uploads.delete(upload.sha256);
    this.#uploads.set(upload.sha256, upload);
  }

  get count(): number {
    return this.#uploads.size;
  }

  /** Finds an upload by name. @throws ServiceError `unknownUpload` */
  find(sha256: string): Upload {
    const upload = this.#existing(sha256);
    if (upload && !this.#isExpired(upload)) return upload;
    throw new ServiceError('unknownUpload', 'You have no upload with this name; begin it');
  }

  /**
   * Finds an upload by name, and checks its content first if all its bytes have arrived.
   * @throws ServiceError `unknownUpload`, or `uploadInUse` while it is being checked
   */
  async findChecked(sha256: string): Promise<Upload> {
    const upload = this.find(sha256);
    try {
      await upload.checkContent();
    } catch (cause) {
      if (!(cause instanceof ServiceError && cause.code === 'wrongContent')) throw cause;
    }
    return this.find(sha256);
  }

  /** When an upload expires if it is not used again. */
  expiry({ lastUse }: Upload): Date {
    return new Date(lastUse + this.shared.keep);
  }

  /**
   * An existing upload of this name. Removes one that has expired, or is incomplete and has another length.
   * @returns null if there is none
   * @throws FieldError for another length than that of a complete upload; ServiceError `uploadInUse`
   */
  begun(sha256: string, length: number): Upload | null {
    const upload = this.#existing(sha256);
    if (!upload) return null;
    const isExpired = this.#isExpired(upload);
    if (upload.length === length && !isExpired) return upload;
    if (upload.isComplete && !isExpired) {
      const problem = `is ${length}, but the upload of this name has ${upload.length} bytes`;
      throw new FieldError(tus.headers.length, problem);
    }
    if (upload.isInUse) upload.takeTurn();
    void this.remove(upload);
    return null;
  }

  /**
   * Begins an upload of a name that none has.
   * @param space what is reserved for it; the upload takes it over
   */
  begin(sha256: string, length: number, space: Reservation): Upload {
    for (const upload of this.#unusedFor(0)) {
      if (this.#uploads.size < maxUploads) break;
      void this.remove(upload);
    }
    const made = mkdirSync(this.directory, { recursive: true, mode: 0o700 });
    if (made !== undefined || !this.#isNamed) syncDirectorySync(path.dirname(this.directory));
    this.#isNamed = true;
    closeSync(openSync(partFile(this.directory, sha256, length), 'wx', 0o600));
    const upload = new Upload(sha256, length, this, null, space.moved());
    this.#add(upload);
    return upload;
  }

  /**
   * Evicts uploads that were not used for a while until a new one fits.
   * @param length bytes of the new one
   * @param max bytes that all may have
   * @returns whether it fits now
   */
  makeRoom(length: number, max: number): boolean {
    this.trim(max - length, minIdle);
    return this.bytes + length <= max;
  }

  /** Removes an upload at once. Resolves when its disk space is free. Never rejects. */
  async remove(upload: Upload): Promise<void> {
    upload.release();
    if (this.#uploads.get(upload.sha256) === upload) {
      this.#uploads.delete(upload.sha256);
      this.bytes -= upload.length;
    }
    await this.shared.removals.remove(upload.file);
  }

  /** Uploads that may be evicted if disk space is short, least recently used first. */
  evictable(): Upload[] {
    return [...this.#unusedFor(minIdle)];
  }

  /** Evicts the least recently used uploads until all together have at most this many bytes. Uploads in use stay. */
  trim(maxBytes: number, idle = 0): void {
    for (const upload of this.#unusedFor(idle)) {
      if (this.bytes <= maxBytes) return;
      void this.remove(upload);
    }
  }

  /** Removes expired uploads, and releases the space reserved for idle ones. */
  sweep(): void {
    for (const upload of this.#unusedFor(this.shared.keep)) void this.remove(upload);
    for (const upload of this.#unusedFor(minIdle)) upload.release();
  }

  /** Releases all reserved space, because the uploads are about to be removed. */
  release(): void {
    for (const upload of this.#uploads.values()) upload.release();
  }

  /** Yields uploads that are not in use and were not used for this many milliseconds, least recently used first. */
  *#unusedFor(time: number): Generator<Upload> {
    for (const upload of this.#uploads.values()) {
      if (upload.lastUse + time > this.shared.now()) return;
      if (!upload.isInUse) yield upload;
    }
  }

  #existing(sha256: string): Upload | undefined {
    const upload = this.#uploads.get(sha256);
    if (!upload || upload.exists) return upload;
    void this.remove(upload);
    return undefined;
  }

  #isExpired({ lastUse, isInUse }: Upload): boolean {
    return !isInUse && lastUse + this.shared.keep <= this.shared.now();
  }

  #add(upload: Upload): void {
    this.#uploads.set(upload.sha256, upload);
    this.bytes += upload.length;
  }
}
