import { constants, existsSync, rmSync } from 'node:fs';
import { copyFile, lstat, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { extractArchive } from '../../archive/index.js';
import { maxEntries } from '../../contract/index.js';
import {
  jsonText,
  readOwnFile,
  syncDirectory,
  syncFile,
  syncTree,
  writeTextFile,
} from '../../files/index.js';
import type { JobDirectory } from './job-directory.js';

/** A hard link to an upload that later submissions may name. */
export interface LinkedInput {
  readonly file: string;
  /** Where the archive is to be extracted that the file is; null for a file of the input. */
  readonly directory: string | null;
}

/** Most bytes of the list: it may name 20,000 files. */
const maxListBytes = 32 << 20;

const listed = z.array(
  z.union([
    // As earlier versions wrote it.
    z.string().transform((file) => ({ file, directory: null })),
    z.object({ file: z.string(), directory: z.string().nullable() }),
  ]),
);

const listFile = ({ path: directory }: JobDirectory): string => path.join(directory, 'links.json');

/** The same paths, seen from another directory. */
const mapped = (links: readonly LinkedInput[], map: (file: string) => string): LinkedInput[] =>
  links.map(({ file, directory }) => ({ file: map(file), directory: directory && map(directory) }));

/**
 * Notes which files of a job are hard links to uploads. It survives a power cut once the directory is synced.
 */
export function noteLinks(directory: JobDirectory, links: readonly LinkedInput[]): void {
  if (links.length === 0) return;
  const relative = mapped(links, (file) => path.relative(directory.path, file));
  writeTextFile(listFile(directory), jsonText(relative), { isKept: false });
}

/** Whether a job, which then has not begun, still has such links. */
export const hasLinks = (directory: JobDirectory): boolean => existsSync(listFile(directory));

/**
 * Gives a job that has not begun files of its own in place of such links, so that its app cannot change an upload: copies, and what
 * archives contain. Nothing is copied where the file system can share the bytes, or the upload has been removed. After a power
 * cut it is done again.
 * @param isGivenUp asked before each file, and while an archive is extracted
 * @throws the system's error, as of a full disk; then it can be done again
 */
export async function ownLinks(directory: JobDirectory, isGivenUp: () => boolean): Promise<void> {
  const text = readOwnFile(listFile(directory), maxListBytes);
  if (text === undefined) return;
  const links = mapped(listed.parse(JSON.parse(text)), (file) => path.join(directory.path, file));
  const copy = path.join(directory.path, 'link.partial');
  for (const { file, directory: target } of links) {
    if (isGivenUp()) return;
    if (target === null) await ownFile(file, copy);
    // A try that a power cut ended may have extracted it.
    else if (existsSync(file) && !(await extractLink(file, target, isGivenUp))) return;
  }
  const parents = links.map(({ file, directory: target }) => path.dirname(target ?? file));
  for (const parent of new Set(parents)) await syncDirectory(parent);
  const archives = new Set(
    links.flatMap(({ file, directory: target }) => (target ? path.dirname(file) : [])),
  );
  for (const waiting of archives) {
    await rm(waiting, { recursive: true, force: true });
    await syncDirectory(path.dirname(waiting));
  }
  rmSync(listFile(directory));
}

async function ownFile(file: string, copy: string): Promise<void> {
  if ((await lstat(file)).nlink === 1) return;
  await copyFile(file, copy, constants.COPYFILE_FICLONE);
  await syncFile(copy);
  await rename(copy, file);
}

/**
 * Extracts an archive that has been extracted before without a fault. What an interrupted try has left is removed.
 * @returns false if it was given up
 */
async function extractLink(archive: string, target: string, isGivenUp: () => boolean): Promise<boolean> {
  const stop = new AbortController();
  const onProgress = () => {
    if (isGivenUp()) stop.abort();
  };
  await rm(target, { recursive: true, force: true });
  try {
    const limits = { maxBytes: Number.MAX_SAFE_INTEGER, maxEntries };
    await extractArchive(archive, target, { ...limits, onProgress, signal: stop.signal });
  } catch (cause) {
    if (stop.signal.aborted) return false;
    throw cause;
  }
  await syncTree(target);
  return true;
}
