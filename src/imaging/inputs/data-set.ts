import { realpath } from 'node:fs/promises';
import { faultWithoutPath, isSystemError } from '../../files/index.js';
import { type Entry, emptyFile, entriesOf, lookAt, nothingToSend, type Obstacles } from './entries.js';
import { hasZarrName, isHidden, isVolumeName } from './formats.js';
import { leadsElsewhere } from './leaving.js';
import { type Tree, TreeReader } from './tree-reader.js';
import { hasMetadata, readStore } from './zarr.js';

/** The data set of a fine-tuning: the files of a directory, or a zip archive as it is. */
export type DataSet =
  | ({ readonly path: string } & Tree)
  | { readonly path: string; readonly files: null; readonly size: number };

/** Why a file cannot be sent as an archive for the server to extract; null if it can. */
export async function archiveFault(archive: string): Promise<string | null> {
  // Imported lazily to keep start-up fast: most commands send other files.
  const { ArchiveError, checkArchive } = await import('../../archive/index.js');
  try {
    return (await checkArchive(archive)) ? null : 'is a zip archive without a file in it';
  } catch (cause) {
    if (cause instanceof ArchiveError) return `cannot be read as a zip archive: ${cause.message}`;
    if (isSystemError(cause)) return `cannot be read: ${faultWithoutPath(cause)}`;
    throw cause;
  }
}

/** Why a data set that is not a directory cannot be sent; null if it can. */
const fileFault = async (archive: string): Promise<string | null> =>
  /\.zip$/i.test(archive) ? archiveFault(archive) : 'is neither a directory nor a zip archive';

class DataSetReader extends TreeReader {
  async add(directory: string, prefix: string, ancestors: readonly string[]): Promise<void> {
    const real = await realpath(directory);
    // A link to a directory above it: everything there is listed already.
    if (ancestors.includes(real)) return;
    const isOut = leadsElsewhere(directory, this.root);
    const entries = await entriesOf(directory, (name) => !isHidden(name), this.obstacles);
    if (entries.length === 0 && prefix !== '') this.files.push({ name: prefix, path: directory });
    for (const entry of entries.filter((each) => !each.isDirectory))
      await this.#addFile(entry, prefix, isOut);
    for (const { name, path } of entries.filter((each) => each.isDirectory)) {
      if (hasZarrName(path) || hasMetadata(path)) await this.#addStore(path, `${prefix}${name}/`);
      else await this.add(path, `${prefix}${name}/`, [...ancestors, real]);
    }
  }

  async #addFile({ name, path, isLink, size }: Entry, prefix: string, isOut: boolean): Promise<void> {
    if (size === 0 && isVolumeName(name)) {
      this.obstacles.add(path, emptyFile);
      return;
    }
    if (await this.leaves({ role: 'named', path, isLink: isLink || isOut }))
      this.files.push({ name: prefix + name, path, size });
  }

  async #addStore(directory: string, prefix: string): Promise<void> {
    const store = await readStore(directory, this.obstacles);
    this.files.push(...store.files.map((file) => ({ ...file, name: prefix + file.name })));
    this.strays.push(...store.strays);
    this.followed.push(...store.followed);
  }
}

/**
 * The data set that a path names. All files of a directory belong to it, except hidden ones outside of stores of Zarr. Null if
 * it cannot be sent, which the obstacles say before anything is packed.
 */
export async function findDataSet(path: string, obstacles: Obstacles): Promise<DataSet | null> {
  const look = lookAt(path);
  if (look === null) {
    obstacles.addMissing(path);
    return null;
  }
  if (look.stats?.isDirectory()) {
    const before = obstacles.count;
    const reader = new DataSetReader(await realpath(path), obstacles);
    await reader.add(path, '', []);
    const { files, strays, followed } = reader;
    const isEmpty = files.every(({ name }) => name.endsWith('/'));
    if (isEmpty && obstacles.count === before) obstacles.add(path, nothingToSend);
    return { path, files, strays, followed };
  }
  const fault = look.fault ?? (await fileFault(path));
  if (fault !== null) obstacles.add(path, fault);
  return fault === null && look.stats ? { path, files: null, size: look.stats.size } : null;
}
