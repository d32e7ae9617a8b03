import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rename, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { maxEntries } from '../../contract/archives.js';
import { formatBytes } from '../../contract/bytes.js';
import { exitCodes } from '../../contract/errors.js';
import { oneLine, quoteName, quotePath } from '../../contract/quote.js';
import { ArchiveError } from '../../extract/errors.js';
import { makeDirectory } from '../../files/make-directory.js';
import { AnswerError } from '../connection/check-answer.js';
import type { Connection } from '../connection/connection.js';
import type { Reply } from '../connection/reply.js';
import { ClientError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { writing } from '../write-error.js';
import { download, fileSink } from './download.js';

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

export interface SaveOptions {
  readonly reporter: Reporter;
  /** The command that fetches the archive again. */
  readonly again: string;
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

/** The note for an archive that is kept as it is, not extracted: its path, and why. */
function unextracted(target: string, cause: ArchiveError, room: number): ArchiveError {
  // The limit of an extraction is the room on the disk.
  const isRoom = cause.fault === 'tooLarge';
  const why = isRoom
    ? `it needs more than the ${formatBytes(room)} that are free there; free some space, then unzip it`
    : oneLine(cause.message);
  return new ArchiveError(cause.fault, `${quotePath(target)} is saved, but it is not extracted: ${why}`, {
    cause,
  });
}

/** Free bytes on a disk. */
async function roomIn(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

/**
 * Downloads a zip archive to `archive`. The file gets this name when it is complete; after a failure there is none.
 * @throws WriteError if it cannot be written; AnswerError for something other than a zip archive
 */
async function fetchArchive(
  connection: Connection,
  request: (headers: Readonly<Record<string, string>>) => Promise<Reply>,
  target: string,
  { reporter, again }: SaveOptions,
): Promise<void> {
  const next = `run '${again}'`;
  const output = path.dirname(target);
  const partial = `${target}.${randomBytes(4).toString('hex')}.partial`;
  const onSize = async (total: number) => {
    const room = await writing(target, next, () => roomIn(output));
    if (total <= room) return;
    throw new ClientError(
      `${quotePath(target)} will have ${formatBytes(total)}, and ${formatBytes(room)} are free there; ` +
        `free some space, then ${next}`,
      exitCodes.failed,
    );
  };
  try {
    const file = await writing(target, next, async () => {
      makeDirectory(output);
      return open(partial, 'wx+');
    });
    try {
      const bytes = await download(connection, request, fileSink(file, target, next), {
        onProgress: (done, total) => reporter.progress('Downloading', done, total),
        onSize,
      });
      await checkIsZip(file, bytes, connection.server);
    } finally {
      // A network file system reports failed writes here.
      await writing(target, next, () => file.close());
    }
    await writing(target, next, () => rename(partial, target));
  } finally {
    // If the removal fails as well, the first error says more.
    await rm(partial, { force: true }).catch(() => {});
  }
}

/**
 * Downloads a zip archive to `archive` and extracts it beside itself, within the room of the disk. The reporter gets a
 * note for each entry that could not keep its name.
 * @param request sends the request with these headers more
 * @throws WriteError if it cannot be written; ArchiveError for an archive that must not be extracted
 */
export async function saveArchive(
  connection: Connection,
  request: (headers: Readonly<Record<string, string>>) => Promise<Reply>,
  archive: string,
  options: SaveOptions,
): Promise<SavedArchive> {
  const target = path.resolve(archive);
  const output = path.dirname(target);
  await fetchArchive(connection, request, target, options);
  const maxBytes = await roomIn(output);
  // Imported lazily to keep start-up fast.
  const { extractArchive } = await import('../../extract/extract.js');
  const extracted = await writing(output, `run '${options.again}'`, () =>
    extractArchive(target, output, {
      maxBytes,
      maxEntries,
      lenient: true,
      reserved: [path.basename(target)],
      onProgress: (bytes, total) => options.reporter.progress('Extracting', bytes, total),
      ...(connection.signal ? { signal: connection.signal } : {}),
    }),
  ).catch((cause: unknown) => {
    throw cause instanceof ArchiveError ? unextracted(target, cause, maxBytes) : cause;
  });
  for (const note of extracted.notes) options.reporter.note(note);
  return { archive: target, output, ...extracted };
}
