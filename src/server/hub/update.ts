import { statfs } from 'node:fs/promises';
import { quoteName } from '../../contract/quote.js';
import { isWeights } from '../../contract/weights.js';
import { makeDirectory } from '../../files/make-directory.js';
import { placeInSnapshot, placeText, removeAbandoned } from './cache-files.js';
import { downloadBlob } from './download.js';
import type { Hub, RevisionName } from './hub.js';
import { HubError } from './hub-error.js';
import { isCommit, type RepositoryCache } from './repository-cache.js';
import { filesOfApp, formatTree, type TreeFile } from './tree.js';

/** What is fetched of an app. */
export type Extent = 'description' | 'everything';

/** Largest file that belongs to the description of an app, and most bytes and files of a description. */
const largest = 32 * 1024 * 1024;
const mostBytes = 256 * 1024 * 1024;
const mostFiles = 2000;

/** Bytes that a download leaves free on the disk. */
const headroom = 1024 ** 3;

export interface UpdateOptions {
  readonly hub: Hub;
  readonly cache: RepositoryCache;
  /** Folders of the apps; null for an app at the top. */
  readonly folders: readonly (string | null)[];
  readonly extent: Extent;
  readonly hasLinks: boolean;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

/** How far a download is. */
export interface Progress {
  readonly bytes: number;
  readonly total: number;
}

/** Whether a file describes its app: neither weights, nor hidden, nor large. */
const describes = (name: string, { size }: TreeFile): boolean =>
  !isWeights(name) && size <= largest && !name.split('/').some((part) => part.startsWith('.'));

/** The files that the apps need, each once. @throws HubError where a description is too much */
function neededFiles(tree: readonly TreeFile[], { folders, extent, cache }: UpdateOptions): TreeFile[] {
  const found = new Set<TreeFile>();
  for (const folder of folders) {
    for (const [name, file] of filesOfApp(tree, folder)) {
      if (extent === 'everything' || describes(name, file)) found.add(file);
    }
  }
  const bytes = [...found].reduce((sum, { size }) => sum + size, 0);
  if (extent === 'description' && (found.size > mostFiles || bytes > mostBytes)) {
    throw new HubError(
      `The description of ${quoteName(cache.repository)} is more than ${mostFiles} files or ${mostBytes >> 20} MiB, ` +
        "which is not fetched unasked: start the server with '--download', or download it with 'hf download'",
    );
  }
  return [...found];
}

const gigabytes = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(1)} GiB`;

async function checkDisk(cache: RepositoryCache, needed: number): Promise<void> {
  makeDirectory(cache.directory);
  const { bavail, bsize } = await statfs(cache.directory);
  const free = bavail * bsize;
  if (needed === 0 || needed + headroom <= free) return;
  throw new HubError(
    `${quoteName(cache.repository)} needs ${gigabytes(needed)} more, and ${gigabytes(free)} are free where the cache is`,
  );
}

/** Puts files into the snapshot whose content is in the cache already; resolves with the others that are needed. */
async function placeKnown(
  commit: string,
  tree: readonly TreeFile[],
  options: UpdateOptions,
): Promise<TreeFile[]> {
  const { cache, folders, hasLinks } = options;
  const needed = new Set(neededFiles(tree, options));
  const missing: TreeFile[] = [];
  for (const file of new Set(folders.flatMap((folder) => [...filesOfApp(tree, folder).values()]))) {
    if (await cache.has(commit, file)) continue;
    // Weights that an older commit has as well: the engine finds them without the hub.
    if (await cache.hasBlob(file)) await placeInSnapshot(cache, commit, file, hasLinks);
    else if (needed.has(file)) missing.push(file);
  }
  return missing;
}

/** The list of files of a commit, from the cache or the hub. */
async function treeOf(commit: string, { cache, hub, signal }: UpdateOptions): Promise<readonly TreeFile[]> {
  const known = cache.tree(commit);
  if (known !== null) return known;
  const listed = await hub.files(cache.repository, commit, signal);
  // Only a list that is not kept: it is asked for again.
  await placeText(cache.treeFile(commit), formatTree(listed)).catch(() => {});
  return listed;
}

/**
 * Brings the cache to the commit that a revision is at now. The revision leads to that commit when all its files are there:
 * before that, whoever reads the cache finds the older one, whole.
 * @returns the commit
 * @throws HubError, or the system's error
 */
export async function update(
  { repository, revision }: RevisionName,
  options: UpdateOptions,
): Promise<string> {
  const { hub, cache, hasLinks, signal, onProgress } = options;
  const commit = isCommit(revision) ? revision : await hub.commit({ repository, revision }, signal);
  const missing = await placeKnown(commit, await treeOf(commit, options), options);
  const total = missing.reduce((sum, { size }) => sum + size, 0);
  if (missing.length > 0) {
    await checkDisk(cache, total);
    await removeAbandoned(cache);
  }
  let bytes = 0;
  const onBytes = (count: number) => {
    bytes += count;
    onProgress?.({ bytes, total });
  };
  for (const file of missing) {
    // A file may be there twice under two names.
    if (!(await cache.hasBlob(file))) await downloadBlob(file, { hub, cache, commit, signal, onBytes });
    await placeInSnapshot(cache, commit, file, hasLinks);
  }
  if (!isCommit(revision) && cache.commitOf(revision) !== commit) {
    await placeText(cache.refFile(revision), commit);
  }
  return commit;
}
