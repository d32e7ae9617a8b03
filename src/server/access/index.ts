/** Identifies who sends a request: the token of the environment, or named tokens from a file. */
export { Access, readTokenFile } from './access.js';
