import { createHash } from 'node:crypto';
import { contentStamp, TimeSlice, type TreeEntry, treeEntries } from '../../../files/index.js';

/** Maximum number of files and directories that are examined: an app with more of them contains data. */
const maxFiles = 5000;

/** A text that changes with a file. The times of directories are left out, because skipped files change them. */
function describe({ file, stats, link }: TreeEntry): string {
  if (stats === null) return JSON.stringify([file, link, 'cannot be read']);
  if (stats.isDirectory()) return JSON.stringify([file, link, 'directory']);
  return JSON.stringify([file, link, ...contentStamp(stats)]);
}

/**
 * A hash that changes with these files and directories: names, sizes and times of their files, and the targets of links.
 * Pauses now and then, because a job waits for this while the server has other work.
 */
export async function fingerprint(paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  const slice = new TimeSlice();
  let left = maxFiles;
  for (const start of paths) {
    for (const entry of treeEntries(start)) {
      if (left === 0) break;
      left -= 1;
      hash.update(`${describe(entry)}\n`);
      await slice.pause();
    }
  }
  return hash.digest('hex');
}
