import { UsageError } from '../../client/errors.js';
import type { PathGroups, Submission } from '../../client/submission.js';
import {
  type Field,
  FieldError,
  type FieldValue,
  flagName,
  isTyped,
  type OperationName,
  operationOf,
  readText,
} from '../../contract/index.js';
import { expandHome } from '../../files/index.js';
import { checkPathOrder, splitPaths, type Word } from './path-order.js';

/** A command line as oclif has parsed it. */
interface ParsedFlags {
  readonly flags: Readonly<Record<string, unknown>>;
  /** Positional arguments, in order. */
  readonly paths: readonly string[];
  /** Flags and paths, in order. */
  readonly words: readonly Word[];
}

const named = (field: Field): string => `--${flagName(field)}`;

/** The positional paths, if they belong to this field. */
const positional = (field: Field, { paths }: ParsedFlags): readonly string[] =>
  field.role === 'paths' ? paths.map((each) => expandHome(each)) : [];

/** Parses a flag's text as the server does, so that a bad value is refused before anything is sent. */
function read(field: Field, text: string): FieldValue | undefined {
  try {
    return readText(field, text);
  } catch (error) {
    if (error instanceof FieldError) throw new UsageError(`${named(field)} ${error.problem}`);
    throw error;
  }
}

/** A field's value; undefined if its flag was not given or is empty. */
function fieldValue(field: Field, given: unknown): FieldValue | undefined {
  if (typeof given === 'boolean') return given;
  if (typeof given === 'string') return read(field, given);
  if (!Array.isArray(given)) return undefined;
  const items = given.flatMap((text) => (read(field, String(text)) ?? []) as string[]);
  return items.length > 0 ? items : undefined;
}

/** A value as the text of a form field. */
const wire = (value: FieldValue): string => (Array.isArray(value) ? value.join(',') : String(value));

/** Expands `~/`, because a shell does not expand it after a comma. */
const expanded = (paths: readonly string[]): string[] => paths.map((each) => expandHome(each));

/** The groups of a `files` field: the positional paths form the first group, and each flag forms another. */
function groupsOf(field: Field, parsed: ParsedFlags): PathGroups {
  const given = parsed.flags[flagName(field)];
  const flags = Array.isArray(given)
    ? given.map((text) => expanded(splitPaths(expandHome(String(text)))))
    : [];
  const groups = [positional(field, parsed), ...flags].filter((group) => group.length > 0);
  if (field.required && groups.length === 0) {
    if (field.role === 'paths') {
      throw new UsageError(`No ${field.name} given: name files or directories, or use ${named(field)}`);
    }
    throw new UsageError(`No ${field.name} given: use ${named(field)} (${field.help})`);
  }
  return { field, groups };
}

function archiveOf(field: Field, parsed: ParsedFlags): Submission['archive'] {
  const flag = parsed.flags[flagName(field)];
  const typed = typeof flag === 'string' && flag !== '' ? [expandHome(flag)] : [];
  const given = [...positional(field, parsed), ...typed];
  if (given.length > 1) throw new UsageError(`One data set is enough, got: ${given.join(', ')}`);
  const [path] = given;
  if (path === undefined) throw new UsageError(`The data set is missing: name it, or give ${named(field)}`);
  return { field, path };
}

/**
 * Turns a command line into a submission. Only given values are sent, because the server knows the defaults.
 * @throws UsageError naming the flag
 */
export async function readSubmission(
  name: OperationName,
  parsed: ParsedFlags,
): Promise<Omit<Submission, 'app'>> {
  const operation = operationOf(name);
  checkPathOrder(operation.fields, parsed.words);
  const fields: Record<string, string> = {};
  const options: Record<string, FieldValue> = {};
  const files: PathGroups[] = [];
  let archive: Submission['archive'] = null;
  for (const field of operation.fields.filter(isTyped)) {
    if (field.kind === 'files') {
      const groups = groupsOf(field, parsed);
      if (groups.groups.length > 0) files.push(groups);
    } else if (field.kind === 'archive') {
      archive = archiveOf(field, parsed);
    } else {
      const value = fieldValue(field, parsed.flags[flagName(field)]);
      if (value === undefined) continue;
      if (field.option) options[field.name] = value;
      else fields[field.name] = wire(value);
    }
  }
  return { operation, fields, options, files, archive };
}
