import type { CentralDirectory } from 'unzipper';
import type { TimeSlice } from '../files/time-slice.js';
import { type ArchiveEnd, archiveEnd, entrySize } from './archive-end.js';
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
  { size, entries: stated, isZip64, directory: { start, length } }: ArchiveEnd,
  maxEntries: number,
  slice: TimeSlice,
): Promise<ZipEntry[] | null> {
  if (isZip64) return null;
  // No memory is allocated for what is not there.
  if (length > longestDirectory || start + length > size) return null;
  const bytes = await source.read(Buffer.allocUnsafe(length), start);
  const entries = await plainEntries(bytes, maxEntries + 1, slice);
  if (entries === null) return null;
  if (entries.length > maxEntries) {
    throw new ArchiveError('tooMany', `it has more than the ${maxEntries} entries allowed`);
  }
  // The end has room for the last 16 bits of the number.
  if ((entries.length & 0xffff) !== stated) throw otherCount();
  return entries;
}

async function readAny(source: ArchiveSource, { tailSize, directory }: ArchiveEnd): Promise<ZipEntry[]> {
  // Imported lazily: few archives need it.
  const { default: unzipper } = await import('unzipper');
  try {
    const { files } = await (unzipper.Open.custom as OpenCustom)(source, { tailSize });
    const sizes = files.map(
      (file) => entrySize + file.fileNameLength + file.extraFieldLength + file.fileCommentLength,
    );
    if (sizes.reduce((sum, size) => sum + size, 0) < directory.length) throw otherCount();
    return files;
  } catch (cause) {
    if (cause instanceof ArchiveError) throw cause;
    throw source.failure ?? new ArchiveError('corrupt', 'its directory cannot be read', { cause });
  }
}

/** The error for an archive of which a part would be left out without a word. */
const otherCount = (): ArchiveError =>
  new ArchiveError('corrupt', 'its end states another number of entries than its directory has');

/**
 * The entries of an archive, as its directory lists them.
 * @param slice lets other work run in between
 * @throws ArchiveError if there are too many, they overlap, or the directory cannot be read, or not to its end
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
  const entries = (await readPlain(source, end, maxEntries, slice)) ?? (await readAny(source, end));
  const packed = entries.reduce((sum, { compressedSize }) => sum + compressedSize, 0);
  if (packed > end.size) {
    throw new ArchiveError(
      'corrupt',
      'its entries are to have more bytes than it has: it is damaged, or a zip bomb',
    );
  }
  return entries;
}
