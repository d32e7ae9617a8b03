import path from 'node:path';

/** Windows opens a device for these names in any directory and with any extension. */
const deviceName = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const controls = /[\u0000-\u001f\u007f]/;

/** Longest file name that common file systems take, in bytes. */
const maxNameBytes = 255;

/** Whether one path part can be a file's name on every system that the archive may reach. */
export function isSafeName(name: string): boolean {
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    Buffer.byteLength(name) <= maxNameBytes &&
    !controls.test(name) &&
    !/[/\\]/.test(name) &&
    !deviceName.test(name)
  );
}

/**
 * Where an archive's entry lands under `root`, or null for a name that would leave it: absolute, with a
 * drive letter, with `..`, with a device's name, or with characters that some system reads as a separator.
 */
export function entryPath(root: string, name: string): string | null {
  const parts = name.replace(/\/+$/, '').split('/');
  if (/^[A-Za-z]:/.test(name) || parts.length > 64 || !parts.every(isSafeName)) return null;
  return path.join(root, ...parts);
}

/** `entryPath` for many names under one root: a directory that names share is looked at once. */
export function entryPaths(root: string): (name: string) => string | null {
  const directories = new Map<string, string | null>();
  return (name) => {
    const slash = name.lastIndexOf('/');
    const base = name.slice(slash + 1);
    if (slash < 1 || base === '' || name[slash - 1] === '/') return entryPath(root, name);
    const parent = name.slice(0, slash);
    let directory = directories.get(parent);
    if (directory === undefined) {
      directory = entryPath(root, parent);
      directories.set(parent, directory);
    }
    return directory === null || !isSafeName(base) ? null : directory + path.sep + base;
  };
}
