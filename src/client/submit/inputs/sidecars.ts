import path from 'node:path';

/** Endings of files that describe volumes, or say something about a data set. */
const ending = /\.(json|bval|bvec|txt|tsv|csv|md|rst|cff|pdf|html?|log)$/i;

/** Names of such files that have no ending, and of what systems leave in directories. */
const name = /^(README|CHANGES|CHANGELOG|LICEN[CS]E|Thumbs\.db|desktop\.ini)$/i;

/** Whether a file belongs to volumes and is not one itself, by its name. */
export function isSidecar(file: string): boolean {
  const base = path.basename(file);
  return ending.test(base) || name.test(base);
}
