import { type FileHandle, mkdir, open, rename, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { ArchiveError, extractArchive } from '../../archive/index.js';
import { counted, formatBytes, maxEntries, oneLine, quoteName, quotePath } from '../../contract/index.js';
import { sharedMode } from '../../files/index.js';
import { AnswerError, type Connection, type Patience, type Reply } from '../connection/index.js';
import { NoRoom, writing } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { download, fileSink, type Sink } from './download.js';
import { foreseeOutput, type OutputDirectory, PrivateDirectory } from './place.js';

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

interface SaveOptions {
  readonly reporter: Reporter;
  /** File name of the archive. */
  readonly name: string;
  /** Where the archive goes, and what is extracted from it. */
  readonly output: OutputDirectory;
  /** The command that fetches the archive again. */
  readonly again: string;
  /** Adds to the extracted files, in this directory, before they get their place. */
  readonly complete?: ((directory: string) => Promise<void>) | undefined;
}

interface Opened {
  readonly own: PrivateDirectory;
  /** Its expected place, for messages. */
  readonly target: string;
  readonly file: FileHandle;
  readonly sink: Sink;
}

/**
 * An archive during its download, in a private directory that is created with the first byte, so that a refusal creates
 * nothing.
 */
class IncomingArchive implements Sink {
  #opened: Promise<Opened> | undefined;

  constructor(private readonly options: SaveOptions) {}

  /** The directory and the file; made by the first call. */
  get opened(): Promise<Opened> {
    this.#opened ??= this.#open();
    return this.#opened;
  }

  async seek(offset: number): Promise<boolean> {
    return (await this.opened).sink.seek(offset);
  }

  async write(chunk: Buffer): Promise<boolean> {
    return (await this.opened).sink.write(chunk);
  }

  /** Removes everything that was not moved to its place. Never throws, because an earlier error is more helpful. */
  async remove(): Promise<void> {
    const opened = await this.#opened?.catch(() => null);
    await opened?.file.close().catch(() => {});
    await opened?.own.remove();
  }

  async #open(): Promise<Opened> {
    const { name, output, again } = this.options;
    const next = `run '${again}'`;
    const wanted = path.resolve(output.directory);
    // Refusing was possible only before the download; files that others have put there since are left alone.
    const taken = output.taken === 'refuse' ? 'number' : output.taken;
    const place = await writing(path.join(wanted, name), next, async () =>
      foreseeOutput({ ...output, taken }),
    );
    const target = path.join(place, name);
    const own = await writing(target, next, () => PrivateDirectory.make(place));
    try {
      const file = await writing(target, next, () => open(path.join(own.directory, name), 'wx+'));
      return { own, target, file, sink: fileSink(file, target, next) };
    } catch (cause) {
      await own.remove();
      throw cause;
    }
  }
}

/** The first bytes of every zip archive, also of an empty one. */
const zipBeginnings = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0007\b'];

/** @param start the first bytes of a file, one character each (Latin-1) */
const beginsAsZip = (start: string): boolean => zipBeginnings.some((each) => start.startsWith(each));

/** Checks that the download is a zip archive, and not, for example, a proxy's page. */
async function checkIsZip(file: FileHandle, bytes: number | null, server: string): Promise<void> {
  if (!bytes) throw new AnswerError(server, 'sent an archive of 0 bytes');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(40), 0, 40, 0);
  const begin = buffer.toString('latin1', 0, bytesRead);
  if (beginsAsZip(begin)) return;
  throw new AnswerError(
    server,
    `sent something that is not a zip archive: it begins with ${quoteName(begin)}`,
  );
}

/** Free bytes on a disk. */
async function freeIn(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

/** Downloads a zip archive, if the disk has enough free space. */
async function fetchArchive(
  connection: Connection,
  request: (headers: Readonly<Record<string, string>>, patience: Patience) => Promise<Reply>,
  incoming: IncomingArchive,
  { reporter, again }: SaveOptions,
): Promise<void> {
  const next = `run '${again}'`;
  const onSize = async (total: number) => {
    const { target, own } = await incoming.opened;
    const free = await writing(target, next, () => freeIn(own.directory));
    if (total <= free) return;
    throw new NoRoom(
      `${quotePath(target)} will have ${formatBytes(total)}, and ${formatBytes(free)} are free there`,
      next,
    );
  };
  const bytes = await download(connection, request, incoming, {
    onProgress: (done, total) => reporter.progress('Downloading', done, total),
    onSize,
    watcher: reporter,
  });
  await checkIsZip((await incoming.opened).file, bytes, connection.server);
}

/** Why an archive must not be extracted. */
const reasonOf = (cause: ArchiveError, free: number): string =>
  cause.fault === 'tooLarge'
    ? `it needs more than the ${formatBytes(free)} that are free there; free some space, then unzip it`
    : oneLine(cause.message);

/**
 * Extracts the downloaded archive, and moves everything to its place.
 * @throws ArchiveError for one that must not be extracted, or where something else has places of its files. An archive that
 * cannot be extracted gets its place alone
 */
async function extractIntoPlace(
  incoming: IncomingArchive,
  options: SaveOptions,
  signal: AbortSignal | undefined,
): Promise<SavedArchive> {
  const { name, output, reporter, again } = options;
  const next = `run '${again}'`;
  const { own, target, file } = await incoming.opened;
  const maxBytes = await writing(target, next, () => freeIn(own.directory));
  // A network file system reports failed writes here.
  await writing(target, next, () => file.close());
  const place = () =>
    writing(target, next, async () => {
      await rename(path.join(own.directory, name), path.join(own.files, name));
      return own.place(output, name);
    });
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
  const extracted = await writing(path.dirname(target), next, extract).catch(async (cause: unknown) => {
    if (signal?.aborted) throw cause;
    if (output.isPrivate && cause instanceof ArchiveError) {
      if (cause.fault === 'tooLarge')
        throw new NoRoom(
          `The result needs more than the ${formatBytes(maxBytes)} that are free in ${quotePath(path.dirname(target))}`,
          next,
        );
      const what = `The result is not extracted: ${reasonOf(cause, maxBytes)}; '${again}' saves it as it is`;
      throw new ArchiveError(cause.fault, what, { cause });
    }
    // The archive is complete, and is kept.
    await rm(own.files, { recursive: true });
    await mkdir(own.files);
    const archive = path.join((await place()).output, name);
    if (!(cause instanceof ArchiveError)) throw cause;
    const what = `${quotePath(archive)} is saved, but it is not extracted: ${reasonOf(cause, maxBytes)}`;
    throw new ArchiveError(cause.fault, what, { cause });
  });
  const { files, bytes, notes, unplaced } = extracted;
  for (const note of notes) reporter.note(note);
  await options.complete?.(own.files);
  const placed = await place();
  const archive = path.join(placed.output, name);
  const missing = unplaced + placed.unplaced;
  if (missing > 0) {
    const why = `only a part of it is extracted: something else is in the place of ${counted(missing, 'file')}`;
    throw new ArchiveError(
      'unplaced',
      output.isPrivate
        ? `The result is not whole: ${why}; '${again}' saves it as it is`
        : `${quotePath(archive)} is saved, but ${why}; unzip it in another directory`,
    );
  }
  if (output.withoutArchive) await writing(archive, next, () => rm(archive));
  return { archive: output.withoutArchive ? null : archive, output: placed.output, files, bytes, notes };
}

/**
 * Downloads a zip archive and extracts it in a private directory, then moves both to their place. Until the result is
 * complete, nothing there changes. The reporter gets a note for each entry that could not keep its name.
 * @param request sends the request with these additional headers
 * @throws WriteError if something cannot be written; AnswerError for something other than a zip archive; ArchiveError for an
 * archive that must not be extracted
 */
export async function saveArchive(
  connection: Connection,
  request: (headers: Readonly<Record<string, string>>, patience: Patience) => Promise<Reply>,
  options: SaveOptions,
): Promise<SavedArchive> {
  const incoming = new IncomingArchive(options);
  try {
    await fetchArchive(connection, request, incoming, options);
    return await extractIntoPlace(incoming, options, connection.signal);
  } finally {
    await incoming.remove();
  }
}
