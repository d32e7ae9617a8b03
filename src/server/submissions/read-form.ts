import {
  carriesFiles,
  type Field,
  FieldError,
  type FieldValue,
  type FieldValues,
  fieldWithRole,
  groupsField,
  maxNames,
  type Operation,
  oneLine,
  operationNames,
  operationOf,
  optionsField,
  quoteName,
  readOption,
  readText,
  volumeSuffix,
} from '../../contract/index.js';
import { maxNameBytes } from '../../files/index.js';
import { maxFiles } from './limits.js';

/** A text part. */
export interface ReceivedField {
  readonly name: string;
  readonly text: string;
}

/** A file part, whose content is on disk. */
export interface ReceivedFile {
  readonly field: string;
  /** The file name as the client sent it. */
  readonly name: string;
  readonly path: string;
  /** Whether the file is an upload, which must stay in place because other submissions may name it: the job gets a copy. */
  readonly isUpload?: boolean;
}

/** The parts of a multipart body, in their order. */
export interface ReceivedForm {
  readonly fields: readonly ReceivedField[];
  readonly files: readonly ReceivedFile[];
  /** Size in bytes of the whole body. */
  readonly bytes: number;
}

/** The values that the texts of a form contain. */
export interface FormFields {
  /** Including the defaults. */
  readonly values: FieldValues;
  /** Names of the fields to which the client gave a value. */
  readonly given: ReadonlySet<string>;
  readonly options: FieldValues;
  /** Names of fields that no operation has. */
  readonly ignored: readonly string[];
}

/** Kinds of fields whose value is a list: these may be sent as one text or repeated. All other fields are sent once. */
const listKinds = new Set(['paths', 'gpus', 'integers']);

/** All field names that a form of this operation may have. */
function formNames(operation: Operation): Set<string> {
  const names = operation.fields.filter((field) => !field.option).map((field) => field.name);
  const groups = operation.fields.filter((field) => field.kind === 'files').map(groupsField);
  return new Set([...names, ...groups, optionsField]);
}

/** An operation that has a field with this name. */
const ownerOf = (name: string) => operationNames.find((each) => formNames(operationOf(each)).has(name));

/** Names of unknown fields. @throws FieldError for the name of another operation's field, or of an option */
function unknownNames(operation: Operation, names: readonly string[]): string[] {
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
function textOf(fields: readonly ReceivedField[], name: string, isList: boolean): string | undefined {
  const texts = fields.filter((field) => field.name === name).map(({ text }) => text);
  if (texts.length > 1 && !isList) throw new FieldError(name, `was sent ${texts.length} times; send it once`);
  return texts.length === 0 ? undefined : texts.join(',');
}

/**
 * Reads the JSON field `options` of an operation.
 * @throws FieldError for anything but a JSON object, an unknown option, an option of another operation, or a bad value
 */
function readOptions(operation: Operation, json: string): FieldValues {
  let given: unknown;
  try {
    given = json.trim() === '' ? {} : JSON.parse(json);
  } catch (cause) {
    throw new FieldError(optionsField, `must be a JSON object: ${oneLine(String(cause))}`);
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new FieldError(optionsField, 'must be a JSON object');
  }
  const known = operation.fields.filter((field) => field.option);
  const values: Record<string, FieldValue> = {};
  for (const [name, value] of Object.entries(given)) {
    const field = known.find((each) => each.name === name);
    if (!field) {
      const names = known.map((each) => each.name).join(', ') || 'none';
      const problem = `has the unknown key ${quoteName(name)}; ${operation.segment} takes: ${names}`;
      throw new FieldError(optionsField, problem);
    }
    values[name] = readOption(field, value);
  }
  return values;
}

/** The sizes of the groups of a file field, and their sum; null if none are given. */
function readSizes(field: Field, fields: readonly ReceivedField[]) {
  const name = groupsField(field);
  const text = textOf(fields, name, true)?.replace(/^[\s,]+$/, '') ?? '';
  const sizes = readText({ name, kind: 'integers', help: '', min: 1 }, text) as number[] | undefined;
  return sizes ? { sizes, sum: sizes.reduce((total, size) => total + size, 0) } : null;
}

/** Checks what the texts of a form say about a file field. */
function checkFilesField(field: Field, fields: readonly ReceivedField[]): void {
  if (fields.some(({ name, text }) => name === field.name && text.trim() !== '')) {
    throw new FieldError(field.name, 'must be sent as a file');
  }
  if (field.kind !== 'files') return;
  const sum = readSizes(field, fields)?.sum ?? 0;
  if (sum > maxFiles) {
    const problem = `gives sizes that add up to ${sum}; a form has at most ${maxFiles} files`;
    throw new FieldError(groupsField(field), problem);
  }
}

/**
 * Reads the texts of a form by the operations table: of the whole form, or of the part before its files.
 * @throws FieldError (422) for the first field of the wrong type or out of range
 */
function readFields(operation: Operation, fields: readonly ReceivedField[]): FormFields {
  // An empty value counts as absent, even for a field of another operation.
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
    const effective = value ?? field.default;
    if (effective !== undefined) values[field.name] = effective;
  }
  const options = readOptions(operation, textOf(fields, optionsField, false) ?? '');
  return { values, given, options, ignored };
}

/** @throws FieldError if the field does not accept files */
function checkFileField(operation: Operation, name: string): void {
  const isKnown = unknownNames(operation, [name]).length === 0;
  const field = operation.fields.find((each) => each.name === name);
  if (isKnown && !(field && carriesFiles(field)))
    throw new FieldError(name, 'must be sent as text, not as a file');
}

/**
 * Checks what is known of a form when a file begins: the fields before the first file, and the name of each file field. A faulty
 * submission is thus refused before its files are sent. Later fields are checked at the end.
 */
export class EarlyChecks {
  readonly #seen = new Set<string>();

  /** @param checkValues throws for valid values that the app or this server does not accept */
  constructor(
    private readonly operation: Operation,
    private readonly checkValues: (fields: FormFields) => void,
  ) {}

  /**
   * Checks the field of a file that begins now.
   * @param name of that field
   * @param fields the text fields before the file
   * @throws ServiceError
   */
  beforeFile(name: string, fields: readonly ReceivedField[]): void {
    if (this.#seen.has(name)) return;
    if (this.#seen.size === 0) this.checkValues(readFields(this.operation, fields));
    this.#seen.add(name);
    checkFileField(this.operation, name);
  }
}

/** The form of a submission, checked against the operations table. */
export interface SubmissionForm extends Omit<FormFields, 'options'> {
  readonly acceptedOptions: readonly string[];
  /** Files by field, in one list per group. */
  readonly groups: ReadonlyMap<Field, readonly (readonly ReceivedFile[])[]>;
  /** The user's own label for the job; null if there is none. */
  readonly tag: string | null;
  /** Whether the client states that nothing in the submission identifies a person. */
  readonly deidentified: boolean;
  /** Names of the first input files of the operation. */
  readonly inputs: readonly string[];
}

/**
 * The sizes of a file field's groups. @throws FieldError if they do not add up to the number of files (docs/http.md, Submission)
 */
function groupSizes(field: Field, form: ReceivedForm, count: number): number[] {
  const { sizes, sum } = readSizes(field, form.fields) ?? { sizes: [count], sum: count };
  if (sum === count) return sizes;
  const problem = `gives sizes that add up to ${sum}, but ${count} file(s) were sent`;
  throw new FieldError(groupsField(field), problem);
}

function groupFiles(field: Field, form: ReceivedForm): ReceivedFile[][] {
  const files = form.files.filter((file) => file.field === field.name);
  if (files.length === 0) {
    if (field.required) throw new FieldError(field.name, 'is required: send at least one file');
    // Files that were meant to be sent are missing: the job would run without them, but do something else.
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

/** Whether the values of a form claim that nothing in it identifies a person. */
export const isDeidentified = (operation: Operation, values: FieldValues): boolean =>
  values[fieldWithRole(operation, 'deidentified').name] === true;

/** The last part of a file's name; for a directory volume, the name of the directory. */
const shownName = ({ name }: ReceivedFile): string =>
  (name.split(/[/\\]/).at(-1) ?? '').slice(0, maxNameBytes).replace(volumeSuffix, '');

/**
 * Reads a form by the operations table.
 * @throws FieldError (422) for the first field that is missing, of the wrong type or out of range
 */
export function readForm(operation: Operation, form: ReceivedForm): SubmissionForm {
  const fileFields = [...new Set(form.files.map(({ field }) => field))];
  for (const name of fileFields) checkFileField(operation, name);
  const { values, given, options, ignored } = readFields(operation, form.fields);
  const groups = new Map<Field, ReceivedFile[][]>();
  for (const field of operation.fields.filter(carriesFiles)) groups.set(field, groupFiles(field, form));
  const tag = values[fieldWithRole(operation, 'tag').name];
  const inputs = groups.get(fieldWithRole(operation, 'paths')) ?? [];
  return {
    values: { ...values, ...options },
    given,
    acceptedOptions: Object.keys(options).sort(),
    groups,
    tag: tag === undefined ? null : String(tag),
    deidentified: isDeidentified(operation, values),
    inputs: inputs.flat().slice(0, maxNames).map(shownName),
    ignored: [...new Set([...ignored, ...unknownNames(operation, fileFields)])],
  };
}
