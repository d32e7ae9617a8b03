import type { CentralDirectory } from 'unzipper';
import type { TimeSlice } from '../files/time-slice.js';
import { type ArchiveEnd, archiveEnd } from './archive-end.js';
import type { ArchiveSource } from './archive-source.js';
import { ArchiveError } from './errors.js';
import { plainEntries } from './plain-directory.js';
import type { ZipEntry } from './zip-entry.js';

/** Bytes of the longest directory that is read in one piece: 200,000 names have less. */
const longestDirectory = 32 << 20;

/** Takes options like unzipper's other `open` functions; its types do not say so. */
type OpenCustom = (
  source: ArchiveSource,
  options: { readonly tailSize: number },
) => Promise<CentralDirectory>;

async function readPlain(
  source: ArchiveSource,
  { size, entries, directory }: ArchiveEnd,
  slice: TimeSlice,
): Promise<ZipEntry[] | null> {
  if (directory === null) return null;
  const { start, length } = directory;
  // No memory is allocated for what is not there.
  if (length > longestDirectory || start + length > size) return null;
  const bytes = await source.read(Buffer.allocUnsafe(length), start);
  return plainEntries(bytes, entries, slice);
}

async function readAny(source: ArchiveSource, tailSize: number): Promise<ZipEntry[]> {
  // Imported lazily: few archives need it.
  const { default: unzipper } = await import('unzipper');
  try {
    return (await (unzipper.Open.custom as OpenCustom)(source, { tailSize })).files;
  } catch (cause) {
    throw source.failure ?? new ArchiveError('corrupt', 'its directory cannot be read', { cause });
  }
}

/**
 * The entries of an archive, as its directory lists them.
 * @param slice lets other work run in between
 * @throws ArchiveError if there are too many, they overlap, or the directory cannot be read
 */
export async function readDirectory(
  source: ArchiveSource,
  maxEntries: number,
  slice: TimeSlice,
): Promise<readonly ZipEntry[]> {
  const end = await archiveEnd(source.file);
  if (end.entries > maxEntries) {
    throw new ArchiveError('tooMany', `it has ${end.entries} entries, more than the ${maxEntries} allowed`);
  }
  const entries = (await readPlain(source, end, slice)) ?? (await readAny(source, end.tailSize));
  const packed = entries.reduce((sum, { compressedSize }) => sum + compressedSize, 0);
  if (packed > end.size) {
    throw new ArchiveError(
      'corrupt',
      'its entries are to have more bytes than it has: it is damaged, or a zip bomb',
    );
  }
  return entries;
}
