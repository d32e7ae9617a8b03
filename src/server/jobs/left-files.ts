import { setTimeout as delay } from 'node:timers/promises';
import { mostCounted } from '../../contract/job.js';

/** Milliseconds that counting may take: a disk that does not answer must not delay the end of a job. */
const patience = 2000;

/** Imported lazily to keep start-up fast. */
const loadCounter = () => import('../../archive/index.js');

/** How many files a job that has failed left in its output; null if they cannot be counted, or not in time. Never rejects. */
export async function countLeftFiles(output: string, load = loadCounter): Promise<number | null> {
  const late = new AbortController();
  try {
    const { countFiles } = await load();
    const counted = countFiles(output, mostCounted, late.signal).catch(() => null);
    return await Promise.race([counted, delay(patience, null, { ref: false })]);
  } catch {
    // The server's own files were replaced while it runs: a job whose end waited for this would never end.
    return null;
  } finally {
    late.abort();
  }
}
