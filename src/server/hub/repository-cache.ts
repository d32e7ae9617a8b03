import { randomBytes } from 'node:crypto';
import { lstatSync, readdirSync, realpathSync } from 'node:fs';
import { readdir, realpath, rm, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import {
  makeDirectory,
  orElse,
  readSmallFile,
  replaceFile,
  sharedMode,
  writeTextFile,
} from '../../files/index.js';
import { HubError } from './hub-error.js';
import { blobName, checkNames, parseTree, type TreeFile } from './tree.js';

/** A file in a snapshot. */
export interface CachedFile {
  /** The file's path in the app, with slashes. */
  readonly name: string;
  /** Where the content of the file is, with links resolved. */
  readonly path: string;
}

const commitHash = /^[0-9a-f]{40}$/;

/** Whether a revision is a commit, which never changes. */
export const isCommit = (revision: string): boolean => commitHash.test(revision);

/** Maximum size in bytes of a file list: 20,000 files take about 6 MB. */
const maxTreeBytes = 32 * 1024 * 1024;

/** Maximum number of files in an app. */
const maxFiles = 20_000;

async function isWhole(place: string, { size }: TreeFile): Promise<boolean> {
  const found = await stat(place).catch(() => null);
  return found?.isFile() === true && found.size === size;
}

/** A repository in the cache directory of `huggingface_hub`, in its layout: `refs`, `blobs`, `snapshots` and `trees`. */
export class RepositoryCache {
  readonly directory: string;
  /** The file list that was read last. The list of a commit never changes, and every description of an app needs one. */
  #tree: { readonly commit: string; readonly files: readonly TreeFile[] } | null = null;

  constructor(
    private readonly cache: string,
    readonly repository: string,
  ) {
    this.directory = path.join(cache, `models--${repository.replace('/', '--')}`);
  }

  refFile(revision: string): string {
    return path.join(this.directory, 'refs', revision);
  }

  treeFile(commit: string): string {
    return path.join(this.directory, 'trees', `${commit}.json`);
  }

  blobFile(file: TreeFile): string {
    return path.join(this.directory, 'blobs', blobName(file));
  }

  snapshot(commit: string): string {
    return path.join(this.directory, 'snapshots', commit);
  }

  /** The commit that a revision pointed to when it was last downloaded; null if unknown. */
  commitOf(revision: string): string | null {
    if (isCommit(revision)) return revision;
    const text = orElse(() => readSmallFile(this.refFile(revision)).trim(), '');
    return isCommit(text) ? text : null;
  }

  /** The file list of a commit; null if the cache has no usable one. */
  tree(commit: string): readonly TreeFile[] | null {
    if (this.#tree?.commit === commit) return this.#tree.files;
    try {
      const text = readSmallFile(this.treeFile(commit), maxTreeBytes);
      const files = checkNames(parseTree(text), this.repository);
      this.#tree = { commit, files };
      return files;
    } catch {
      return null;
    }
  }

  /** Whether a snapshot has the complete file. */
  has(commit: string, file: TreeFile): Promise<boolean> {
    return isWhole(path.join(this.snapshot(commit), file.path), file);
  }

  /** Whether the complete content of a file is in the cache, perhaps because of another commit. */
  hasBlob(file: TreeFile): Promise<boolean> {
    return isWhole(this.blobFile(file), file);
  }

  /**
   * The files of an app in a snapshot. Links out of this repository's cache are ignored, because jobs can write there.
   * @param folder of the app; null for the whole repository
   */
  async files(commit: string, folder: string | null): Promise<CachedFile[]> {
    const root = path.join(this.snapshot(commit), folder ?? '');
    const homes = await this.#homes();
    const found: CachedFile[] = [];
    const pending = [''];
    for (let below = pending.pop(); below !== undefined; below = pending.pop()) {
      const entries = await readdir(path.join(root, below), { withFileTypes: true }).catch(() => []);
      for (const entry of entries) {
        const name = path.posix.join(below, entry.name);
        if (entry.isDirectory()) pending.push(name);
        else if (found.length < maxFiles) {
          const content = await this.#contentOf(path.join(root, name), homes);
          if (content !== null) found.push({ name, path: content });
        }
      }
    }
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The directory of contents that are shared between repositories, whose own `blobs` contain links to them. */
  get #shared(): string {
    return path.join(this.cache, 'blobs');
  }

  /** The shared files that this repository uses. They are outside its directory, but the engine needs them too. */
  sharedBlobs(): string[] {
    try {
      const home = realpathSync(this.#shared) + path.sep;
      const blobs = path.join(this.directory, 'blobs');
      return readdirSync(blobs, { withFileTypes: true })
        .filter((entry) => entry.isSymbolicLink())
        .map((entry) => realpathSync(path.join(blobs, entry.name)))
        .filter((file) => file.startsWith(home));
    } catch {
      // There are none, or the content of one is missing.
      return [];
    }
  }

  /** The directories in which the content of a snapshot may be: the repository's own, and the shared one. */
  async #homes(): Promise<string[]> {
    const found = await Promise.all(
      [this.directory, this.#shared].map((each) => realpath(each).catch(() => null)),
    );
    return found.filter((each) => each !== null);
  }

  async #contentOf(file: string, homes: readonly string[]): Promise<string | null> {
    try {
      const content = await realpath(file);
      const isInside = homes.some((home) => content.startsWith(home + path.sep));
      return isInside && lstatSync(content).isFile() ? content : null;
    } catch {
      // A link whose target is missing.
      return null;
    }
  }
}

/** The unique part of a temporary name, in the form that `huggingface_hub` uses. */
export const uniquePart = (): string => randomBytes(4).toString('hex');

/** Matches names of temporary files in `blobs`, of any process that downloads. */
const temporaryName = /\.[0-9a-f]{8}\.incomplete$/;

/** Milliseconds without a write after which a temporary file counts as abandoned. */
const abandonedAfter = 24 * 3600 * 1000;

/** Replaces a small text file of the cache. A reader finds the old text or the new one, and two processes do not interfere. */
export function placeText(file: string, text: string): void {
  makeDirectory(path.dirname(file));
  writeTextFile(file, text, { mode: sharedMode });
}

/** Creates the directory in a snapshot for a file. @throws HubError if a link leads the directory elsewhere */
async function prepareParent(cache: RepositoryCache, target: string): Promise<void> {
  const parent = path.dirname(target);
  makeDirectory(parent);
  const [real, home] = [await realpath(parent), await realpath(path.join(cache.directory, 'snapshots'))];
  if (!real.startsWith(home + path.sep)) {
    throw new HubError(`The snapshot of '${cache.repository}' leads out of the cache; remove it there`);
  }
}

/** Adds a file to a snapshot as a link to its content, which is already in the cache. */
export async function placeInSnapshot(cache: RepositoryCache, commit: string, file: TreeFile): Promise<void> {
  const blob = cache.blobFile(file);
  const target = path.join(cache.snapshot(commit), file.path);
  await prepareParent(cache, target);
  // The temporary link is not created next to its target name, because readers of the snapshot would see an additional file.
  const partial = `${blob}.${uniquePart()}.incomplete`;
  try {
    await symlink(path.relative(path.dirname(target), blob), partial);
    replaceFile(partial, target);
  } finally {
    await rm(partial, { force: true });
  }
}

/** Deletes what killed downloads left in `blobs`: temporary files without a write for a day. */
export async function removeAbandoned(cache: RepositoryCache): Promise<void> {
  const blobs = path.join(cache.directory, 'blobs');
  for (const name of await readdir(blobs).catch(() => [])) {
    if (!temporaryName.test(name)) continue;
    const file = path.join(blobs, name);
    const stats = await stat(file).catch(() => null);
    if (stats?.isFile() && Date.now() - stats.mtimeMs > abandonedAfter) await rm(file, { force: true });
  }
}
