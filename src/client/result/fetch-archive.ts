import { existsSync, lstatSync } from 'node:fs';
import { type FileHandle, mkdir, mkdtemp, open, readdir, rm, rmdir, statfs } from 'node:fs/promises';
import path from 'node:path';
import { ArchiveError, type Extracted, extractArchive } from '../../archive/index.js';
import { counted, formatBytes, maxEntries, oneLine, quoteName, quotePath } from '../../contract/index.js';
import { errorCode, makeDirectory, replaceFile, sharedMode } from '../../files/index.js';
import { AnswerError, type Connection, type Reply } from '../connection/index.js';
import { NoRoom, withWriteErrors } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { type DownloadRequest, download, fileSink } from './download.js';
import {
  firstFree,
  foreseeOutput,
  type OutputDirectory,
  type OwnedDirectory,
  privatePrefix,
} from './output-directory.js';

export interface SavedArchive {
  /** Absolute path of the zip; null if it was not kept. */
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
  readonly output: OutputDirectory | OwnedDirectory;
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

/** Checks that the download is a zip archive, and not, for example, a proxy's page. */
async function checkIsZip(file: FileHandle, bytes: number | null, server: string): Promise<void> {
  if (!bytes) throw new AnswerError(server, 'sent an archive of 0 bytes');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(40), 0, 40, 0);
  const begin = buffer.toString('latin1', 0, bytesRead);
  if (zipBeginnings.some((each) => begin.startsWith(each))) return;
  throw new AnswerError(
    server,
    `sent something that is not a zip archive: it begins with ${quoteName(begin)}`,
  );
}

/**
 * An archive on its way to its place, in a private directory. The contents of the place change only when the archive is moved
 * there.
 */
export class ArchiveFetch implements AsyncDisposable {
  #extracted: Extracted | undefined;

  private constructor(
    private readonly options: ArchiveOptions,
    private readonly own: PrivateDirectory,
    /** The expected place of the archive, for messages. */
    private readonly target: string,
  ) {}

  /** Creates the private directory. Call this after the server has answered, so that a refusal leaves nothing behind. */
  static async open(options: ArchiveOptions): Promise<ArchiveFetch> {
    const { name, output } = options;
    const isOwned = 'owned' in output;
    const wanted = isOwned ? output.place : path.join(path.resolve(output.directory), name);
    return withWriteErrors(wanted, nextOf(options), async () => {
      if (isOwned) return new ArchiveFetch(options, await PrivateDirectory.of(output.owned), wanted);
      // Refusing was possible only before the download; files that others have put there since are left alone.
      const taken = output.taken === 'refuse' ? 'number' : output.taken;
      const place = foreseeOutput({ ...output, taken });
      return new ArchiveFetch(options, await PrivateDirectory.make(place), path.join(place, name));
    });
  }

  /**
   * Downloads the archive and extracts it. The reporter gets a note for each entry that could not keep its name. An archive that
   * cannot be extracted is still moved to its place, if it has one.
   * @returns the directory with the extracted files
   * @throws WriteError if something cannot be written; AnswerError for something other than a zip archive; ArchiveError for an
   * archive that must not be extracted
   */
  async downloadAndExtract(connection: Connection, answer: Reply, request: DownloadRequest): Promise<string> {
    const { target } = this;
    const next = this.#next;
    await using file = await withWriteErrors(target, next, () => open(this.#downloaded, 'wx+'));
    const sink = fileSink(file, target, next, (bytes) => this.#checkRoom(bytes));
    const bytes = await download(connection, answer, request, sink, this.options.reporter);
    await checkIsZip(file, bytes, connection.server);
    // A network file system reports failed writes here.
    await withWriteErrors(target, next, () => file.close());
    await this.#extract(connection.signal);
    return this.own.files;
  }

  /** Refuses an archive for which the disk has not enough free space. */
  async #checkRoom(bytes: number): Promise<void> {
    const free = await freeIn(this.own.directory);
    if (bytes <= free) return;
    const what = `${quotePath(this.target)} would take ${formatBytes(bytes)}, and ${formatBytes(free)} are free there`;
    throw new NoRoom(what, this.#next);
  }

  async #extract(signal: AbortSignal | undefined): Promise<void> {
    const { name, output, reporter, again } = this.options;
    const { own, target } = this;
    const isOwned = 'owned' in output;
    const place = isOwned ? target : path.dirname(target);
    const maxBytes = await withWriteErrors(target, this.#next, () => freeIn(own.directory));
    const extract = () =>
      extractArchive(this.#downloaded, own.files, {
        maxBytes,
        maxEntries,
        lenient: true,
        mode: sharedMode,
        reserved: [name],
        onProgress: (bytes, total) => reporter.progress('Extracting', bytes, total),
        ...(signal ? { signal } : {}),
      });
    try {
      this.#extracted = await withWriteErrors(place, this.#next, extract);
    } catch (cause) {
      if (signal?.aborted) throw cause;
      const archive = isOwned ? null : await this.#keepAlone();
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
    if (isOwned && unplaced > 0)
      throw new ArchiveError(
        'unplaced',
        `The result is incomplete: ${partly(unplaced)}; '${again}' saves it as it is`,
      );
  }

  /**
   * Moves the archive and its files to their place. @throws ArchiveError if some of its files could not be placed because
   * something else is there
   */
  async save(): Promise<SavedArchive> {
    const { withoutArchive } = this.options.output as OutputDirectory;
    const { files, bytes, notes, unplaced } = this.#extracted as Extracted;
    const { output, ...moved } = await this.#move();
    const archive = path.join(output, this.options.name);
    const missing = unplaced + moved.unplaced;
    if (missing > 0)
      throw new ArchiveError(
        'unplaced',
        `${quotePath(archive)} is saved, but ${partly(missing)}; unzip it in another directory`,
      );
    if (withoutArchive) await withWriteErrors(archive, this.#next, () => rm(archive));
    return { archive: withoutArchive ? null : archive, output, files, bytes, notes };
  }

  /** Removes everything that was not moved to its place. Never throws, because an earlier error is more helpful. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!('owned' in this.options.output)) await this.own.remove();
  }

  get #next(): string {
    return nextOf(this.options);
  }

  get #downloaded(): string {
    return path.join(this.own.directory, this.options.name);
  }

  async #move(): Promise<Moved> {
    const { name, output } = this.options;
    return withWriteErrors(this.target, this.#next, async () => {
      replaceFile(this.#downloaded, path.join(this.own.files, name));
      return this.own.moveTo(output as OutputDirectory, name);
    });
  }

  /** Moves a complete archive to its place without extracting it. @returns its path there */
  async #keepAlone(): Promise<string> {
    await rm(this.own.files, { recursive: true });
    await mkdir(this.own.files);
    return path.join((await this.#move()).output, this.options.name);
  }
}

/** What to do once the files can be written. */
const nextOf = ({ output, again }: ArchiveOptions): string =>
  'owned' in output ? output.next : `run '${again}'`;

const partly = (missing: number): string =>
  `only a part of it is extracted: something else is in the place of ${counted(missing, 'file')}`;

/** Where files were moved to, and how many could not be moved because something else is in their places. */
interface Moved {
  readonly output: string;
  readonly unplaced: number;
}

/**
 * Moves everything in one directory into another.
 * @param mayReplace whether existing files may be replaced
 * @returns the number of files that were not moved because something else is in their places
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
 * A private directory in which a result is completed before it is moved to its place. It is on the same file system as that
 * place: beside it or, if the place exists, inside it.
 */
export class PrivateDirectory {
  /** Holds the files that will be moved to the final place. */
  readonly files: string;

  private constructor(
    /** Holds files that are not moved. */
    readonly directory: string,
    /** Parent directories that were created for it, innermost first. */
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
    return PrivateDirectory.of(await mkdtemp(path.join(parent, privatePrefix)), made);
  }

  /** @param directory one that nobody else can enter */
  static async of(directory: string, made: readonly string[] = []): Promise<PrivateDirectory> {
    const own = new PrivateDirectory(directory, made);
    // A subdirectory gives the files the usual permissions, while the private directory keeps others out.
    await mkdir(own.files);
    return own;
  }

  /**
   * Moves the files to their place. If another command has used that place in the meantime, a numbered directory beside it is
   * used, so that two results are never mixed.
   * @param first the file that is moved first
   * @returns the directory, and the number of files that were not moved because something else is in their places
   */
  async moveTo({ directory, taken }: OutputDirectory, first: string): Promise<Moved> {
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
      // Also replaces an empty directory.
      replaceFile(this.files, place);
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

  /** Removes the directory with everything left in it, and the parents created for it if they are empty. Never throws. */
  async remove(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true }).catch(() => {});
    for (const each of this.made) await rmdir(each).catch(() => {});
  }
}
