import type { FoundFiles, Unit } from '../../client/found-files.js';

/** The result of collecting the paths of one group. */
export interface Collected
  extends Pick<FoundFiles, 'skipped' | 'copies' | 'strays' | 'followed' | 'objects'> {
  readonly units: readonly Unit[];
  /** Directories of which all files are sent, since none has a format that is known. */
  readonly unknown: readonly string[];
  /** Directories that were visited before by another path. */
  readonly repeated: readonly string[];
}
