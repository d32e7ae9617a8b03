import { Flags, type Interfaces } from '@oclif/core';
import {
  type Field,
  type FieldKind,
  flagName,
  isOfService,
  type OperationName,
  operationOf,
} from '../../contract/index.js';

/** The placeholder of a value in help texts, by the field's kind. */
const placeholders: Readonly<Record<FieldKind, string>> = {
  files: 'PATH[,PATH]',
  archive: 'PATH',
  integer: 'N',
  number: 'X',
  boolean: '',
  name: 'NAME',
  path: 'FILE',
  paths: 'NAME[,NAME]',
  gpus: 'ID[,ID]',
  integers: 'N[,N]',
  overrides: 'NAME=VALUE',
  text: 'TEXT',
  duration: 'TIME',
};

/** Whether people use a field's flag often: these head the help, in the order in which they are named here. */
const often = ['inputs', 'gt', 'mask', 'dataset', 'gpu', 'cpu', 'config_overrides'];

/** The section of a help text that a field's flag stands in. */
function helpGroup(field: Field): { helpGroup?: string } {
  if (often.includes(field.name)) return {};
  return { helpGroup: isOfService(field) ? 'JOB' : 'APP' };
}

/** The other spelling of a flag: the form's, with underscores. */
function aliases(field: Field): string[] {
  const name = flagName(field);
  return field.name === name ? [] : [field.name];
}

/**
 * The flag of one field. Its value stays text here: contract/values.ts parses it, as on the server. A repeatable flag takes
 * one value each time, so that it never takes a path that follows it.
 */
function fieldFlag(field: Field, fields: readonly Field[]): Interfaces.Flag<unknown> {
  const known = field.default === undefined ? '' : ` [default: ${field.default}]`;
  const shared = {
    aliases: aliases(field),
    exclusive: fields.filter(({ name }) => name === field.alternative).map(flagName),
    description: field.help + known,
    ...helpGroup(field),
    ...(field.char ? { char: field.char as Interfaces.AlphabetLowercase } : {}),
  };
  if (field.kind === 'boolean')
    return Flags.boolean({ ...shared, allowNo: true }) as Interfaces.Flag<unknown>;
  const helpValue = placeholders[field.kind];
  const repeats = field.kind === 'files' || field.kind === 'overrides';
  return (
    repeats
      ? Flags.string({ ...shared, helpValue, multiple: true, multipleNonGreedy: true })
      : Flags.string({ ...shared, helpValue })
  ) as Interfaces.Flag<unknown>;
}

/** The flags of an operation: one for each of its fields in the operations table, and no other; those that people use often come first. */
export function operationFlags(name: OperationName): Record<string, Interfaces.Flag<unknown>> {
  const { fields } = operationOf(name);
  const known = often.flatMap((each) => fields.filter((field) => field.name === each));
  return Object.fromEntries(
    [...new Set([...known, ...fields])].map((field) => [flagName(field), fieldFlag(field, fields)]),
  );
}
