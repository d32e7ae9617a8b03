/** Viewing scans and their results, without a server. */
export type { ShowDocument } from './show-cases.js';

/**
 * Imported on use, to keep start-up fast. The module is loaded completely, because the program may be upgraded while a job runs.
 */
export async function loadShowCases() {
  const { loadPictures } = await import('../../imaging/index.js');
  await loadPictures();
  return import('./show-cases.js');
}
