import { carriesFiles, type Field, type FieldValue } from '../../contract/fields.js';
import { operationOf } from '../../contract/operations.js';
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
function spell(field: Field, value: FieldValue): string[] {
  const flag = field.argument === undefined ? [] : [field.argument];
  if (value === true) return flag;
  if (value === false) return [];
  if (field.kind === 'overrides' && Array.isArray(value))
    return value.flatMap((item) => [...flag, String(item)]);
  return [...flag, ...(Array.isArray(value) ? value.map(String) : [String(value)])];
}

/**
 * The argument list that runs an operation (interface.md, The app's command line). It is derived from the
 * operations table alone: what the table does not name cannot reach a command line.
 */
export function commandLine({ program, app, request, output, grant }: AppInvocation): string[] {
  const { verb, fields } = operationOf(request.operation);
  const isDevice = (field: Field) => field.name === 'gpu' || field.name === 'cpu';
  const isGiven = ({ unless }: Field) => unless === undefined || request.values[unless] === undefined;

  const settings = fields.filter(
    (field) => !carriesFiles(field) && !isDevice(field) && field.name !== 'quiet',
  );
  const values = (chosen: readonly Field[]) =>
    chosen.filter(isGiven).flatMap((field) => {
      const value = request.values[field.name];
      return value === undefined ? [] : spell(field, value);
    });
  const files = (chosen: readonly Field[]) =>
    chosen.flatMap((field) => (request.files[field.name] ?? []).flatMap((group) => spell(field, group)));

  const devices =
    grant.gpus.length > 0 ? ['--gpu', ...grant.gpus.map(String)] : ['--cpu', String(request.values.cpu ?? 1)];
  return [
    ...program,
    verb,
    app,
    ...values(settings.filter((field) => !field.option)),
    ...files(fields.filter((field) => field.kind === 'archive')),
    ...values(settings.filter((field) => field.option)),
    '--output',
    output,
    ...devices,
    ...files(fields.filter((field) => field.kind === 'files')),
    ...values(fields.filter((field) => field.name === 'quiet')),
  ];
}
