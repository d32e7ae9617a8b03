import { ArchiveSource } from './archive-source.js';
import { archiveEnd } from './entry-count.js';
import { entryName } from './entry-name.js';
import { readDirectory } from './read-directory.js';

/** An archive with more entries is not looked through: each takes 3 KB of memory, and nobody packs as many directories. */
const mostEntries = 10_000;

/**
 * Whether a zip archive has a file in it, and not only directories.
 * @throws ArchiveError if it cannot be read
 */
export async function holdsFiles(archive: string): Promise<boolean> {
  await using source = await ArchiveSource.open(archive);
  const { entries } = await archiveEnd(source.file);
  if (entries === 0 || entries > mostEntries) return entries > 0;
  const { files } = await readDirectory(source, mostEntries);
  return files.some((entry) => !entryName(entry).endsWith('/'));
}
