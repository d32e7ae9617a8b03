import type { Field, FieldValue, Operation } from '../contract/index.js';

/** The paths for one `files` field, as a person gave them: one list per group. */
export interface PathGroups {
  readonly field: Field;
  readonly groups: readonly (readonly string[])[];
}

/** Which files of directories and patterns are wanted. A file that is named itself always is. */
export interface Selection {
  /** Labels of participants, with or without `sub-`. */
  readonly participants?: readonly string[];
  /** Labels of sessions, with or without `ses-`. */
  readonly sessions?: readonly string[];
  /** What names end with before their ending, such as `T1w`. */
  readonly suffixes?: readonly string[];
  /** Patterns of files and directories that are not wanted. */
  readonly exclude?: readonly string[];
}

/** One operation on one app, as a person asked for it. Values that were not given are left out: the server has defaults. */
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
  /** Whether files beside volumes that are not volumes themselves are sent as well. */
  readonly allFiles?: boolean;
  readonly selection?: Selection;
}
