import { constants } from 'node:fs';

/** Extraction and packing never follow a link to the file that they write. */
const writeFlags = constants.O_CREAT | constants.O_WRONLY | constants.O_NOFOLLOW;

/** For a file that may exist; it is not emptied. Opening a FIFO fails at once, since it has no reader. */
export const extractFlags = writeFlags | constants.O_NONBLOCK;

export const extractMode = 0o644;

/** For a file that must not exist yet. */
export const newFlags = writeFlags | constants.O_EXCL;

export const partialMode = 0o600;
