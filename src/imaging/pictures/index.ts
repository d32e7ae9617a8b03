/** Draws scans and their results: in the terminal, as PNG and as an HTML page. */
export { readColour } from './labels.js';
export { type Looks, looksOf } from './looks.js';
export { show } from './show.js';
