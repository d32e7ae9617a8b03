import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { open, opendir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from './error-code.js';
import { syncDirectory } from './sync.js';

/**
 * Makes a file's bytes survive a power cut.
 * @throws the system's error
 */
async function syncFile(file: string): Promise<void> {
  await using handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  await handle.sync();
}

const run = promisify(execFile);

/** For more names than this, one `sync` of the file system is faster than one for each (2000 files: 24 ms, 300 ms). */
const manyNames = 16;

/** Files that are synced at once. */
const atOnce = 8;

/** Whether a tree has many names, or a directory that cannot be listed. */
async function hasManyNames(directory: string): Promise<boolean> {
  let names = 0;
  try {
    for await (const _ of await opendir(directory, { recursive: true })) {
      names += 1;
      if (names > manyNames) return true;
    }
    return false;
  } catch (cause) {
    if (errorCode(cause) !== 'EACCES') throw cause;
    return true;
  }
}

/** Syncs each file and directory of a tree. Skips what is gone by now, and everything that is neither. */
async function syncEach(directory: string): Promise<void> {
  const entries = await readdir(directory, { withFileTypes: true });
  for (const each of entries.filter((entry) => entry.isDirectory())) {
    await syncEach(path.join(directory, each.name)).catch(ignoreGone);
  }
  const files = entries.filter((entry) => entry.isFile()).map(({ name }) => path.join(directory, name));
  // Some at once, because the disk commits them together; not all, because each takes a descriptor.
  for (let done = 0; done < files.length; done += atOnce) {
    await Promise.all(files.slice(done, done + atOnce).map((file) => syncFile(file).catch(ignoreGone)));
  }
  await syncDirectory(directory);
}

/** Ignores the errors of files that are gone, or cannot be opened because their owner may not read them. */
function ignoreGone(cause: unknown): void {
  if (!['ENOENT', 'EACCES', 'ELOOP'].includes(errorCode(cause))) throw cause;
}

/**
 * Makes all files of a tree, and their names, survive a power cut.
 * @throws the system's error, also for an earlier write that the disk could not complete
 */
export async function syncTree(directory: string): Promise<void> {
  if (await hasManyNames(directory)) {
    try {
      // Syncs the whole file system, so it may also wait for the bytes of other writers. Names the parent: a directory
      // that its owner may not read cannot be named.
      await run('sync', ['--file-system', '--', path.dirname(directory)]);
      return;
    } catch (cause) {
      // Not every system has the program or this option. If the disk fails, `syncEach` below fails as well.
      if (!['ENOENT', '1'].includes(errorCode(cause))) throw cause;
    }
  }
  await syncEach(directory).catch(ignoreGone);
}
