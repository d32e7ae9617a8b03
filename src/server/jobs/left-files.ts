import { setTimeout as delay } from 'node:timers/promises';
import { countFiles } from '../../archive/index.js';
import { mostCounted } from '../../contract/job.js';

/** Milliseconds that counting may take: a disk that does not answer must not delay the end of a job. */
const patience = 2000;

/** How many files a job that has failed left in its output; null if they cannot be counted, or not in time. Never rejects. */
export async function countLeftFiles(output: string): Promise<number | null> {
  const late = new AbortController();
  try {
    const counted = countFiles(output, mostCounted, late.signal).catch(() => null);
    return await Promise.race([counted, delay(patience, null, { ref: false })]);
  } finally {
    late.abort();
  }
}
