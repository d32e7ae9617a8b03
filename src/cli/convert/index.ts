/** Converting files that lie there, without a server. */
export type { ConvertDocument } from './convert-file.js';

/** Imported when it is used, to keep start-up fast. */
export const loadConvertFile = () => import('./convert-file.js');
