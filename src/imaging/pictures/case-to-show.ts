import type { VolumeFile } from '@remote-app/volumes';
import type { Terminology } from '../matching/index.js';

/** A volume that is drawn on a scan, or beside it. */
export interface Layer {
  readonly name: string;
  readonly file: VolumeFile;
  /** The meaning of its labels, from the record beside it. */
  readonly terminology: Terminology;
  /** Units of the scan's intensities and of the layer's values, as the app names them. */
  readonly units: { readonly inputs: string | null; readonly outputs: string | null };
}

/** A scan with its results, as volumes whose headers have been read. A case without volumes has only notes. */
export interface CaseToShow {
  readonly name: string;
  readonly scan: VolumeFile | null;
  readonly masks: readonly Layer[];
  /** Continuous volumes that were made from the scan, such as an uncertainty. */
  readonly maps: readonly Layer[];
  /** Notes for the user: which scan was found, which of several was chosen, and why a case failed. */
  readonly notes: readonly string[];
  /** The note saying that the scan was found through the record, or null. */
  readonly recorded: string | null;
  /** The case's status in the cohort's table, `done` or `failed`; null if there is no table beside the result. */
  readonly status: string | null;
}
