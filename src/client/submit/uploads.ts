import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { counted, formatBytes, quotePath } from '../../contract/index.js';
import { isSystemError, TimeSlice, Turns } from '../../files/index.js';
import type { Connection, Patience } from '../connection/index.js';
import type { Reporter } from '../reporter.js';
import { contentOf, pieceSize, piecesOf, stateOf, unreadable } from './segments.js';
import type { StagedFile } from './staging.js';
import { type Content, type Contents, type Digest, upload } from './upload.js';

/** Most uploads at once: more helps only where many small files go far. */
const maxAtOnce = 4;

/** Bytes of the largest file that is sent without asking for it. */
const maxUnasked = 1 << 20;

/** A content whose name is known. */
interface Ready extends Content {
  /** Removes what was made of it. */
  readonly discard: () => Promise<void>;
}

/** Sends the files of a submission as uploads: the next one is hashed while those before it are sent. */
export class Uploads {
  readonly #names = new Map<StagedFile, string>();
  /** What is being sent, or was, by its name: a file that is there twice is sent once. */
  readonly #sent = new Map<string, Promise<void>>();
  readonly #progress: Progress;

  constructor(
    private readonly connection: Connection,
    private readonly files: readonly StagedFile[],
    /** Whether everything is sent, also what the server has already. */
    private readonly resends: boolean,
    private readonly reporter: Reporter,
  ) {
    this.#progress = new Progress(files, reporter);
  }

  /** The name of the upload of a file that was sent. */
  nameOf(file: StagedFile): string {
    const name = this.#names.get(file);
    if (name === undefined) throw new Error('A file that was not sent would be submitted');
    return name;
  }

  /**
   * Sends what the server does not have.
   * @param missing names of uploads that it has said it lacks: nothing else is sent
   * @throws what `upload` throws; the reason of an interruption
   */
  async send(missing: readonly string[] = []): Promise<void> {
    const lacks = new Set(missing);
    for (const name of lacks) this.#sent.delete(name);
    const files = this.files.filter((file) => lacks.size === 0 || lacks.has(this.nameOf(file)));
    const ended = new AbortController();
    const outer = this.connection.signal;
    const stop = () => ended.abort(outer?.reason);
    outer?.addEventListener('abort', stop, { once: true });
    if (outer?.aborted) stop();
    const how = { signal: ended.signal, patience: this.connection.patience(this.reporter) };
    const turns = new Turns(maxAtOnce);
    const running: Promise<void>[] = [];
    try {
      for (const file of files) {
        const content = await this.#ready(file, ended.signal);
        const release = await turns.take(ended.signal);
        running.push(
          this.#sendOnce(file, content, how)
            .catch((error) => ended.abort(error))
            .finally(release),
        );
      }
    } catch (error) {
      ended.abort(error);
    }
    await Promise.all(running);
    outer?.removeEventListener('abort', stop);
    ended.signal.throwIfAborted();
  }

  /** Makes a file, if it does not leave as it is, and hashes it: its digest is the name of its upload. */
  async #ready(file: StagedFile, signal: AbortSignal): Promise<Ready> {
    try {
      const part = await file.make();
      const contents: Contents = {
        segments: contentOf(part),
        seen: new Map([[part.path, part.state ?? stateOf(statSync(part.path))]]),
      };
      const digest = await hashContents(contents, signal, (hashed) => this.#progress.hashed(file, hashed));
      this.#names.set(file, digest.sha256);
      this.#progress.sized(file, digest.size);
      return { ...digest, ...contents, source: file.path, discard: () => file.discard(part) };
    } catch (cause) {
      throw isSystemError(cause) ? unreadable(file.path, cause) : cause;
    }
  }

  async #sendOnce(file: StagedFile, content: Ready, how: SendHow): Promise<void> {
    const before = this.#sent.get(content.sha256);
    const sending = before ?? this.#send(file, content, how);
    this.#sent.set(content.sha256, sending);
    await sending;
    if (before) this.#progress.asked(file, content.size);
    await content.discard();
  }

  async #send(file: StagedFile, content: Ready, how: SendHow): Promise<void> {
    await upload(this.connection, content, {
      ...how,
      // A small file is sent without asking for it.
      asks: content.size > maxUnasked,
      isAnew: this.resends,
      reporter: this.reporter,
      onAsked: (there) => this.#progress.asked(file, there),
      onBytes: (there) => this.#progress.moved(file, there),
    });
  }
}

interface SendHow {
  readonly signal: AbortSignal;
  readonly patience: Patience;
}

async function hashContents(
  { segments, seen }: Contents,
  signal: AbortSignal,
  onBytes: (hashed: number) => void,
): Promise<Digest> {
  const hash = createHash('sha256');
  const slice = new TimeSlice();
  let size = 0;
  for (const piece of piecesOf(segments, pieceSize, seen)) {
    signal.throwIfAborted();
    hash.update(piece);
    size += piece.length;
    onBytes(size);
    await slice.pause();
  }
  return { sha256: hash.digest('hex'), size };
}

/** A count for each file, and their sum. */
class Counts {
  readonly #counts = new Map<StagedFile, number>();
  sum = 0;

  set(file: StagedFile, count: number): void {
    this.sum += count - (this.#counts.get(file) ?? 0);
    this.#counts.set(file, count);
  }

  get(file: StagedFile): number {
    return this.#counts.get(file) ?? 0;
  }
}

/** Adds up what is there of all files, and tells what need not be sent. */
class Progress {
  readonly #sizes = new Counts();
  readonly #there = new Counts();
  readonly #hashed = new Counts();
  readonly #count: number;
  #isSending = false;
  readonly #asked = new Set<StagedFile>();
  #whole = 0;
  #saved = 0;

  constructor(
    files: readonly StagedFile[],
    private readonly reporter: Reporter,
  ) {
    this.#count = files.length;
    for (const file of files) this.#sizes.set(file, file.size);
  }

  sized(file: StagedFile, size: number): void {
    this.#sizes.set(file, size);
  }

  hashed(file: StagedFile, bytes: number): void {
    this.#hashed.set(file, bytes);
    // Once something is sent, that is what is shown.
    if (!this.#isSending) this.reporter.progress('Hashing', this.#hashed.sum, this.#sizes.sum);
  }

  moved(file: StagedFile, there: number): void {
    this.#isSending = true;
    this.#there.set(file, there);
    this.reporter.progress('Uploading', this.#there.sum, this.#sizes.sum);
  }

  /** It is known how much of a file the server had; again, if another request was writing it. */
  asked(file: StagedFile, there: number): void {
    const size = this.#sizes.get(file);
    this.moved(file, there);
    if (there > 0 && there < size)
      this.reporter.note(
        `${quotePath(file.path)} goes on after ${formatBytes(there)} of ${formatBytes(size)}`,
      );
    if (this.#asked.has(file)) return;
    this.#asked.add(file);
    this.#saved += there;
    if (there === size) this.#whole += 1;
    if (this.#asked.size !== this.#count || this.#whole === 0) return;
    const files = `${this.#whole} of ${counted(this.#count, 'file')}`;
    const are = this.#whole === 1 ? 'is' : 'are';
    this.reporter.note(`${files} ${are} there already (${formatBytes(this.#saved)} not sent)`);
  }
}
