import { realpath } from 'node:fs/promises';
import type { ListedFile } from '../../../archive/index.js';
import { type Entry, entriesOf } from './entries.js';
import type { Obstacles } from './obstacles.js';

export interface TreeOptions {
  /** Which files belong to it, by their path relative to the directory. */
  readonly include: (relativePath: string) => boolean;
  /** Which files hold voxels, by their name: an empty one is an obstacle. */
  readonly isVolume: (name: string) => boolean;
  readonly obstacles: Obstacles;
}

/** Why a file without a byte cannot be sent. */
export const emptyFile = 'is empty (0 bytes)';

/** Why a directory without a file cannot be sent. */
export const nothingToSend = 'contains no file to send';

async function listBelow(
  directory: string,
  prefix: string,
  ancestors: readonly string[],
  options: TreeOptions,
  listed: ListedFile[],
): Promise<void> {
  const { include, isVolume, obstacles } = options;
  const real = await realpath(directory);
  // A link to a directory that it lies in: what is there is listed already.
  if (ancestors.includes(real)) return;
  const entries = await entriesOf(directory, (name) => include(prefix + name), obstacles);
  if (entries.length === 0 && prefix !== '') listed.push({ name: prefix, path: directory });
  const directories: Entry[] = [];
  for (const entry of entries) {
    const { name, path, stats } = entry;
    if (stats.isDirectory()) directories.push(entry);
    else if (stats.size === 0 && isVolume(name)) obstacles.add(path, emptyFile);
    else listed.push({ name: prefix + name, path, size: stats.size });
  }
  for (const { name, path } of directories) {
    await listBelow(path, `${prefix}${name}/`, [...ancestors, real], options, listed);
  }
}

/**
 * The files and empty directories of a directory that travels whole, links followed: they are the person's own. Listed
 * before anything is packed, so that an obstacle is found at once.
 */
export async function listTree(directory: string, options: TreeOptions): Promise<ListedFile[]> {
  const before = options.obstacles.count;
  const listed: ListedFile[] = [];
  await listBelow(directory, '', [], options, listed);
  const isEmpty = listed.every(({ name }) => name.endsWith('/'));
  if (isEmpty && options.obstacles.count === before) options.obstacles.add(directory, nothingToSend);
  return listed;
}
