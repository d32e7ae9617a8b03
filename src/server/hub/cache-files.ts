import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, open, readdir, realpath, rm, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../files/error-code.js';
import { makeDirectory } from '../../files/make-directory.js';
import { replaceFile } from '../../files/replace-file.js';
import { HubError } from './hub-error.js';
import { leadsTo, type RepositoryCache } from './repository-cache.js';
import type { TreeFile } from './tree.js';

/** A part of a temporary name that no other process has: as `huggingface_hub` has it. */
export const uniquePart = (): string => randomBytes(4).toString('hex');

/** Temporary files in `blobs`, of any process that downloads. */
const temporaryName = /\.[0-9a-f]{8}\.incomplete$/;

/** Milliseconds without a write after which nobody works on a temporary file any more. */
const abandonedAfter = 24 * 3600 * 1000;

/** Replaces a small text file of the cache: a reader finds the old text or the new one. Two writers do not meet. */
export async function placeText(file: string, text: string): Promise<void> {
  makeDirectory(path.dirname(file));
  const partial = `${file}.${uniquePart()}.tmp`;
  try {
    await using handle = await open(partial, 'wx');
    await handle.writeFile(text);
    await handle.sync();
    await replaceFile(partial, file);
  } catch (cause) {
    await rm(partial, { force: true });
    throw cause;
  }
}

/** Errors of a file system that has no links. */
const noLinks = ['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EINVAL'];

/** The directory of a snapshot that a file goes to; made where it is missing. @throws HubError if it is somewhere else */
async function prepareParent(cache: RepositoryCache, target: string): Promise<void> {
  const parent = path.dirname(target);
  makeDirectory(parent);
  const [real, home] = [await realpath(parent), await realpath(path.join(cache.directory, 'snapshots'))];
  if (!real.startsWith(home + path.sep)) {
    throw new HubError(`The snapshot of '${cache.repository}' leads out of the cache; remove it there`);
  }
}

/** A link to the content; false where the file system has none. */
async function tryLink(blob: string, target: string): Promise<boolean> {
  const content = path.relative(path.dirname(target), blob);
  // Not beside its place: whoever reads the snapshot meanwhile would find a file more.
  const partial = `${blob}.${uniquePart()}.incomplete`;
  try {
    await symlink(content, target);
  } catch (cause) {
    if (noLinks.includes(errorCode(cause))) return false;
    if (errorCode(cause) !== 'EEXIST') throw cause;
    if (await leadsTo(target, blob)) return true;
    await symlink(content, partial);
    await replaceFile(partial, target);
  }
  return true;
}

/** Puts a file whose content is there into a snapshot: as a link, or as a copy where there are no links. */
export async function placeInSnapshot(
  cache: RepositoryCache,
  commit: string,
  file: TreeFile,
  hasLinks: boolean,
): Promise<void> {
  const blob = cache.blobFile(file);
  const target = path.join(cache.snapshot(commit), file.path);
  await prepareParent(cache, target);
  if (hasLinks && (await tryLink(blob, target))) return;
  const partial = `${blob}.${uniquePart()}.incomplete`;
  try {
    await copyFile(blob, partial, constants.COPYFILE_EXCL);
    await replaceFile(partial, target);
  } finally {
    await rm(partial, { force: true });
  }
}

/**
 * Removes what downloads that were killed have left in `blobs`: files with the name of a temporary file that nobody has
 * written to for a day.
 */
export async function removeAbandoned(cache: RepositoryCache): Promise<void> {
  const blobs = path.join(cache.directory, 'blobs');
  for (const name of await readdir(blobs).catch(() => [])) {
    if (!temporaryName.test(name)) continue;
    const file = path.join(blobs, name);
    const stats = await stat(file).catch(() => null);
    if (stats?.isFile() && Date.now() - stats.mtimeMs > abandonedAfter) await rm(file, { force: true });
  }
}
