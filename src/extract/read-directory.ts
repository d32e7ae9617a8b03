import unzipper, { type CentralDirectory } from 'unzipper';
import type { ArchiveSource } from './archive-source.js';
import { archiveEnd } from './entry-count.js';
import { ArchiveError } from './errors.js';

/** Takes options like unzipper's other `open` functions; its types do not say so. */
const openCustom = unzipper.Open.custom as (
  source: ArchiveSource,
  options: { readonly tailSize: number },
) => Promise<CentralDirectory>;

/**
 * The entries of an archive, as its directory lists them.
 * @throws ArchiveError if there are too many, or the directory cannot be read
 */
export async function readDirectory(source: ArchiveSource, maxEntries: number): Promise<CentralDirectory> {
  const { entries, tailSize } = await archiveEnd(source.file);
  if (entries > maxEntries) {
    throw new ArchiveError('tooMany', `it has ${entries} entries, more than the ${maxEntries} allowed`);
  }
  try {
    return await openCustom(source, { tailSize });
  } catch (cause) {
    throw source.failure ?? new ArchiveError('corrupt', 'its directory cannot be read', { cause });
  }
}
