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
import { readGroups, readOptions, readText } from '../../contract/values.js';
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

function checkNames(operation: Operation, form: ReceivedForm): string[] {
  const known = formNames(operation);
  // An empty value counts as absent, also for a field of another operation.
  const texts = form.fields.filter(({ text }) => text.trim() !== '').map(({ name }) => name);
  const names = new Set([...texts, ...form.files.map(({ field }) => field)]);
  const foreign = [...names].filter((name) => !known.has(name));
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

function textOf(form: ReceivedForm, name: string, isList: boolean): string | undefined {
  const texts = form.fields.filter((field) => field.name === name).map(({ text }) => text);
  if (texts.length > 1 && !isList) throw new FieldError(name, `was sent ${texts.length} times; send it once`);
  return texts.length === 0 ? undefined : texts.join(',');
}

function groupFiles(field: Field, form: ReceivedForm): ReceivedFile[][] {
  const files = form.files.filter((file) => file.field === field.name);
  if (form.fields.some(({ name, text }) => name === field.name && text.trim() !== '')) {
    throw new FieldError(field.name, 'must be sent as a file');
  }
  if (files.length === 0) {
    if (field.required) throw new FieldError(field.name, 'is required: send at least one file');
    return [];
  }
  if (field.kind === 'archive') {
    if (files.length > 1)
      throw new FieldError(field.name, `takes one zip archive, got ${files.length} files`);
    return [files];
  }
  const name = groupsField(field);
  let start = 0;
  return readGroups(name, textOf(form, name, true), files.length).map((size) => {
    start += size;
    return files.slice(start - size, start);
  });
}

/**
 * Reads a form by the operations table.
 * @throws FieldError (422) for the first field that is missing, of the wrong type or out of range
 */
export function readSubmission(operation: Operation, form: ReceivedForm): SubmissionForm {
  const ignored = checkNames(operation, form);
  const values: Record<string, FieldValue> = {};
  const given = new Set<string>();
  const groups = new Map<Field, ReceivedFile[][]>();

  for (const field of operation.fields.filter((each) => !each.option)) {
    if (carriesFiles(field)) {
      groups.set(field, groupFiles(field, form));
      continue;
    }
    if (form.files.some((file) => file.field === field.name)) {
      throw new FieldError(field.name, 'must be sent as text, not as a file');
    }
    const value = readText(field, textOf(form, field.name, listKinds.has(field.kind)) ?? '');
    if (value !== undefined) given.add(field.name);
    const settled = value ?? field.default;
    if (settled !== undefined) values[field.name] = settled;
  }
  const options = readOptions(operation, textOf(form, optionsField, false) ?? '');
  return {
    values: { ...values, ...options },
    given,
    acceptedOptions: Object.keys(options).sort(),
    groups,
    ignored,
  };
}
