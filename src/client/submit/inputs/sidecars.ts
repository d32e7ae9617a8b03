import path from 'node:path';

/** Endings of files that describe volumes, say something about a data set, or belong to the viewer on a patient's disc. */
const ending =
  /\.(json|bval|bvec|txt|tsv|csv|md|rst|cff|pdf|html?|xml|log|inf|ini|exe|dll|bat|lnk|ico|chm|url)$/i;

/** Names of such files that have no ending, and of what systems and DICOM leave in directories. */
const name = /^(README|CHANGES|CHANGELOG|LICEN[CS]E|DICOMDIR|Thumbs\.db)$/i;

/** Whether a file belongs to volumes and is not one itself, by its name. */
export function isSidecar(file: string): boolean {
  const base = path.basename(file);
  return ending.test(base) || name.test(base);
}
