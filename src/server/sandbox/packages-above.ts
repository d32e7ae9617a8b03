import { existsSync } from 'node:fs';
import path from 'node:path';

/**
 * Where Node looks for the packages of a program in this directory beside the directory itself: `node_modules` of each
 * directory above it, as in a workspace of npm, which keeps the packages of all its members there.
 */
export function packagesAbove(directory: string): string[] {
  const above = path.dirname(directory);
  if (above === directory) return [];
  const packages = path.join(above, 'node_modules');
  return [...(existsSync(packages) ? [packages] : []), ...packagesAbove(above)];
}
