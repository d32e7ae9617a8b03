import { constants } from 'node:fs';

/** How extraction opens a file: new or emptied, and never what a link leads to. */
export const extractFlags = constants.O_CREAT | constants.O_TRUNC | constants.O_WRONLY | constants.O_NOFOLLOW;

export const extractMode = 0o644;
