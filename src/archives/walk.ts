import type { Stats } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';

export interface WalkedFile {
  /** Relative to the root, with forward slashes. */
  readonly name: string;
  readonly path: string;
  readonly stats: Stats;
}

/**
 * The regular files and empty directories under `root`, in name order. A symbolic link counts as the file that
 * it leads to while that lies under `root`; one that leaves it, leads to a directory or leads nowhere is passed
 * over, and so is what is neither file nor directory (a FIFO would block whoever reads it).
 */
export async function* walkFiles(root: string): AsyncGenerator<WalkedFile> {
  const top = await realpath(root);
  yield* walkDirectory(top, top, '');
}

async function* walkDirectory(top: string, directory: string, prefix: string): AsyncGenerator<WalkedFile> {
  const entries = await readdir(directory, { withFileTypes: true });
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const full = path.join(directory, entry.name);
    const name = prefix + entry.name;
    if (entry.isDirectory()) {
      yield* walkDirectory(top, full, `${name}/`);
    } else if (entry.isFile() || (entry.isSymbolicLink() && (await leadsInside(top, full)))) {
      const stats = await stat(full);
      if (stats.isFile()) yield { name, path: full, stats };
    }
  }
  if (entries.length === 0 && prefix !== '') {
    yield { name: prefix, path: directory, stats: await stat(directory) };
  }
}

async function leadsInside(top: string, link: string): Promise<boolean> {
  try {
    return (await realpath(link)).startsWith(top + path.sep);
  } catch {
    return false;
  }
}
