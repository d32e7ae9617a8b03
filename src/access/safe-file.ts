import { type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { quotePath } from '../contract/quote.js';

/** The file, or its directory, can be changed by others. The message says how to mend it. */
export class UnsafeFile extends Error {
  override readonly name = 'UnsafeFile';
}

const othersWrite = 0o022;
const sticky = 0o1000;

/** @throws UnsafeFile if it belongs to another user */
function checkOwner({ uid }: Stats, name: string): void {
  const own = process.getuid?.();
  if (own === undefined || uid === own || uid === 0) return;
  throw new UnsafeFile(
    `${quotePath(name)} belongs to another user (uid ${uid}), who could change it; give it to root or to the user of the server`,
  );
}

/**
 * Refuses a file that somebody other than root and this user could write to or replace: by its owner and its mode, and by
 * those of its directory. A directory in which nobody can replace the files of others (the sticky bit, as on /tmp) will do.
 * @param stats those of the open file
 * @throws UnsafeFile
 */
export function refuseUnsafe(file: string, stats: Stats): void {
  // Windows has no modes.
  if (process.platform === 'win32') return;
  const directory = path.dirname(path.resolve(file));
  const above = statSync(directory);
  checkOwner(stats, file);
  checkOwner(above, directory);
  const open: string[] = [];
  if (stats.mode & othersWrite) open.push(file);
  if (above.mode & othersWrite && !(above.mode & sticky)) open.push(directory);
  const [first] = open;
  if (first === undefined) return;
  throw new UnsafeFile(`${quotePath(first)} can be written by others; run 'chmod go-w ${first}'`);
}
