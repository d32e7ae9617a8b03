import { createHash } from 'node:crypto';
import { existsSync, type Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { contentStamp, hashFile, isForbidden, TimeSlice, treeEntries } from '../../files/index.js';

/** Maximum number of files and directories in an app that gets a version: each start of a job waits for a look at all of them. */
const maxEntries = 5000;
/** Maximum size in bytes of an app that gets a version. */
const maxBytes = 256 * 1024 ** 3;
/** Maximum number of content hashes that are remembered, for all apps together. */
const maxContents = 50_000;

/** A file of an app, as it was when the app was looked at. */
interface AppFile {
  /** The file's path in the app, with slashes. */
  readonly name: string;
  readonly path: string;
  /** Changes when the file's content changes. */
  readonly stamp: string;
}

const stampOf = (stats: Stats): string => [stats.dev, ...contentStamp(stats)].join(' ');

/**
 * The files of an app that a job can read and that the app's author chose: weights, code and settings, including hidden ones, and
 * those that links lead to, because weights are often stored on another disk. Version control, compiled Python and installed
 * packages (`node_modules`, Python environments) are left out: they differ between machines that have the same app, and the lists
 * that they are installed from are included.
 * @returns null if there are too many files or they are too large
 */
async function filesOf(directory: string): Promise<readonly AppFile[] | null> {
  const slice = new TimeSlice();
  const files: AppFile[] = [];
  let [entries, bytes] = [0, 0];
  const isEnvironment = (each: string) => each !== directory && existsSync(path.join(each, 'pyvenv.cfg'));
  for (const { file, stats } of treeEntries(directory, isEnvironment)) {
    entries += 1;
    if (stats?.isFile()) {
      bytes += stats.size;
      const name = path.relative(directory, file).replaceAll(path.sep, '/');
      files.push({ name, path: file, stamp: stampOf(stats) });
    }
    if (entries > maxEntries || bytes > maxBytes) return null;
    await slice.pause();
  }
  return files;
}

/** A hash of files, from a text about each. */
function hashOf(files: readonly AppFile[], about: (file: AppFile) => string): string {
  const hash = createHash('sha256');
  const lines = files.map((file) => `${JSON.stringify([file.name, about(file)])}\n`);
  for (const line of lines.sort()) hash.update(line);
  return hash.digest('hex');
}

/** @throws Error if the file has changed since its stamp, or cannot be read */
async function hashContent({ path: file, stamp }: AppFile): Promise<string> {
  const { sha256 } = await hashFile(file);
  if (stampOf(await stat(file)) !== stamp) throw new Error('The file has changed');
  return sha256;
}

/** The version that an app had when it was requested. */
export interface AskedVersion {
  /** Resolves with null if a file changed before it was read, or could not be read. Never rejects. */
  readonly known: Promise<string | null>;
  /** Whether the files of this version never change, because a new commit of the repository has its own files. */
  readonly isSnapshot?: boolean;
}

/**
 * Versions of app directories: `sha256:` and a hash of the names and contents of the files, which is the same on all machines. A
 * file's content is read once, and again when the file's size, times or inode change; for an unchanged app, only the metadata is
 * read. The hashes are forgotten when the server stops.
 */
export class AppVersions {
  readonly #latest = new Map<string, AskedVersion & { readonly seen: string }>();
  /** Content hashes by the stamps of their files, oldest first. */
  readonly #contents = new Map<string, string>();

  /**
   * Lists the files of an app directory, then hashes their contents in the background, at about half a gigabyte per second.
   * @returns null if the app has too many files or bytes for a version
   */
  async of(directory: string): Promise<AskedVersion | null> {
    const files = await filesOf(directory);
    if (files === null) return null;
    const seen = hashOf(files, ({ stamp }) => stamp);
    const latest = this.#latest.get(directory);
    if (latest?.seen === seen) return latest;
    const known = this.#digest(files, latest?.known).catch(() => {
      if (this.#latest.get(directory)?.seen === seen) this.#latest.delete(directory);
      return null;
    });
    const asked = { seen, known };
    this.#latest.set(directory, asked);
    return asked;
  }

  /** @param before an earlier computation for the same app, whose content hashes can be reused once it has ended */
  async #digest(files: readonly AppFile[], before: Promise<unknown> | undefined): Promise<string> {
    await before;
    const contents = new Map<string, string>();
    for (const file of files) contents.set(file.name, await this.#contentOf(file));
    return `sha256:${hashOf(files, ({ name }) => contents.get(name) ?? '')}`;
  }

  async #contentOf(file: AppFile): Promise<string> {
    const known = this.#contents.get(file.stamp);
    if (known !== undefined) return known;
    try {
      const content = await hashContent(file);
      this.#contents.set(file.stamp, content);
      const [oldest] = this.#contents.keys();
      if (this.#contents.size > maxContents && oldest !== undefined) this.#contents.delete(oldest);
      return content;
    } catch (cause) {
      // Jobs run as the same user, so they cannot read the file either.
      if (isForbidden(cause)) return 'unreadable';
      throw cause;
    }
  }
}
