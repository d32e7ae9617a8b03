import type { VolumeFile } from '@remote-app/volumes';
import type { Terminology } from '../matching/index.js';

/** What is drawn on a scan, or beside it. */
export interface Layer {
  readonly name: string;
  readonly file: VolumeFile;
  /** What its labels mean, as the record beside it says. */
  readonly terminology: Terminology;
  /** What the app calls the unit of the scan's intensities, and of its own. */
  readonly units: { readonly inputs: string | null; readonly outputs: string | null };
}

/** A scan and what came back of it; volumes whose header has been read. A case without any has only notes. */
export interface CaseToShow {
  readonly name: string;
  readonly scan: VolumeFile | null;
  readonly masks: readonly Layer[];
  /** Continuous volumes that were made from the scan, such as an uncertainty. */
  readonly maps: readonly Layer[];
  /** What a person should know: which scan was found, which was chosen of several, and why a case failed. */
  readonly notes: readonly string[];
  /** The note saying that the scan was found through the record, or null. */
  readonly recorded: string | null;
  /** In the table beside its result: `done`, `failed`; null without a table. */
  readonly status: string | null;
}
