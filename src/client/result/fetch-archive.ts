import { existsSync, lstatSync } from 'node:fs';
import { type FileHandle, mkdir, mkdtemp, open, readdir, rename, rm, rmdir, statfs } from 'node:fs/promises';
import path from 'node:path';
import { ArchiveError, type Extracted, extractArchive } from '../../archive/index.js';
import { counted, formatBytes, maxEntries, oneLine, quoteName, quotePath } from '../../contract/index.js';
import { errorCode, makeDirectory, replaceFile, sharedMode } from '../../files/index.js';
import { AnswerError, type Connection } from '../connection/index.js';
import { NoRoom, writing } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { type DownloadRequest, download, fileSink, type Sink } from './download.js';
import { firstFree, foreseeOutput, type OutputDirectory, privatePrefix } from './output-directory.js';

export interface SavedArchive {
  /** Absolute path of the zip; null if it was left out. */
  readonly archive: string | null;
  /** Absolute path of the directory that it was extracted into. */
  readonly output: string;
  readonly files: number;
  /** Bytes of the extracted files. */
  readonly bytes: number;
  /** One sentence for each entry that was renamed or left out. */
  readonly notes: readonly string[];
}

interface ArchiveOptions {
  readonly reporter: Reporter;
  /** File name of the archive. */
  readonly name: string;
  /** Where the archive goes, and what is extracted from it. */
  readonly output: OutputDirectory;
  /** The command that fetches the archive again. */
  readonly again: string;
}

/** The first bytes of every zip archive, also of an empty one. */
const zipBeginnings = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0007\b'];

/** Free bytes on a disk. */
async function freeIn(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

/** Why an archive must not be extracted. */
const reasonOf = (cause: ArchiveError, free: number): string =>
  cause.fault === 'tooLarge'
    ? `it needs more than the ${formatBytes(free)} that are free there; free some space, then unzip it`
    : oneLine(cause.message);

/** What is open while an archive is downloaded. */
interface Opened {
  readonly own: PrivateDirectory;
  /** The expected place of the archive, for messages. */
  readonly target: string;
  readonly file: FileHandle;
  readonly sink: Sink;
}

/**
 * An archive on its way to its place, in a private directory. The directory is made with the first byte, so that a refusal makes
 * nothing. What is already in the place changes only when the archive is moved there.
 */
export class ArchiveFetch implements Sink, AsyncDisposable {
  #opened: Opened | undefined;
  #extracted: Extracted | undefined;

  constructor(private readonly options: ArchiveOptions) {}

  /** The directory with the extracted files. */
  get directory(): string {
    return this.#begun.own.files;
  }

  /**
   * Downloads the archive and extracts it. The reporter gets a note for each entry that could not keep its name. An archive that
   * cannot be extracted is still moved to its place.
   * @throws WriteError if something cannot be written; AnswerError for something other than a zip archive; ArchiveError for an
   * archive that must not be extracted
   */
  async fetch(connection: Connection, request: DownloadRequest): Promise<void> {
    const bytes = await download(connection, request, this, this.options.reporter);
    await this.#checkIsZip(bytes, connection.server);
    await this.#extract(connection.signal);
  }

  /** Refuses an archive for which the disk has not enough free space. */
  async seek(offset: number, total: number): Promise<boolean> {
    this.#opened ??= await this.#open();
    const { own, target, sink } = this.#opened;
    if (offset > 0) return sink.seek(offset, total);
    const free = await writing(target, this.#next, () => freeIn(own.directory));
    if (total > free)
      throw new NoRoom(
        `${quotePath(target)} will have ${formatBytes(total)}, and ${formatBytes(free)} are free there`,
        this.#next,
      );
    return sink.seek(0, total);
  }

  async write(chunk: Buffer): Promise<boolean> {
    return this.#begun.sink.write(chunk);
  }

  /** Checks that the download is a zip archive, and not, for example, a proxy's page. */
  async #checkIsZip(bytes: number | null, server: string): Promise<void> {
    if (!bytes) throw new AnswerError(server, 'sent an archive of 0 bytes');
    const { file } = this.#begun;
    const { buffer, bytesRead } = await file.read(Buffer.alloc(40), 0, 40, 0);
    const begin = buffer.toString('latin1', 0, bytesRead);
    if (zipBeginnings.some((each) => begin.startsWith(each))) return;
    throw new AnswerError(
      server,
      `sent something that is not a zip archive: it begins with ${quoteName(begin)}`,
    );
  }

  async #extract(signal: AbortSignal | undefined): Promise<void> {
    const { name, output, reporter, again } = this.options;
    const { own, target, file } = this.#begun;
    const place = path.dirname(target);
    const maxBytes = await writing(target, this.#next, () => freeIn(own.directory));
    // A network file system reports failed writes here.
    await writing(target, this.#next, () => file.close());
    const extract = () =>
      extractArchive(path.join(own.directory, name), own.files, {
        maxBytes,
        maxEntries,
        lenient: true,
        mode: sharedMode,
        reserved: [name],
        onProgress: (bytes, total) => reporter.progress('Extracting', bytes, total),
        ...(signal ? { signal } : {}),
      });
    try {
      this.#extracted = await writing(place, this.#next, extract);
    } catch (cause) {
      if (signal?.aborted) throw cause;
      const archive = output.isPrivate ? null : await this.#keepAlone();
      if (!(cause instanceof ArchiveError)) throw cause;
      if (archive === null && cause.fault === 'tooLarge')
        throw new NoRoom(
          `The result needs more than the ${formatBytes(maxBytes)} that are free in ${quotePath(place)}`,
          this.#next,
        );
      const why = reasonOf(cause, maxBytes);
      const what =
        archive === null
          ? `The result is not extracted: ${why}; '${again}' saves it as it is`
          : `${quotePath(archive)} is saved, but it is not extracted: ${why}`;
      throw new ArchiveError(cause.fault, what, { cause });
    }
    const { notes, unplaced } = this.#extracted;
    for (const note of notes) reporter.note(note);
    if (output.isPrivate && unplaced > 0)
      throw new ArchiveError(
        'unplaced',
        `The result is not whole: ${partly(unplaced)}; '${again}' saves it as it is`,
      );
  }

  /** Moves the archive and its files to their place. @throws ArchiveError where something else has places of its files */
  async place(): Promise<SavedArchive> {
    const { name, output } = this.options;
    const { files, bytes, notes, unplaced } = this.#extracted as Extracted;
    const placed = await this.#move();
    const archive = path.join(placed.output, name);
    const missing = unplaced + placed.unplaced;
    if (missing > 0)
      throw new ArchiveError(
        'unplaced',
        `${quotePath(archive)} is saved, but ${partly(missing)}; unzip it in another directory`,
      );
    if (output.withoutArchive) await writing(archive, this.#next, () => rm(archive));
    return { archive: output.withoutArchive ? null : archive, output: placed.output, files, bytes, notes };
  }

  /** Removes everything that was not moved to its place. Never throws, because an earlier error is more helpful. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened?.file.close().catch(() => {});
    await this.#opened?.own.remove();
  }

  /** What to do once something can be written. */
  get #next(): string {
    return `run '${this.options.again}'`;
  }

  get #begun(): Opened {
    if (this.#opened === undefined) throw new Error('The archive has no first byte yet');
    return this.#opened;
  }

  async #open(): Promise<Opened> {
    const { name, output } = this.options;
    const wanted = path.resolve(output.directory);
    // Refusing was possible only before the download; files that others have put there since are left alone.
    const taken = output.taken === 'refuse' ? 'number' : output.taken;
    const place = await writing(path.join(wanted, name), this.#next, async () =>
      foreseeOutput({ ...output, taken }),
    );
    const target = path.join(place, name);
    const own = await writing(target, this.#next, () => PrivateDirectory.make(place));
    try {
      const file = await writing(target, this.#next, () => open(path.join(own.directory, name), 'wx+'));
      return { own, target, file, sink: fileSink(file, target, this.#next) };
    } catch (cause) {
      await own.remove();
      throw cause;
    }
  }

  async #move(): Promise<Placed> {
    const { name, output } = this.options;
    const { own, target } = this.#begun;
    return writing(target, this.#next, async () => {
      await rename(path.join(own.directory, name), path.join(own.files, name));
      return own.place(output, name);
    });
  }

  /** Moves a complete archive that cannot be extracted to its place. @returns its path there */
  async #keepAlone(): Promise<string> {
    const { own } = this.#begun;
    await rm(own.files, { recursive: true });
    await mkdir(own.files);
    return path.join((await this.#move()).output, this.options.name);
  }
}

const partly = (missing: number): string =>
  `only a part of it is extracted: something else is in the place of ${counted(missing, 'file')}`;

/** Where files were moved to, and how many of them stay where they are, because something else has their places. */
interface Placed {
  readonly output: string;
  readonly unplaced: number;
}

/**
 * Moves everything in one directory into another.
 * @param mayReplace whether files that are there may be replaced
 * @returns the number of files whose place something else has; these stay where they are
 */
async function moveInto(from: string, to: string, mayReplace: boolean): Promise<number> {
  let unplaced = 0;
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    const there = lstatSync(target, { throwIfNoEntry: false });
    if (!there || (mayReplace && !entry.isDirectory() && !there.isDirectory())) {
      replaceFile(source, target);
    } else if (entry.isDirectory() && there.isDirectory()) {
      unplaced += await moveInto(source, target, mayReplace);
    } else if (entry.isDirectory()) {
      const inside = await readdir(source, { recursive: true, withFileTypes: true });
      unplaced += inside.filter((each) => !each.isDirectory()).length;
    } else {
      unplaced += 1;
    }
  }
  return unplaced;
}

/** Errors of a move onto a directory that exists. */
const existsAlready = new Set(['ENOTEMPTY', 'EEXIST', 'EPERM', 'EINVAL', 'EBUSY']);

/**
 * A private directory in which a result is completed before it is moved to its place. It is on the same file system as
 * that place: beside it, or inside it if it exists.
 */
export class PrivateDirectory {
  /** Holds the files that will be moved to the final place. */
  readonly files: string;

  private constructor(
    /** For files that are not moved. */
    readonly directory: string,
    /** Parents that were created for it, the innermost first. */
    private readonly made: readonly string[],
  ) {
    this.files = path.join(directory, 'files');
  }

  /** @param place where the files will probably go */
  static async make(place: string): Promise<PrivateDirectory> {
    const parent = existsSync(place) ? place : path.dirname(place);
    const made: string[] = [];
    for (let each = parent; !existsSync(each); each = path.dirname(each)) made.push(each);
    makeDirectory(parent);
    const own = new PrivateDirectory(await mkdtemp(path.join(parent, privatePrefix)), made);
    // A subdirectory gives the files the usual permissions, while the private directory keeps others out.
    await mkdir(own.files);
    return own;
  }

  /**
   * Moves the files to their place. If another command has used that in the meantime, a numbered directory beside it is
   * taken, so that two results are never mixed.
   * @param first the file that is moved first
   * @returns the directory, and the number of files that stay, because something else has their places
   */
  async place({ directory, taken }: OutputDirectory, first: string): Promise<Placed> {
    if (taken === 'replace') {
      const output = path.resolve(directory);
      makeDirectory(output);
      return { output, unplaced: await moveInto(this.files, output, true) };
    }
    for (let next = 1; ; ) {
      const { place, number } = firstFree(directory, next);
      const unplaced = await this.#take(place, first);
      if (unplaced !== null) return { output: place, unplaced };
      next = number + 1;
    }
  }

  /** @returns null if another command has filled this place in the meantime */
  async #take(place: string, first: string): Promise<number | null> {
    try {
      // Takes the place of an empty directory as well.
      await rename(this.files, place);
      return 0;
    } catch (cause) {
      if (!existsAlready.has(errorCode(cause)) || !existsSync(place)) throw cause;
    }
    try {
      // Only one of two commands can create this file.
      await (await open(path.join(place, first), 'wx')).close();
    } catch (cause) {
      if (errorCode(cause) === 'EEXIST') return null;
      throw cause;
    }
    replaceFile(path.join(this.files, first), path.join(place, first));
    return moveInto(this.files, place, false);
  }

  /** Removes the directory with all that is left in it, and the parents that were made for it if they are empty. Never throws. */
  async remove(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true }).catch(() => {});
    for (const each of this.made) await rmdir(each).catch(() => {});
  }
}
