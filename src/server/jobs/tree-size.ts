import { lstat, opendir } from 'node:fs/promises';
import path from 'node:path';

/** Bytes of the regular files below a directory. What cannot be read counts as nothing; no link is followed. */
export async function treeSize(root: string): Promise<number> {
  let bytes = 0;
  const left = [root];
  for (let directory = left.pop(); directory !== undefined; directory = left.pop()) {
    try {
      for await (const entry of await opendir(directory)) {
        const name = path.join(directory, entry.name);
        if (entry.isDirectory()) left.push(name);
        else if (entry.isFile())
          bytes += await lstat(name).then(
            ({ size }) => size,
            () => 0,
          );
      }
    } catch {
      // It was removed meanwhile, or an app has made it unreadable.
    }
  }
  return bytes;
}
