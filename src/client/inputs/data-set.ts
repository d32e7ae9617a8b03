import type { ListedFile } from '../../archive/index.js';
import { faultWithoutPath, isSystemError } from '../../files/index.js';
import { listTree, lookAt, type Obstacles } from './entries.js';
import { isVolumeName, travels } from './formats.js';

/** The data set of a fine-tuning: the files of a directory, or a zip archive as it is. */
export type DataSet =
  | { readonly path: string; readonly files: readonly ListedFile[] }
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

/**
 * The data set that a path names, links followed. All files of a directory belong to it, except hidden ones outside a
 * `.zarr` store. Null if it cannot be sent, which the obstacles say.
 */
export async function findDataSet(path: string, obstacles: Obstacles): Promise<DataSet | null> {
  const look = lookAt(path);
  if (look === null) {
    obstacles.addMissing(path);
    return null;
  }
  if (look.stats?.isDirectory()) {
    return { path, files: await listTree(path, { include: travels, isVolume: isVolumeName, obstacles }) };
  }
  const fault = look.fault ?? (await fileFault(path));
  if (fault !== null) obstacles.add(path, fault);
  return fault === null && look.stats ? { path, files: null, size: look.stats.size } : null;
}
