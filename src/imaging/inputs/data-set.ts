import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { quotePath } from '../../contract/index.js';
import { emptyFile, lookAt, nothingToSend, type Obstacles, readingFault, walkInputs } from './entries.js';
import { isHidden, isVolumeName } from './formats.js';
import { volumeFault } from './recognise.js';
import { leadsElsewhere, type Tree, TreeReader } from './sending-rules.js';
import { isStore, readStore } from './zarr.js';

/** The data set for fine-tuning: the files of a directory, or a zip archive that is sent unchanged. */
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
    return readingFault(cause);
  }
}

/** Why a data set that is not a directory cannot be sent; null if it can. */
const fileFault = async (archive: string): Promise<string | null> =>
  /\.zip$/i.test(archive) ? archiveFault(archive) : 'is neither a directory nor a zip archive';

/** Collects what is sent of a data set directory. */
async function readDataSet(directory: string, obstacles: Obstacles): Promise<Tree> {
  const tree = new TreeReader(await realpath(directory), obstacles);
  const { files, strays, followed } = tree;
  const stores = new Set<string>();
  const visited = walkInputs(directory, {
    obstacles,
    wanted: (name) => !isHidden(name),
    // Called after the entries of the parent directory were examined.
    enters: ({ path: at }) => !stores.has(at),
    // Skipping one of the paths to a directory would change the data set.
    onRepeated: (at, first) => obstacles.add(at, `is the same directory as ${quotePath(first)}; ${remedy}`),
  });
  for await (const { path: at, entries } of visited) {
    const inside = path.relative(directory, at);
    const prefix = inside === '' ? '' : `${inside}/`;
    const isOut = leadsElsewhere(at, tree.root);
    if (entries.length === 0 && prefix !== '') files.push({ name: prefix, path: at });
    for (const { name, path: file, isDirectory, isLink, size } of entries) {
      if (isDirectory && isStore(file)) {
        stores.add(file);
        const store = await readStore(file, obstacles);
        files.push(...store.files.map((each) => ({ ...each, name: `${prefix}${name}/${each.name}` })));
        strays.push(...store.strays);
        followed.push(...store.followed);
        continue;
      }
      const isVolume = !isDirectory && isVolumeName(name);
      const fault = !isVolume ? null : size === 0 ? emptyFile : await volumeFault(file);
      if (fault !== null) obstacles.add(file, fault);
      else if (!isDirectory && (await tree.leaves({ role: 'named', path: file, isLink: isLink || isOut })))
        files.push({ name: prefix + name, path: file, size });
    }
  }
  return { files, strays, followed };
}

const remedy = 'a data set is sent with each directory once: remove one of them, or copy it';

/**
 * The data set at a path. All files of a directory belong to it, except hidden ones outside Zarr stores. Null if it cannot be
 * sent; the obstacles say why, before anything is packed.
 */
export async function findDataSet(target: string, obstacles: Obstacles): Promise<DataSet | null> {
  const look = lookAt(target);
  if (look === null) {
    obstacles.addMissing(target);
    return null;
  }
  if (look.stats?.isDirectory()) {
    const before = obstacles.count;
    const tree = await readDataSet(target, obstacles);
    const isEmpty = tree.files.every(({ name }) => name.endsWith('/'));
    if (isEmpty && obstacles.count === before) obstacles.add(target, nothingToSend);
    return { path: target, ...tree };
  }
  const fault = look.fault ?? (await fileFault(target));
  if (fault !== null) obstacles.add(target, fault);
  return fault === null && look.stats ? { path: target, files: null, size: look.stats.size } : null;
}
