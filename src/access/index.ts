export * from './change-tokens.js';
export * from './principal.js';
export * from './token-file.js';
