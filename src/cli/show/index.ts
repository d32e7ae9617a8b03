/** Looking at scans and at what came back of them, without a server. */
export type { ShowDocument } from './show-cases.js';

/** Imported when it is used, to keep start-up fast. */
export const loadShowCases = () => import('./show-cases.js');
