import { faultWithoutPath, isSystemError } from '../../../files/error-code.js';
import type { ListedFile } from '../../../pack/listed-files.js';
import { lookAt } from './look.js';
import type { Obstacles } from './obstacles.js';
import { listTree } from './tree.js';
import { isVolumeName, travels } from './volumes.js';

/** The data set of a fine-tuning: the files of a directory, or a zip archive as it is. */
export type DataSet =
  | { readonly path: string; readonly files: readonly ListedFile[] }
  | { readonly path: string; readonly files: null; readonly size: number };

/** Why a file cannot be sent as a data set; null if it can. */
async function fileFault(archive: string): Promise<string | null> {
  if (!/\.zip$/i.test(archive)) return 'is neither a directory nor a zip archive';
  // Imported lazily to keep start-up fast: most data sets are directories.
  const [{ holdsFiles }, { ArchiveError }] = await Promise.all([
    import('../../../extract/holds-files.js'),
    import('../../../extract/errors.js'),
  ]);
  try {
    return (await holdsFiles(archive)) ? null : 'is a zip archive without a file in it';
  } catch (cause) {
    if (cause instanceof ArchiveError) return `cannot be read as a zip archive: ${cause.message}`;
    if (isSystemError(cause)) return `cannot be read: ${faultWithoutPath(cause)}`;
    throw cause;
  }
}

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
