import { type FileHandle, statfs } from 'node:fs/promises';
import path from 'node:path';
import { ArchiveError, extractArchive } from '../../archive/index.js';
import { maxEntries } from '../../contract/archives.js';
import { formatBytes } from '../../contract/bytes.js';
import { counted } from '../../contract/counted.js';
import { exitCodes } from '../../contract/errors.js';
import { oneLine, quoteName, quotePath } from '../../contract/quote.js';
import { AnswerError } from '../connection/check-answer.js';
import type { Connection } from '../connection/connection.js';
import type { Patience } from '../connection/patience.js';
import type { Reply } from '../connection/reply.js';
import { claimName } from '../earlier-results.js';
import { ClientError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { writing } from '../write-error.js';
import { download } from './download.js';
import { IncomingArchive, type IncomingOptions } from './incoming-archive.js';

export interface SavedArchive {
  /** Absolute path of the zip. */
  readonly archive: string;
  /** Absolute path of the directory that it was extracted into. */
  readonly output: string;
  readonly files: number;
  /** Bytes of the extracted files. */
  readonly bytes: number;
  /** One sentence for each entry that was renamed or left out. */
  readonly notes: readonly string[];
}

export interface SaveOptions extends IncomingOptions {
  readonly reporter: Reporter;
}

/** The first bytes of every zip archive, also of an empty one. */
const zipBeginnings = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0007\b'];

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

/** The error for an archive that is kept as it is, and not extracted, or not whole: its path, and why. */
function unextracted(target: string, cause: ArchiveError, room: number, isBegun: boolean): ArchiveError {
  // The limit of an extraction is the room on the disk.
  const isRoom = cause.fault === 'tooLarge';
  const why = isRoom
    ? `it needs more than the ${formatBytes(room)} that are free there; free some space, then unzip it`
    : oneLine(cause.message);
  const what = isBegun ? 'only a part of it is extracted' : 'it is not extracted';
  return new ArchiveError(cause.fault, `${quotePath(target)} is saved, but ${what}: ${why}`, { cause });
}

/** Free bytes on a disk. */
async function roomIn(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

/** Downloads a zip archive, if there is room for it. */
async function fetchArchive(
  connection: Connection,
  request: (headers: Readonly<Record<string, string>>, patience: Patience) => Promise<Reply>,
  incoming: IncomingArchive,
  { reporter, again }: SaveOptions,
): Promise<void> {
  const next = `run '${again}'`;
  const onSize = async (total: number) => {
    const { target, place } = await incoming.opened;
    const room = await writing(target, next, () => roomIn(place.directory));
    if (total <= room) return;
    throw new ClientError(
      `${quotePath(target)} will have ${formatBytes(total)}, and ${formatBytes(room)} are free there; ` +
        `free some space, then ${next}`,
      exitCodes.failed,
      { code: 'ENOSPC' },
    );
  };
  const bytes = await download(connection, request, incoming, {
    onProgress: (done, total) => reporter.progress('Downloading', done, total),
    onSize,
    watcher: reporter,
  });
  await checkIsZip((await incoming.opened).file, bytes, connection.server);
}

/**
 * Extracts a saved archive beside itself, within the room of the disk.
 * @throws ArchiveError for one that must not be extracted, or where other files have places of its entries
 */
async function extractSaved(
  target: string,
  keepsFiles: boolean,
  { reporter, again }: SaveOptions,
  signal: AbortSignal | undefined,
): Promise<SavedArchive> {
  const output = path.dirname(target);
  const maxBytes = await roomIn(output);
  let isBegun = false;
  const extracted = await writing(output, `run '${again}'`, () =>
    extractArchive(target, output, {
      maxBytes,
      maxEntries,
      lenient: true,
      keepsFiles,
      onMake: () => {
        isBegun = true;
      },
      reserved: [path.basename(target), claimName],
      onProgress: (bytes, total) => reporter.progress('Extracting', bytes, total),
      ...(signal ? { signal } : {}),
    }),
  ).catch((cause: unknown) => {
    throw cause instanceof ArchiveError ? unextracted(target, cause, maxBytes, isBegun) : cause;
  });
  const { files, bytes, unplaced, notes } = extracted;
  for (const note of notes) reporter.note(note);
  if (unplaced > 0) {
    const why = `something else is in the place of ${counted(unplaced, 'file')}; unzip it in another directory`;
    throw unextracted(target, new ArchiveError('unplaced', why), maxBytes, isBegun);
  }
  return { archive: target, output, files, bytes, notes };
}

/**
 * Downloads a zip archive into a directory that is claimed for it, and extracts it there. The reporter gets a note for each
 * entry that could not keep its name. After a failure the archive is not there, or whole.
 * @param request sends the request with these headers more
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
    const { place, target } = await incoming.keep();
    const saved = await extractSaved(target, !place.mayReplace, options, connection.signal);
    await place.done();
    return saved;
  } catch (cause) {
    // An archive that cannot be extracted stays as it is; anything else can be taken up again.
    await incoming.discard(cause instanceof ArchiveError);
    throw cause;
  }
}
