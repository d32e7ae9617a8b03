import { carriesFiles, type Field, type FieldValue, isOfService } from '../../contract/fields.js';
import { operationOf, outputArgument } from '../../contract/operations.js';
import type { Grant } from '../executors/executor.js';
import type { JobRequest } from '../jobs/job-record.js';

export interface AppInvocation {
  /** Program and its first arguments. */
  readonly program: readonly string[];
  /** The app's directory or its repository id. */
  readonly app: string;
  readonly request: Pick<JobRequest, 'operation' | 'values' | 'files'>;
  /** Where the app writes its result. */
  readonly output: string;
  readonly grant: Pick<Grant, 'gpus'>;
}

/** One field with its value, as the app's command line spells it. */
function spell({ kind, argument }: Field, value: FieldValue): string[] {
  const flag = argument === undefined ? [] : [argument];
  if (typeof value === 'boolean') return value ? flag : [];
  const words = [value].flat().map(String);
  return kind === 'overrides' ? words.flatMap((word) => [...flag, word]) : [...flag, ...words];
}

/** What stands on the app's command line for one field; nothing where it has no value. */
function argumentsOf(field: Field, { request, output, grant }: AppInvocation): string[] {
  const { values, files } = request;
  if (isOfService(field)) return [];
  if (carriesFiles(field)) return (files[field.name] ?? []).flatMap((group) => spell(field, group));
  const hasGpus = grant.gpus.length > 0;
  if (field.role === 'gpus') return [outputArgument, output, ...(hasGpus ? spell(field, grant.gpus) : [])];
  if (field.role === 'workers' && hasGpus) return [];
  if (field.unless !== undefined && values[field.unless] !== undefined) return [];
  const value = values[field.name] ?? (field.role === 'workers' ? field.default : undefined);
  return value === undefined ? [] : spell(field, value);
}

/**
 * The argument list that runs an operation (interface.md, The app's command line). It is one pass over the operations
 * table: what the table does not name cannot reach a command line.
 */
export function commandLine(invocation: AppInvocation): string[] {
  const { verb, fields } = operationOf(invocation.request.operation);
  return [
    ...invocation.program,
    verb,
    invocation.app,
    ...fields.flatMap((field) => argumentsOf(field, invocation)),
  ];
}
