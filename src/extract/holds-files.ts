import { TimeSlice } from '../files/time-slice.js';
import { archiveEnd } from './archive-end.js';
import { ArchiveSource } from './archive-source.js';
import { entryName } from './entry-name.js';
import { readDirectory } from './read-directory.js';

/** An archive with more entries is not looked through: unzipper takes 3 KB of memory for each, and nobody packs as many directories. */
const mostListed = 10_000;

/**
 * Whether a zip archive has a file in it, and not only directories.
 * @throws ArchiveError if it cannot be read
 */
export async function holdsFiles(archive: string): Promise<boolean> {
  await using source = await ArchiveSource.open(archive);
  const { mostEntries } = await archiveEnd(source.file);
  if (mostEntries === 0 || mostEntries > mostListed) return mostEntries > 0;
  const listed = await readDirectory(source, mostListed, new TimeSlice());
  return listed.some((entry) => !entryName(entry).endsWith('/'));
}
