import { maxEntries } from '../contract/archives.js';
import { Notes } from '../files/notes.js';
import { TimeSlice } from '../files/time-slice.js';
import { archiveEnd } from './archive-end.js';
import { ArchiveSource } from './archive-source.js';
import { planEntries } from './extract-plan.js';
import { readDirectory } from './read-directory.js';

/**
 * Most entries of a zip64 archive that is looked through here: unzipper takes 3 KB of memory for each. The server looks
 * through all of them.
 */
const mostOfZip64 = 50_000;

/**
 * Checks what an archive's directory says of its entries, by the rules of a server that extracts it: a person learns of an
 * encrypted entry before the upload.
 * @returns whether a file is in it, and not only directories
 * @throws ArchiveError if it cannot be read, or must not be extracted
 */
export async function checkArchive(archive: string): Promise<boolean> {
  await using source = await ArchiveSource.open(archive);
  const { mostEntries, isZip64 } = await archiveEnd(source.file);
  if (isZip64 && mostEntries > mostOfZip64) return true;
  const slice = new TimeSlice();
  const entries = await readDirectory(source, maxEntries, slice);
  const targets = await planEntries(entries, {
    root: '/',
    reserved: [],
    // Servers run on Linux, whatever runs here.
    platform: 'linux',
    lenient: false,
    notes: new Notes(),
    slice,
  });
  return targets.some(({ isDirectory }) => !isDirectory);
}
