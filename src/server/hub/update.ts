import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { formatBytes, quoteName } from '../../contract/index.js';
import { makeDirectory, orElse, replaceFile } from '../../files/index.js';
import { isWeights } from '../weights.js';
import type { Hub, RevisionName } from './hub.js';
import { HubError } from './hub-error.js';
import {
  isCommit,
  placeInSnapshot,
  placeText,
  type RepositoryCache,
  removeAbandoned,
  uniquePart,
} from './repository-cache.js';
import { blobName, filesOfApp, formatTree, type TreeFile } from './tree.js';

/** Milliseconds without a byte after which a connection counts as broken. */
const silence = 60_000;

/** Maximum number of times in a row that a broken download is resumed without receiving a byte. */
const maxRetries = 4;

/** The hash with which the hub identifies a file's content: Git's hash also covers a header. */
function hashOf({ sha256, size }: TreeFile): Hash {
  return sha256 === null ? createHash('sha1').update(`blob ${size}\0`) : createHash('sha256');
}

interface DownloadOptions {
  readonly hub: Pick<Hub, 'content'>;
  readonly cache: RepositoryCache;
  readonly commit: string;
  readonly signal: AbortSignal;
  readonly onBytes?: (count: number) => void;
  /** Milliseconds before a broken connection is resumed for the first time. */
  readonly pause?: number;
}

/** Writes the content of a file, resuming the download after a broken connection. @throws HubError */
async function receive(file: TreeFile, handle: FileHandle, options: DownloadOptions): Promise<void> {
  const { hub, cache, commit, signal, onBytes, pause = 1000 } = options;
  const name = quoteName(file.path);
  const hash = hashOf(file);
  let written = 0;
  let failures = 0;
  while (written < file.size) {
    const before = written;
    const silent = new AbortController();
    const timer = setTimeout(() => silent.abort(new HubError(`${name} stopped arriving`, true)), silence);
    try {
      const either = AbortSignal.any([signal, silent.signal]);
      for await (const chunk of hub.content(cache.repository, commit, file, written, either)) {
        timer.refresh();
        if (written + chunk.length > file.size) {
          throw new HubError(`${name} is longer than the ${file.size} bytes that are listed`);
        }
        await handle.writeFile(chunk);
        hash.update(chunk);
        written += chunk.length;
        onBytes?.(chunk.length);
      }
      if (written < file.size) throw new HubError(`${name} ended too early`, true);
    } catch (cause) {
      signal.throwIfAborted();
      if (!(cause instanceof HubError && cause.isPassing)) throw cause;
      failures = written > before ? 0 : failures + 1;
      if (failures > maxRetries) throw cause;
      await delay(pause * 2 ** failures, undefined, { signal });
    } finally {
      clearTimeout(timer);
    }
  }
  if (hash.digest('hex') === blobName(file)) return;
  throw new HubError(`The content of ${name} is not the one that the repository lists`);
}

/**
 * Downloads a file to `blobs`. The file has a temporary name until it is complete, verified and synced. If two processes do this
 * at the same time, both write the same content.
 * @throws HubError, or the system's error
 */
export async function downloadBlob(file: TreeFile, options: DownloadOptions): Promise<void> {
  const blob = options.cache.blobFile(file);
  const partial = `${blob}.${uniquePart()}.incomplete`;
  makeDirectory(path.dirname(blob));
  try {
    await using handle = await open(partial, 'wx');
    await receive(file, handle, options);
    await handle.sync();
    replaceFile(partial, blob);
  } catch (cause) {
    await rm(partial, { force: true });
    throw cause;
  }
}

/** Which parts of an app are fetched. */
export type Extent = 'description' | 'everything';

/** Limits of an app's description: maximum bytes of one file, of all files together, and number of files. */
const maxFileBytes = 32 * 1024 * 1024;
const maxBytes = 256 * 1024 * 1024;
const maxFiles = 2000;

/** Number of bytes that a large download leaves free on the disk; a smaller one leaves as much as its own size. */
const headroom = 1024 ** 3;

export interface UpdateOptions {
  readonly hub: Hub;
  readonly cache: RepositoryCache;
  /** Folders of the apps; null for an app at the top. */
  readonly folders: readonly (string | null)[];
  readonly extent: Extent;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

/** The progress of a download. */
export interface Progress {
  readonly bytes: number;
  readonly total: number;
}

/** Whether a file belongs to its app's description: it is not weights, not hidden, and not large. */
const describes = (name: string, { size }: TreeFile): boolean =>
  !isWeights(name) && size <= maxFileBytes && !name.split('/').some((part) => part.startsWith('.'));

/** Total size in bytes of files; content with several names counts once. */
const bytesOf = (files: Iterable<TreeFile>): number =>
  [...new Map([...files].map((file) => [blobName(file), file.size])).values()].reduce(
    (sum, size) => sum + size,
    0,
  );

/**
 * The files that the apps need, each once, with those that belong to descriptions kept separate.
 * @throws HubError if a description is too large to be downloaded unless that is requested
 */
function neededFiles(tree: readonly TreeFile[], { folders, extent, cache }: UpdateOptions) {
  const all = folders.flatMap((folder) => [...filesOfApp(tree, folder)]);
  const description = new Set(all.filter(([name, file]) => describes(name, file)).map(([, file]) => file));
  const others = new Set(all.map(([, file]) => file).filter((file) => !description.has(file)));
  const isSmall = description.size <= maxFiles && bytesOf(description) <= maxBytes;
  if (isSmall || extent === 'everything') return { description, others };
  throw new HubError(
    `The description of ${quoteName(cache.repository)} is more than ${maxFiles} files or ${maxBytes >> 20} MiB, ` +
      "which is not fetched unasked: start the server with '--download', or download it with 'hf download'",
  );
}

async function checkDisk(cache: RepositoryCache, needed: number): Promise<void> {
  makeDirectory(cache.directory);
  const { bavail, bsize } = await statfs(cache.directory);
  const free = bavail * bsize;
  if (needed + Math.min(headroom, needed) <= free) return;
  throw new HubError(
    `${quoteName(cache.repository)} needs ${formatBytes(needed)} more, and ${formatBytes(free)} are free where the cache is`,
  );
}

/** The files that the cache lacks. Those whose content it has are put into the snapshot. */
async function missingOf(
  files: Iterable<TreeFile>,
  commit: string,
  cache: RepositoryCache,
): Promise<TreeFile[]> {
  const missing: TreeFile[] = [];
  for (const file of files) {
    if (await cache.has(commit, file)) continue;
    if (await cache.hasBlob(file)) await placeInSnapshot(cache, commit, file);
    else missing.push(file);
  }
  return missing;
}

/** The file list of a commit, from the cache or the hub. */
async function treeOf(commit: string, { cache, hub, signal }: UpdateOptions): Promise<readonly TreeFile[]> {
  const known = cache.tree(commit);
  if (known !== null) return known;
  const listed = await hub.files(cache.repository, commit, signal);
  // If the list cannot be stored, it is simply requested again.
  orElse(() => placeText(cache.treeFile(commit), formatTree(listed)), undefined);
  return listed;
}

/** Downloads files, and puts each into the snapshot. */
async function fetchFiles(
  files: readonly TreeFile[],
  commit: string,
  { hub, cache, signal }: UpdateOptions,
  onBytes: (count: number) => void,
): Promise<void> {
  if (files.length === 0) return;
  await checkDisk(cache, bytesOf(files));
  await removeAbandoned(cache);
  for (const file of files) {
    // Several files may have the same content under different names.
    if (!(await cache.hasBlob(file))) await downloadBlob(file, { hub, cache, commit, signal, onBytes });
    await placeInSnapshot(cache, commit, file);
  }
}

/** Makes the revision point to the commit. */
function moveRevision(revision: string, commit: string, cache: RepositoryCache): void {
  if (isCommit(revision) || cache.commitOf(revision) === commit) return;
  placeText(cache.refFile(revision), commit);
}

/**
 * Updates the cache to the commit that a revision currently points to. In the cache, the revision is moved to that commit only
 * when all its files are there; until then, readers find the complete older commit. If there is no older commit, the description
 * is enough.
 * @throws HubError, or the system's error
 */
export async function update({ repository, revision }: RevisionName, options: UpdateOptions): Promise<void> {
  const { hub, cache, signal, onProgress } = options;
  const isFirst = cache.commitOf(revision) === null;
  const commit = isCommit(revision) ? revision : await hub.commit({ repository, revision }, signal);
  const tree = await treeOf(commit, options);
  const needed = neededFiles(tree, options);
  const description = await missingOf(needed.description, commit, cache);
  // Also looked for if they are not downloaded: the engine finds weights of an older commit without the hub.
  const lacking = await missingOf(needed.others, commit, cache);
  const others = options.extent === 'everything' ? lacking : [];
  const total = bytesOf([...description, ...others]);
  let bytes = 0;
  const onBytes = (count: number) => {
    bytes += count;
    onProgress?.({ bytes, total });
  };
  await fetchFiles(description, commit, options, onBytes);
  if (isFirst) moveRevision(revision, commit, cache);
  await fetchFiles(others, commit, options, onBytes);
  moveRevision(revision, commit, cache);
}
