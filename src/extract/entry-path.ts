import path from 'node:path';
import { isSafeName } from '../files/safe-name.js';

/** A path that begins with a drive letter, which is absolute on Windows. */
const drivePath = /^[A-Za-z]:/;

/** Most parts of a path. */
const deepest = 64;

/**
 * The path that an archive's entry gets under `root`. Null for a name that would leave `root`, is absolute on any system,
 * or has a part that is not safe (see `isSafeName`).
 */
export function entryPath(
  root: string,
  name: string,
  platform: NodeJS.Platform = process.platform,
): string | null {
  const parts = name.replace(/\/+$/, '').split('/');
  if (drivePath.test(name) || parts.length > deepest || !parts.every((part) => isSafeName(part, platform)))
    return null;
  return path.join(root, ...parts);
}

/** `entryPath` for many names under one root: a directory that several names share is checked once. */
export function entryPaths(
  root: string,
  platform: NodeJS.Platform = process.platform,
): (name: string) => string | null {
  const directories = new Map<string, string | null>();
  return (name) => {
    const slash = name.lastIndexOf('/');
    const base = name.slice(slash + 1);
    if (slash < 1 || base === '' || name[slash - 1] === '/') return entryPath(root, name, platform);
    const parent = name.slice(0, slash);
    let directory = directories.get(parent);
    if (directory === undefined) {
      directory = entryPath(root, parent, platform);
      directories.set(parent, directory);
    }
    return directory === null || !isSafeName(base, platform) ? null : directory + path.sep + base;
  };
}
