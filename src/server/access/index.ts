/** Determines who sends a request, by the environment's token or by named tokens from a file. */
export { Access, readTokenFile } from './access.js';
