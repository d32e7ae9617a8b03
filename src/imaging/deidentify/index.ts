/** De-identification: what may leave of files, and under which names, so that nobody can be recognised. */
export { prepareLeaving } from './outgoing.js';
export { translateResult } from './translate.js';
