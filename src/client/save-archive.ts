import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import type { Connection } from './connection.js';
import { download, fileSink } from './download.js';
import type { Reply } from './reply.js';
import type { Reporter } from './reporter.js';

/** Most entries that a downloaded archive is extracted with. */
const maxEntries = 200_000;

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

/**
 * Downloads a zip to `archive` and extracts it beside itself, names checked, as far as the disk can hold it. The zip
 * has its name when it is whole; after a failure there is none. What could not keep its name is told to the reporter.
 * @param request sends the request with these headers more
 * @throws ArchiveError for an archive that must not be extracted
 */
export async function saveArchive(
  connection: Connection,
  request: (headers: Readonly<Record<string, string>>) => Promise<Reply>,
  archive: string,
  reporter: Reporter,
): Promise<SavedArchive> {
  const target = path.resolve(archive);
  const output = path.dirname(target);
  const partial = `${target}.${randomBytes(4).toString('hex')}.partial`;
  await mkdir(output, { recursive: true });
  try {
    const file = await open(partial, 'wx');
    try {
      await download(connection, request, fileSink(file), {
        onProgress: (bytes, total) => reporter.progress('Downloading', bytes, total),
      });
    } finally {
      await file.close();
    }
    await rename(partial, target);
  } finally {
    await rm(partial, { force: true });
  }
  const { bavail, bsize } = await statfs(output);
  // Loaded where something is to be extracted: a command that only submits starts the sooner.
  const { extractArchive } = await import('../archives/extract.js');
  const extracted = await extractArchive(target, output, {
    maxBytes: bavail * bsize,
    maxEntries,
    lenient: true,
    reserved: [path.basename(target)],
    onProgress: (bytes, total) => reporter.progress('Extracting', bytes, total),
    ...(connection.signal ? { signal: connection.signal } : {}),
  });
  for (const note of extracted.notes) reporter.note(note);
  return { archive: target, output, ...extracted };
}
