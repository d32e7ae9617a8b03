import type { Field, FieldValue, Operation } from '../contract/index.js';

/** The paths for one `files` field, as the user gave them: one list per group. */
export interface PathGroups {
  readonly field: Field;
  readonly groups: readonly (readonly string[])[];
}

/** Which files in directories and from patterns are selected. A file named explicitly always is. */
export interface Selection {
  /** Labels of participants, with or without `sub-`. */
  readonly participants?: readonly string[];
  /** Labels of sessions, with or without `ses-`. */
  readonly sessions?: readonly string[];
  /** Last parts of names before the file ending, such as `T1w`. */
  readonly suffixes?: readonly string[];
  /** Patterns for files and directories to leave out. */
  readonly exclude?: readonly string[];
}

/**
 * One operation on one app, as the user requested it. Values that were not given are left out, because the server has defaults.
 */
export interface Submission {
  readonly operation: Operation;
  readonly app: string;
  /** Form fields by their names on the wire. */
  readonly fields: Readonly<Record<string, string>>;
  /** The values in the field `options` (docs/http.md, Submission). */
  readonly options: Readonly<Record<string, FieldValue>>;
  readonly files: readonly PathGroups[];
  /** The data set of a fine-tuning: a directory or a zip archive. */
  readonly archive: { readonly field: Field; readonly path: string } | null;
  /** Whether to send files beside volumes that are not volumes themselves as well. */
  readonly allFiles?: boolean;
  readonly selection?: Selection;
}
