import path from 'node:path';

/**
 * Endings of files that describe volumes, say something about a data set, or belong to the viewer on a patient's disc. A set,
 * since V8 takes 2 ms to compile so many words as a pattern that ignores case, in each start of a command.
 */
const endings = new Set(
  'json bval bvec txt tsv csv md rst cff pdf htm html xml log inf ini exe dll bat lnk ico chm url'.split(' '),
);

/** Names of such files that have no ending, and of what systems and DICOM leave in directories. */
const names = new Set(['readme', 'changes', 'changelog', 'licence', 'license', 'dicomdir', 'thumbs.db']);

/** Whether a file belongs to volumes and is not one itself, by its name. */
export function isSidecar(file: string): boolean {
  const name = path.basename(file).toLowerCase();
  const dot = name.lastIndexOf('.');
  return (dot >= 0 && endings.has(name.slice(dot + 1))) || names.has(name);
}
