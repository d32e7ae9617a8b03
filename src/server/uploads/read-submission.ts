import { FieldError } from '../../contract/errors.js';
import { carriesFiles, type Field, type FieldValues, groupsField } from '../../contract/fields.js';
import type { Operation } from '../../contract/operations.js';
import { readGroups } from '../../contract/values.js';
import { checkFileField } from './early-checks.js';
import { readFields, textOf, unknownNames } from './read-fields.js';
import type { ReceivedFile, ReceivedForm } from './received-form.js';

/** A submission's form, checked against the operations table. */
export interface SubmissionForm {
  /** With the defaults filled in. */
  readonly values: FieldValues;
  /** Fields that the client gave a value. */
  readonly given: ReadonlySet<string>;
  readonly acceptedOptions: readonly string[];
  /** Files by field, one list a group. */
  readonly groups: ReadonlyMap<Field, readonly (readonly ReceivedFile[])[]>;
  /** Names of fields that no operation has. */
  readonly ignored: readonly string[];
}

/** @throws FieldError where sizes were sent that do not add up to the number of files (interface.md, Submission) */
function groupSizes(field: Field, form: ReceivedForm, count: number): number[] {
  const name = groupsField(field);
  return readGroups(name, textOf(form.fields, name, true), count);
}

function groupFiles(field: Field, form: ReceivedForm): ReceivedFile[][] {
  const files = form.files.filter((file) => file.field === field.name);
  if (files.length === 0) {
    if (field.required) throw new FieldError(field.name, 'is required: send at least one file');
    // Files that were meant to come are missing: without them the job would run, and do something else.
    if (field.kind === 'files') groupSizes(field, form, 0);
    return [];
  }
  if (field.kind === 'archive') {
    if (files.length > 1)
      throw new FieldError(field.name, `takes one zip archive, got ${files.length} files`);
    return [files];
  }
  let start = 0;
  return groupSizes(field, form, files.length).map((size) => {
    start += size;
    return files.slice(start - size, start);
  });
}

/**
 * Reads a form by the operations table.
 * @throws FieldError (422) for the first field that is missing, of the wrong type or out of range
 */
export function readSubmission(operation: Operation, form: ReceivedForm): SubmissionForm {
  const fileFields = [...new Set(form.files.map(({ field }) => field))];
  for (const name of fileFields) checkFileField(operation, name);
  const { values, given, options, ignored } = readFields(operation, form.fields);
  const groups = new Map<Field, ReceivedFile[][]>();
  for (const field of operation.fields.filter(carriesFiles)) groups.set(field, groupFiles(field, form));
  return {
    values: { ...values, ...options },
    given,
    acceptedOptions: Object.keys(options).sort(),
    groups,
    ignored: [...new Set([...ignored, ...unknownNames(operation, fileFields)])],
  };
}
