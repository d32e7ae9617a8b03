import type { Field, FieldValue } from '../../contract/fields.js';
import type { Operation } from '../../contract/operations.js';

/** Paths of one `files` field, as a person gave them: one list a group. */
export interface PathGroups {
  readonly field: Field;
  readonly groups: readonly (readonly string[])[];
}

/** One operation on one app, as a person asked for it. What was not given is not in it: the server has the defaults. */
export interface Submission {
  readonly operation: Operation;
  readonly app: string;
  /** Form fields by name, as the wire spells them. */
  readonly fields: Readonly<Record<string, string>>;
  /** What travels inside the field `options` (spec.md, Job options field). */
  readonly options: Readonly<Record<string, FieldValue>>;
  readonly files: readonly PathGroups[];
  /** The data set of a fine-tuning: a directory or a zip archive. */
  readonly archive: { readonly field: Field; readonly path: string } | null;
}
