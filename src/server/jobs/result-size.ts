import { lstatSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { JobDirectory } from './job-directory.js';
import { treeSize } from './tree-size.js';

/** Milliseconds that measuring may take: a disk that does not answer must not delay the end of a job. */
const patience = 10_000;

/** Bytes of the archive; null if there is none, or something else has its name. */
function archiveSize({ result }: JobDirectory): number | null {
  try {
    const stats = lstatSync(result);
    return stats.isFile() ? stats.size : null;
  } catch {
    return null;
  }
}

/**
 * Bytes of a result: those of its archive, or of its files if it is packed while it is downloaded; null if the disk does
 * not tell in time. Never rejects.
 */
export async function resultSize(directory: JobDirectory): Promise<number | null> {
  const size = archiveSize(directory);
  return size ?? Promise.race([treeSize(directory.output), delay(patience, null, { ref: false })]);
}
