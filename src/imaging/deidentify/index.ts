/** What may leave of files when nobody must be recognised by it, and under which names. */
export { prepareLeaving } from './outgoing.js';
export { translateResult } from './translate.js';
