import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, rename, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { maxEntries } from '../../contract/archives.js';
import { formatBytes } from '../../contract/bytes.js';
import { exitCodes } from '../../contract/errors.js';
import { oneLine, quoteName, quotePath } from '../../contract/quote.js';
import { ArchiveError } from '../../extract/errors.js';
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
  /** What of the archive was renamed or left out, one sentence each. */
  readonly notes: readonly string[];
}

export interface SaveOptions {
  readonly reporter: Reporter;
  /** The command that fetches the archive another time. */
  readonly again: string;
}

/** What every zip archive begins with, an empty one included. */
const zipBeginnings = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0007\b'];

/** A page of a proxy, say, takes the place of no archive. */
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

/** An archive that stays as it came: which one it is, and why. */
function unextracted(target: string, cause: ArchiveError, room: number): ArchiveError {
  // How much may be extracted is how much the disk has room for.
  const isRoom = cause.fault === 'tooLarge';
  const why = isRoom
    ? `it needs more than the ${formatBytes(room)} that are free there; free some space, then unzip it`
    : oneLine(cause.message);
  return new ArchiveError(cause.fault, `${quotePath(target)} is saved, but it is not extracted: ${why}`, {
    cause,
  });
}

/** The room on a disk, in bytes. */
async function roomIn(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

/**
 * Downloads a zip to `archive`. It has its name when it is whole; after a failure there is none.
 * @throws WriteError where it cannot be written; AnswerError for something that is no zip
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
      await mkdir(output, { recursive: true });
      return open(partial, 'wx+');
    });
    try {
      const bytes = await download(connection, request, fileSink(file, target, next), {
        onProgress: (done, total) => reporter.progress('Downloading', done, total),
        onSize,
      });
      await checkIsZip(file, bytes, connection.server);
    } finally {
      // A file system of the network tells here what it could not write.
      await writing(target, next, () => file.close());
    }
    await writing(target, next, () => rename(partial, target));
  } finally {
    // Where it cannot even be removed, why it was given up says more.
    await rm(partial, { force: true }).catch(() => {});
  }
}

/**
 * Downloads a zip to `archive` and extracts it beside itself, names checked, as far as the disk can hold it. What could
 * not keep its name is told to the reporter.
 * @param request sends the request with these headers more
 * @throws WriteError where the disk does not take it; ArchiveError for an archive that must not be extracted
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
  // Loaded where something is to be extracted: a command that only submits starts the sooner.
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
