import { type Dirent, readdirSync } from 'node:fs';
import path from 'node:path';

/**
 * The files in a directory and below. Links are not followed: Node's own recursive `readdirSync` follows them since Node 22, and
 * fails where they lead in a circle.
 * @param isLeftOut whether a directory of this name is left out with all below it
 * @throws the system's error if a directory cannot be read
 */
export function filesBelow(directory: string, isLeftOut = (_name: string) => false): Dirent[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isFile()) return [entry];
    if (!entry.isDirectory() || isLeftOut(entry.name)) return [];
    return filesBelow(path.join(directory, entry.name), isLeftOut);
  });
}
