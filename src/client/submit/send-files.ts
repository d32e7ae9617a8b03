import { createHash } from 'node:crypto';
import { counted, formatBytes, quotePath } from '../../contract/index.js';
import { isSystemError, TimeSlice, Turns } from '../../files/index.js';
import type { Connection } from '../connection/index.js';
import type { Reporter } from '../reporter.js';
import { type Content, sendUpload } from './one-upload.js';
import { changed, contentOf, type FilePart, piecesOf, type SeenFiles, unreadable } from './segments.js';
import type { StagedFile } from './staging.js';

/** Uploads that run at the same time. More of them help only with many small files over a slow connection. */
const maxConcurrent = 4;

/** Maximum size of a file that is sent without first asking whether the server has it, in bytes. */
const maxUnasked = 1 << 20;

/** A file that was made and hashed, and is ready to be sent. */
interface HashedFile {
  readonly content: Content;
  readonly part: FilePart;
}

/** Sends the files of a submission, each as an upload. The next file is hashed while earlier ones are sent. */
export class FileSender {
  readonly #names = new Map<StagedFile, string>();
  /** Uploads by name. Identical content has the same name, so that it is sent only once. */
  readonly #sent = new Map<string, Promise<void>>();
  readonly #progress: Progress;

  constructor(
    private readonly connection: Connection,
    private readonly files: readonly StagedFile[],
    private readonly reporter: Reporter,
  ) {
    this.#progress = new Progress(files, reporter);
  }

  /** The name of the upload for a file that was sent. */
  uploadOf(file: StagedFile): string {
    const name = this.#names.get(file);
    if (name === undefined) throw new Error('A file that was not sent would be submitted');
    return name;
  }

  /**
   * Sends what the server does not have.
   * @param missing names of uploads that the server has lost since; only these are sent again
   * @throws what `sendUpload` throws; the reason of an interruption
   */
  async send(missing: readonly string[] = []): Promise<void> {
    for (const name of missing) this.#sent.delete(name);
    const files = this.files.filter((file) => missing.length === 0 || missing.includes(this.uploadOf(file)));
    const ended = new AbortController();
    const { signal: outer } = this.connection;
    const stop = () => ended.abort(outer?.reason);
    outer?.addEventListener('abort', stop, { once: true });
    if (outer?.aborted) stop();
    const patience = this.connection.patience(this.reporter);
    const turns = new Turns(maxConcurrent);
    const running: Promise<void>[] = [];
    try {
      for (const file of files) {
        const prepared = await this.#prepare(file, ended.signal);
        const release = await turns.take(ended.signal);
        const sending = this.#sendOnce(file, prepared, { signal: ended.signal, patience });
        running.push(sending.catch((error) => ended.abort(error)).finally(release));
      }
    } catch (error) {
      ended.abort(error);
    }
    await Promise.all(running);
    outer?.removeEventListener('abort', stop);
    ended.signal.throwIfAborted();
  }

  /** Creates and hashes a file. When it is sent later, it is checked against what was hashed here. */
  async #prepare(file: StagedFile, signal: AbortSignal): Promise<HashedFile> {
    try {
      const part = await file.make();
      const segments = contentOf(part);
      const seen: SeenFiles = new Map(part.state === undefined ? [] : [[part.path, part.state]]);
      const hash = createHash('sha256');
      const slice = new TimeSlice();
      let size = 0;
      for (const piece of piecesOf(segments, seen)) {
        signal.throwIfAborted();
        hash.update(piece);
        size += piece.length;
        this.#progress.hashed(file, size);
        await slice.pause();
      }
      if (size !== part.size) throw changed(file.path);
      const sha256 = hash.digest('hex');
      this.#names.set(file, sha256);
      this.#progress.sized(file, size);
      return { content: { sha256, size, source: file.path, segments, seen }, part };
    } catch (cause) {
      throw isSystemError(cause) ? unreadable(file.path, cause) : cause;
    }
  }

  async #sendOnce(
    file: StagedFile,
    { content, part }: HashedFile,
    how: Pick<Parameters<typeof sendUpload>[2], 'signal' | 'patience'>,
  ): Promise<void> {
    const { sha256, size } = content;
    const before = this.#sent.get(sha256);
    const sending =
      before ??
      sendUpload(this.connection, content, {
        ...how,
        asksFirst: size > maxUnasked,
        reporter: this.reporter,
        onOffset: (offset) => this.#progress.found(file, offset),
        onBytes: (bytes) => this.#progress.moved(file, bytes),
      });
    this.#sent.set(sha256, sending);
    await sending;
    if (before) this.#progress.found(file, size);
    await file.discard(part);
  }
}

/** Bytes of a file: all, those that are hashed, and those that the server has. */
type Bytes = Record<'size' | 'hashed' | 'there', number>;

/** Shows the progress of all files together, and reports what the server already had. */
class Progress {
  readonly #bytes: ReadonlyMap<StagedFile, Bytes>;
  /** Of all files. */
  readonly #sum: Bytes = { size: 0, hashed: 0, there: 0 };
  readonly #count: number;
  #isSending = false;
  readonly #found = new Set<StagedFile>();
  #whole = 0;
  #saved = 0;

  constructor(
    files: readonly StagedFile[],
    private readonly reporter: Reporter,
  ) {
    this.#count = files.length;
    this.#bytes = new Map(files.map((file) => [file, { size: 0, hashed: 0, there: 0 }]));
    for (const file of files) this.sized(file, file.size);
  }

  sized(file: StagedFile, size: number): void {
    this.#set(file, 'size', size);
  }

  hashed(file: StagedFile, bytes: number): void {
    this.#set(file, 'hashed', bytes);
    // Once anything is being sent, the bar shows the upload instead.
    if (!this.#isSending) this.reporter.progress('Hashing', this.#sum.hashed, this.#sum.size);
  }

  moved(file: StagedFile, there: number): void {
    this.#isSending = true;
    this.#set(file, 'there', there);
    this.reporter.progress('Uploading', this.#sum.there, this.#sum.size);
  }

  /** Records how much of a file the server has. Called again if another request has added to it. */
  found(file: StagedFile, there: number): void {
    const size = this.#bytes.get(file)?.size ?? 0;
    this.moved(file, there);
    if (there > 0 && there < size)
      this.reporter.note(
        `${quotePath(file.path)} continues after ${formatBytes(there)} of ${formatBytes(size)}`,
      );
    if (this.#found.has(file)) return;
    this.#found.add(file);
    this.#saved += there;
    if (there === size) this.#whole += 1;
    if (this.#found.size !== this.#count || this.#whole === 0) return;
    const files = `${this.#whole} of ${counted(this.#count, 'file')}`;
    const are = this.#whole === 1 ? 'is' : 'are';
    this.reporter.note(`${files} ${are} already on the server (${formatBytes(this.#saved)} not sent)`);
  }

  #set(file: StagedFile, what: keyof Bytes, count: number): void {
    const bytes = this.#bytes.get(file);
    if (!bytes) return;
    this.#sum[what] += count - bytes[what];
    bytes[what] = count;
  }
}
