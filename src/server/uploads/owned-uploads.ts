import { existsSync, lstatSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Owner } from '../../access/index.js';
import { FieldError, ServiceError, tus, UploadsMissing } from '../../contract/index.js';
import { isRealDirectory, syncDirectorySync } from '../../files/index.js';
import type { FileHashes } from './file-hashes.js';
import { makeFile, partFile, readFileName } from './names.js';
import type { Removals } from './removals.js';
import { Upload, type UploadPlace } from './upload.js';

/** Most uploads of one owner: each takes a few hundred bytes of memory, and time at a start. */
const mostUploads = 100_000;
/** Milliseconds after its last use in which an upload is not removed for the sake of others: a submission may be about to name it. */
const recent = 10 * 60_000;

/** What the uploads of all owners share. */
export interface Shared {
  /** Milliseconds that an upload is kept after its last use. */
  readonly keep: number;
  readonly now: () => number;
  readonly removals: Removals;
  readonly hashes: FileHashes;
  readonly completed: (upload: Upload) => void;
}

/** The uploads of one owner, in a directory that has nothing else. Nothing here looks at those of others. */
export class OwnedUploads implements UploadPlace {
  /** Least recently used first. */
  readonly #uploads = new Map<string, Upload>();
  #bytes = 0;
  /** Whether the directory is there and its name survives a power cut. */
  #isNamed = false;

  constructor(
    readonly owner: Owner,
    readonly directory: string,
    private readonly shared: Shared,
  ) {}

  /**
   * Finds what an earlier server has left. Removes what has expired, what is torn, and the lesser of two with one name.
   * @returns names of entries that are not of uploads
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
      const usedAt = Math.min(stats.mtimeMs, this.now());
      const left = { size: stats.size, isWhole: length === null, usedAt };
      found.push(new Upload(sha256, length ?? stats.size, this, left));
    }
    for (const upload of found.sort((a, b) => a.lastUse - b.lastUse)) {
      const other = this.#uploads.get(upload.sha256);
      if (upload.offset > upload.length || other?.isWhole || this.#isExpired(upload)) {
        void this.remove(upload);
        continue;
      }
      if (other) void this.remove(other);
      this.#add(upload);
    }
    return foreign;
  }

  get hashes(): FileHashes {
    return this.shared.hashes;
  }

  now(): number {
    return this.shared.now();
  }

  completed(upload: Upload): void {
    this.shared.completed(upload);
  }

  used(upload: Upload): void {
    if (this.#uploads.get(upload.sha256) !== upload) return;
    this.#uploads.delete(upload.sha256);
    this.#uploads.set(upload.sha256, upload);
  }

  get count(): number {
    return this.#uploads.size;
  }

  /** Bytes that all of them keep; of one that has not come, what it is going to have. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @throws ServiceError `unknownUpload` */
  find(sha256: string): Upload {
    const upload = this.#there(sha256);
    if (upload && !this.#isExpired(upload)) return upload;
    throw new ServiceError('unknownUpload', 'No upload of yours has this name; begin it');
  }

  /**
   * The same, once it is known whether it is whole.
   * @throws ServiceError `unknownUpload`, or `uploadInUse` while it is checked
   */
  async look(sha256: string): Promise<Upload> {
    const upload = this.find(sha256);
    try {
      await upload.settle();
    } catch (cause) {
      if (!(cause instanceof ServiceError && cause.code === 'wrongContent')) throw cause;
    }
    return this.find(sha256);
  }

  /** When an upload is removed, if nobody uses it. */
  expiry({ lastUse }: Upload): Date {
    return new Date(lastUse + this.shared.keep);
  }

  /**
   * The upload of this name, which is begun if it is not there.
   * @param checkRoom throws if there is no room for a new one
   * @throws FieldError for another length than that of the whole upload; ServiceError `uploadInUse`
   */
  async begin(
    { sha256, length }: { readonly sha256: string; readonly length: number },
    checkRoom: () => Promise<void>,
  ): Promise<Upload> {
    const begun = this.#goOn(sha256, length);
    if (begun) return begun;
    await checkRoom();
    if (this.#uploads.size >= mostUploads) void this.dropOldest(0);
    // Another request may have begun it meanwhile.
    return this.#goOn(sha256, length) ?? this.#make(sha256, length);
  }

  /** One whose file is still there: an admin may have removed it to free the disk. */
  #there(sha256: string): Upload | undefined {
    const upload = this.#uploads.get(sha256);
    if (!upload || upload.isInUse || existsSync(upload.file)) return upload;
    void this.remove(upload);
    return undefined;
  }

  /** One that has begun, with this length. Removes one of another length, or that has expired. @throws as `begin` */
  #goOn(sha256: string, length: number): Upload | null {
    const begun = this.#there(sha256);
    if (!begun) return null;
    const isExpired = this.#isExpired(begun);
    if (begun.length === length && !isExpired) return begun;
    if (begun.isWhole && !isExpired) {
      const problem = `is ${length}, and what has this name has ${begun.length} bytes`;
      throw new FieldError(tus.headers.length, problem);
    }
    if (begun.isInUse) begun.take();
    void this.remove(begun);
    return null;
  }

  /**
   * Lets uploads that are not recent make room for a new one.
   * @param room bytes that all may keep
   * @returns whether there is room now
   */
  makeRoom(length: number, room: number): boolean {
    this.trim(room - length, recent);
    return this.bytes + length <= room;
  }

  /** What one submission takes of them. */
  hold(): HeldUploads {
    return new HeldUploads(this);
  }

  /** Removes an upload at once; its bytes are gone when this resolves. Never rejects. */
  async remove(upload: Upload): Promise<void> {
    if (this.#uploads.get(upload.sha256) === upload) {
      this.#uploads.delete(upload.sha256);
      this.#bytes -= upload.length;
    }
    upload.forget();
    await this.shared.removals.remove(upload.file);
  }

  /**
   * Removes the upload whose last use is the longest ago, of those that nobody uses.
   * @param spared milliseconds after its last use in which one stays
   * @returns false if there is none
   */
  async dropOldest(spared = recent): Promise<boolean> {
    const oldest = this.oldest(spared);
    if (oldest) await this.remove(oldest);
    return oldest !== null;
  }

  oldest(spared = recent): Upload | null {
    for (const upload of this.#unusedFor(spared)) return upload;
    return null;
  }

  /** Removes the oldest until they keep at most so many bytes, as far as nobody uses them. */
  trim(most: number, spared = 0): void {
    for (const upload of this.#unusedFor(spared)) {
      if (this.#bytes <= most) return;
      void this.remove(upload);
    }
  }

  removeExpired(): void {
    for (const upload of this.#unusedFor(this.shared.keep)) void this.remove(upload);
  }

  /** Uploads that nobody uses, and whose last use is so many milliseconds ago, oldest first. Looks at no others. */
  *#unusedFor(time: number): Generator<Upload> {
    for (const upload of this.#uploads.values()) {
      if (upload.lastUse + time > this.now()) return;
      if (!upload.isInUse) yield upload;
    }
  }

  #isExpired({ lastUse, isInUse }: Upload): boolean {
    return !isInUse && lastUse + this.shared.keep <= this.now();
  }

  #make(sha256: string, length: number): Upload {
    const made = mkdirSync(this.directory, { recursive: true, mode: 0o700 });
    if (made !== undefined || !this.#isNamed) syncDirectorySync(path.dirname(this.directory));
    this.#isNamed = true;
    makeFile(partFile(this.directory, sha256, length));
    const upload = new Upload(sha256, length, this, null);
    this.#add(upload);
    return upload;
  }

  #add(upload: Upload): void {
    this.#uploads.set(upload.sha256, upload);
    this.#bytes += upload.length;
  }
}

/** Whole uploads that one submission takes, which nobody removes until then. */
export class HeldUploads implements Disposable {
  readonly #releases: (() => void)[] = [];

  constructor(private readonly owned: OwnedUploads) {}

  /**
   * Takes the uploads of these names, each once.
   * @throws UploadsMissing with those that are not there, or not whole
   */
  async takeAll(names: readonly string[]): Promise<ReadonlyMap<string, Upload>> {
    const taken = new Map<string, Upload>();
    const missing: string[] = [];
    for (const sha256 of new Set(names)) {
      const upload = await this.owned.look(sha256).catch(() => null);
      if (!upload?.isWhole) {
        missing.push(sha256);
        continue;
      }
      taken.set(sha256, upload);
      this.#releases.push(upload.hold());
      upload.use();
    }
    if (missing.length > 0) throw new UploadsMissing(missing);
    return taken;
  }

  [Symbol.dispose](): void {
    for (const release of this.#releases.splice(0)) release();
  }
}
