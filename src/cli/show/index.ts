/** Looking at scans and at what came back of them, without a server. */
export type { ShowDocument } from './show-cases.js';

/** Imported when it is used, to keep start-up fast; whole, because the program may be upgraded while a job runs. */
export async function loadShowCases() {
  const { loadPictures } = await import('../../imaging/index.js');
  await loadPictures();
  return import('./show-cases.js');
}
