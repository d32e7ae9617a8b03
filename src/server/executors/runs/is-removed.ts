import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../../files/error-code.js';

const isThere = (directory: string): Promise<boolean> =>
  lstat(directory).then(
    () => true,
    (cause) => errorCode(cause) !== 'ENOENT',
  );

/**
 * Whether the directory of a running job was removed. If the directory of all jobs is missing as well, the disk may have
 * been unmounted for a moment, and this is false. Asynchronous, because a network file system that does not answer must
 * not block the server.
 */
export const isRemoved = async (directory: string): Promise<boolean> =>
  !(await isThere(directory)) && (await isThere(path.dirname(directory)));
