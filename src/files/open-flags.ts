import { constants } from 'node:fs';

/** What extraction and packing open is a file, and never what a link leads to. */
const writeFlags = constants.O_CREAT | constants.O_WRONLY | constants.O_NOFOLLOW;

/** How extraction opens a file that may be there: as it is. A FIFO that lies there has no reader, and fails at once. */
export const extractFlags = writeFlags | constants.O_NONBLOCK;

export const extractMode = 0o644;

/** How a file that must not be there yet is opened: an archive that is being made, say. */
export const newFlags = writeFlags | constants.O_EXCL;

export const partialMode = 0o600;
