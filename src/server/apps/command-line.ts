import { carriesFiles, type Field, type FieldValue, isOfService } from '../../contract/fields.js';
import { operationOf, outputArgument } from '../../contract/operations.js';
import type { Grant } from '../executors/index.js';
import type { JobRequest } from '../jobs/index.js';

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

/** The GPUs, or without one the number of workers on the CPU. */
function deviceWords(field: Field, { request, grant }: Pick<AppInvocation, 'request' | 'grant'>): string[] {
  const hasGpus = grant.gpus.length > 0;
  if (field.role === 'gpus') return hasGpus ? spell(field, grant.gpus) : [];
  const value = request.values[field.name] ?? field.default;
  return hasGpus || value === undefined ? [] : spell(field, value);
}

/** What stands on the app's command line for one field; nothing where it has no value. */
function argumentsOf(field: Field, invocation: AppInvocation): string[] {
  const { values, files } = invocation.request;
  if (isOfService(field)) return [];
  if (carriesFiles(field)) return (files[field.name] ?? []).flatMap((group) => spell(field, group));
  if (field.role === 'gpus') return [outputArgument, invocation.output, ...deviceWords(field, invocation)];
  if (field.role === 'workers') return deviceWords(field, invocation);
  if (field.unless !== undefined && values[field.unless] !== undefined) return [];
  const value = values[field.name];
  return value === undefined ? [] : spell(field, value);
}

/** The operation of a command line that loads an app and keeps it. */
const residentVerb = 'resident';

/**
 * The argument list that loads an app, or an engine, for one job after the other on these devices.
 * @param app null for an engine, which is told the app with each job
 */
export function residentCommandLine(
  program: readonly string[],
  app: string | null,
  invocation: Pick<AppInvocation, 'request' | 'grant'>,
): string[] {
  const { fields } = operationOf(invocation.request.operation);
  const devices = fields.filter(({ role }) => role === 'gpus' || role === 'workers');
  const words = devices.flatMap((field) => deviceWords(field, invocation));
  return [...program, residentVerb, ...(app === null ? [] : [app]), ...words];
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
