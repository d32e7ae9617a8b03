import { FieldError } from '../../contract/errors.js';
import {
  carriesFiles,
  type Field,
  type FieldValue,
  type FieldValues,
  groupsField,
  optionsField,
} from '../../contract/fields.js';
import { type Operation, operationNames, operationOf } from '../../contract/operations.js';
import { readOptions, readSizes, readText } from '../../contract/values.js';
import { maxFiles } from './form-limits.js';
import type { ReceivedField } from './received-form.js';

/** What the texts of a form say. */
export interface FormFields {
  /** With the defaults filled in. */
  readonly values: FieldValues;
  /** Fields that the client gave a value. */
  readonly given: ReadonlySet<string>;
  readonly options: FieldValues;
  /** Names of fields that no operation has. */
  readonly ignored: readonly string[];
}

/** Kinds of fields whose value is a list: they may be sent as one text or repeated. Other fields are sent once. */
const listKinds = new Set(['paths', 'gpus', 'integers']);

/** All field names that a form of this operation may have. */
function formNames(operation: Operation): Set<string> {
  const names = operation.fields.filter((field) => !field.option).map((field) => field.name);
  const groups = operation.fields.filter((field) => field.kind === 'files').map(groupsField);
  return new Set([...names, ...groups, optionsField]);
}

/** An operation that has a field of this name. */
const ownerOf = (name: string) => operationNames.find((each) => formNames(operationOf(each)).has(name));

/** The names that no operation has. @throws FieldError for a name of another operation, or of an option */
export function unknownNames(operation: Operation, names: readonly string[]): string[] {
  const known = formNames(operation);
  const foreign = [...new Set(names)].filter((name) => !known.has(name));
  for (const name of foreign) {
    if (operation.fields.some((field) => field.name === name)) {
      throw new FieldError(name, `is an option: send it inside the JSON field '${optionsField}'`);
    }
    const owner = ownerOf(name);
    if (owner !== undefined) {
      throw new FieldError(name, `belongs to ${owner}; ${operation.segment} has no such field`);
    }
  }
  return foreign;
}

/** The text of a field; undefined if it was not sent. */
export function textOf(fields: readonly ReceivedField[], name: string, isList: boolean): string | undefined {
  const texts = fields.filter((field) => field.name === name).map(({ text }) => text);
  if (texts.length > 1 && !isList) throw new FieldError(name, `was sent ${texts.length} times; send it once`);
  return texts.length === 0 ? undefined : texts.join(',');
}

/** Checks what the texts of a form say about a field of files. */
function checkFilesField(field: Field, fields: readonly ReceivedField[]): void {
  if (fields.some(({ name, text }) => name === field.name && text.trim() !== '')) {
    throw new FieldError(field.name, 'must be sent as a file');
  }
  if (field.kind !== 'files') return;
  const name = groupsField(field);
  const sizes = readSizes(name, textOf(fields, name, true));
  const sum = sizes?.reduce((total, size) => total + size, 0) ?? 0;
  if (sum > maxFiles) {
    throw new FieldError(name, `gives sizes that add up to ${sum}; a form has at most ${maxFiles} files`);
  }
}

/**
 * Reads the texts of a form by the operations table: of the whole form, or of the part before its files.
 * @throws FieldError (422) for the first field of the wrong type or out of range
 */
export function readFields(operation: Operation, fields: readonly ReceivedField[]): FormFields {
  // An empty value counts as absent, also for a field of another operation.
  const names = fields.filter(({ text }) => text.trim() !== '').map(({ name }) => name);
  const ignored = unknownNames(operation, names);
  const values: Record<string, FieldValue> = {};
  const given = new Set<string>();
  for (const field of operation.fields.filter((each) => !each.option)) {
    if (carriesFiles(field)) {
      checkFilesField(field, fields);
      continue;
    }
    const value = readText(field, textOf(fields, field.name, listKinds.has(field.kind)) ?? '');
    if (value !== undefined) given.add(field.name);
    const settled = value ?? field.default;
    if (settled !== undefined) values[field.name] = settled;
  }
  const options = readOptions(operation, textOf(fields, optionsField, false) ?? '');
  return { values, given, options, ignored };
}
