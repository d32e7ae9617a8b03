import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { counted, errorKinds, formatBytes, quotePath } from '../../contract/index.js';
import { isSystemError, TimeSlice, Turns } from '../../files/index.js';
import type { Connection, Patience } from '../connection/index.js';
import type { Digest, Digests } from '../digests.js';
import { HttpError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import {
  changed,
  contentOf,
  type FilePart,
  pieceSize,
  piecesOf,
  type SeenFiles,
  stateOf,
  unreadable,
} from './segments.js';
import type { StagedFile } from './staging.js';
import { type Content, type Contents, upload } from './upload.js';

/** Most uploads at once: more helps only where many small files go far. */
const mostAtOnce = 4;

/** Bytes of the largest file that is sent without asking for it. */
const mostUnasked = 1 << 20;

/** Milliseconds for which a small file is taken to be on a server that it was sent to: it says so if it is not. */
const believed = 3_600_000;

/** What makes uploads find what was sent before. */
export interface UploadMemory {
  readonly digests: Digests;
  /** Whether everything is sent anew: what the server says that it has does not count. */
  readonly resends: boolean;
}

/** A content whose name is known. */
interface Ready extends Content {
  /** Whether its digest is one that was remembered. */
  readonly isRemembered: boolean;
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
    private readonly memory: UploadMemory,
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
   * @param missing names of uploads that it has said it lacks: nothing else is sent, and nothing is taken to be there
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
    const how = { signal: ended.signal, patience: this.connection.patience(this.reporter), lacks };
    const turns = new Turns(mostAtOnce);
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
    this.memory.digests.save();
    ended.signal.throwIfAborted();
  }

  /** Finds out the name of a file. Only what is not remembered is made and read. */
  async #ready(file: StagedFile, signal: AbortSignal, isFresh = false): Promise<Ready> {
    try {
      const ready =
        file.origin === null
          ? await this.#asItIs(file, signal, isFresh)
          : await this.#made(file, file.origin, signal, isFresh);
      this.#names.set(file, ready.sha256);
      this.#progress.sized(file, ready.size);
      return ready;
    } catch (cause) {
      throw isSystemError(cause) ? unreadable(file.path, cause) : cause;
    }
  }

  async #asItIs(file: StagedFile, signal: AbortSignal, isFresh: boolean): Promise<Ready> {
    const part = await file.make();
    const seen: SeenFiles = new Map([[part.path, stateOf(statSync(part.path))]]);
    const onBytes = (hashed: number) => this.#progress.hashed(file, hashed);
    const { isRemembered, ...digest } = await this.memory.digests.ofFile(part.path, {
      signal,
      isFresh,
      onBytes,
    });
    if (digest.size !== part.size) throw changed(part.path);
    const open = async () => ({ segments: contentOf(part), seen });
    return { ...digest, isRemembered, source: file.path, open, discard: async () => {} };
  }

  async #made(
    file: StagedFile,
    { how, files }: NonNullable<StagedFile['origin']>,
    signal: AbortSignal,
    isFresh: boolean,
  ): Promise<Ready> {
    const memory = this.memory.digests.made(how, files);
    const source = file.path;
    let part: FilePart | null = null;
    const made = async () => {
      part ??= await file.make();
      return part;
    };
    const open = async () => {
      const { size } = await made();
      if (size !== digest.size) throw changed(source);
      return contentsOf(await made());
    };
    const discard = async () => {
      if (part) await file.discard(part);
    };
    const known = isFresh ? null : memory.digest;
    const digest =
      known ??
      (await hashContents(contentsOf(await made()), signal, (hashed) => this.#progress.hashed(file, hashed)));
    if (!known) memory.remember(digest);
    return { ...digest, isRemembered: known !== null, source, open, discard };
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
    const { sha256, size } = content;
    const { digests, resends } = this.memory;
    const { server } = this.connection;
    const sentAt = digests.sentAt(server, sha256);
    const isSmall = size <= mostUnasked;
    if (isSmall && sentAt !== null && Date.now() - sentAt < believed && !how.lacks.has(sha256)) {
      this.#progress.asked(file, size);
      return;
    }
    try {
      await upload(this.connection, content, {
        ...how,
        asks: !isSmall,
        isAnew: resends && sentAt === null,
        reporter: this.reporter,
        onAsked: (there) => this.#progress.asked(file, there),
        onBytes: (there) => this.#progress.moved(file, there),
      });
      digests.noteSent(server, sha256);
    } catch (error) {
      // What was remembered of the file is not true any more.
      const isOther = error instanceof HttpError && error.status === errorKinds.wrongContent.status;
      if (!isOther || !content.isRemembered) throw error;
      const again = await this.#ready(file, how.signal, true);
      await this.#sendOnce(file, again, how);
    }
  }
}

interface SendHow {
  readonly signal: AbortSignal;
  readonly patience: Patience;
  readonly lacks: ReadonlySet<string>;
}

/** The bytes of a part, and what its file was like when its pieces were chosen. */
const contentsOf = (part: FilePart): Contents => ({
  segments: contentOf(part),
  seen: new Map(part.state === undefined ? [] : [[part.path, part.state]]),
});

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
