/** Pictures of scans and of what came back: for the terminal, as PNG and as an HTML page. */
export { readColour } from './labels.js';
export { type Looks, looksOf } from './looks.js';
export { show } from './show.js';
