/** Who a request is from: the token of the environment, or the named ones of a file. */
export { Access, NamedTokens } from './access.js';
