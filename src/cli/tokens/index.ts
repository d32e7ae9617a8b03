/** Shared by the `token` commands: the token file, its edits and its text. */
export * from './token-command.js';
export * from './token-text.js';
