import { constants, existsSync, rmSync } from 'node:fs';
import { copyFile, lstat, rename } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { jsonText, readOwnFile, syncDirectory, syncFile, writeTextFile } from '../../files/index.js';
import type { JobDirectory } from './job-directory.js';

/** Most bytes of the list: it may name 20,000 files. */
const maxListBytes = 32 << 20;

const listed = z.array(z.string());

const listFile = ({ path: directory }: JobDirectory): string => path.join(directory, 'links.json');

/**
 * Notes which files of an upload are hard links to uploads that later submissions may name. It survives a power cut once the
 * directory is synced.
 * @param files relative to the directory of the job
 */
export function noteLinks(directory: JobDirectory, files: readonly string[]): void {
  if (files.length > 0) writeTextFile(listFile(directory), jsonText(files), { isKept: false });
}

/** Whether a job, which then has not begun, still has such links. */
export const hasLinks = (directory: JobDirectory): boolean => existsSync(listFile(directory));

/**
 * Gives a job that has not begun files of its own in place of such links, so that its app cannot change an upload. Nothing is
 * copied where the file system can share the bytes, or the upload has been removed. After a power cut it is done again.
 * @param isGivenUp asked before each file
 * @throws the system's error, as of a full disk; then it can be done again
 */
export async function ownLinks(directory: JobDirectory, isGivenUp: () => boolean): Promise<void> {
  const text = readOwnFile(listFile(directory), maxListBytes);
  if (text === undefined) return;
  const files = listed.parse(JSON.parse(text)).map((file) => path.join(directory.path, file));
  const copy = path.join(directory.path, 'link.partial');
  for (const file of files) {
    if (isGivenUp()) return;
    if ((await lstat(file)).nlink === 1) continue;
    await copyFile(file, copy, constants.COPYFILE_FICLONE);
    await syncFile(copy);
    await rename(copy, file);
  }
  for (const parent of new Set(files.map((file) => path.dirname(file)))) await syncDirectory(parent);
  rmSync(listFile(directory));
}
