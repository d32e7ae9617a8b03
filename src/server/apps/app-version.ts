import { createHash } from 'node:crypto';
import { existsSync, type Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { contentStamp, hashFile, isForbidden, TimeSlice, treeEntries } from '../../files/index.js';

/** Maximum number of files and directories of an app with a version: each start of a job waits for a look at them. */
const maxEntries = 5000;
/** Maximum size of an app with a version. */
const maxBytes = 256 * 1024 ** 3;
/** Maximum number of hashes remembered for all apps together. */
const maxContents = 50_000;

/** A file of an app, as it was when the app was looked at. */
interface AppFile {
  /** Its name in the app, with slashes. */
  readonly name: string;
  readonly path: string;
  /** Changes with its content. */
  readonly stamp: string;
}

const stampOf = (stats: Stats): string => [stats.dev, ...contentStamp(stats)].join(' ');

/**
 * The files of an app that a job can read and that its author chose: weights, code and settings, also hidden ones, and
 * those that links lead to, because weights are often kept on another disk. Left out are version control, compiled Python
 * and installed packages (`node_modules`, Python environments): they differ between machines with the same app, and the
 * lists that they are made from count.
 * @returns null if they are too many or too large
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

/** A hash of files, by a text about each. */
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

/** The version of an app as it was when somebody asked. */
export interface AskedVersion {
  /** Null if a file changed before it was read, or could not be read. Never rejects. */
  readonly known: Promise<string | null>;
  /** Whether files of this version stay as they are: a new commit of a repository has files of its own. */
  readonly isSnapshot?: boolean;
}

/**
 * Versions of app directories: `sha256:` and a hash of the names and contents of their files, which is the same on all
 * machines. A content is read once, and again when the file's size, times or inode change; an unchanged app is only looked
 * at. What was read is forgotten when the server stops.
 */
export class AppVersions {
  readonly #latest = new Map<string, AskedVersion & { readonly seen: string }>();
  /** Hashes of contents by the stamps of their files, the oldest first. */
  readonly #contents = new Map<string, string>();

  /**
   * Looks at an app directory. Its contents are then read in the background, a second for about half a gigabyte.
   * @returns null for an app of too many files or bytes, which has no version
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

  /** @param before the digest of the same app that is being computed, which has read most of these files */
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
      // Jobs run as the same user, and cannot read it either.
      if (isForbidden(cause)) return 'unreadable';
      throw cause;
    }
  }
}
