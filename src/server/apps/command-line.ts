import path from 'node:path';
import {
  carriesFiles,
  type Field,
  type FieldValue,
  isOfService,
  oneLine,
  operationOf,
  outputArgument,
} from '../../contract/index.js';
import { findProgram, readScriptStart } from '../../files/index.js';
import type { Grant } from '../executors/index.js';
import type { JobFiles, JobRequest } from '../jobs/index.js';
import { SetupError } from '../setup-error.js';

interface AppInvocation {
  /** The program and its first arguments. */
  readonly program: readonly string[];
  /** The app's directory, or its repository id. */
  readonly app: string;
  readonly request: Pick<JobRequest, 'operation' | 'values'> & { readonly files: JobFiles };
  /** Where the app is to write its result. */
  readonly output: string;
  readonly grant: AppGrant;
}

/** The devices of an app: its GPUs or, without any, its CPU slots; 0 if these are not known. */
type AppGrant = Pick<Grant, 'gpus' | 'cpuSlots'>;

/** The words for a field and its value on the app's command line. */
function spell({ kind, argument }: Field, value: FieldValue): string[] {
  const flag = argument === undefined ? [] : [argument];
  if (typeof value === 'boolean') return value ? flag : [];
  const words = [value].flat().map(String);
  return kind === 'overrides' ? words.flatMap((word) => [...flag, word]) : [...flag, ...words];
}

/** The parts of an invocation that determine the devices. */
interface AppDevices extends Pick<AppInvocation, 'grant'> {
  readonly request: Pick<JobRequest, 'operation' | 'values'>;
}

/** The words for the granted GPUs or, without any, for the requested CPU workers, limited to the granted number. */
function deviceWords(field: Field, { request, grant }: AppDevices): string[] {
  const hasGpus = grant.gpus.length > 0;
  if (field.role === 'gpus') return hasGpus ? spell(field, grant.gpus) : [];
  const value = request.values[field.name] ?? field.default;
  if (hasGpus || value === undefined) return [];
  return spell(field, grant.cpuSlots > 0 ? Math.min(Number(value), grant.cpuSlots) : value);
}

/** The arguments for one field; empty if it has no value. */
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

/** The operation that loads an app and keeps it loaded, as its command line names it. */
const residentVerb = 'resident';

/**
 * The argument list that loads an app or an engine on these devices, to run one job after another.
 * @param app null for an engine, which gets the app with each job
 */
export function residentCommandLine(
  program: readonly string[],
  app: string | null,
  invocation: AppDevices,
): string[] {
  const { fields } = operationOf(invocation.request.operation);
  const devices = fields.filter(({ role }) => role === 'gpus' || role === 'workers');
  const words = devices.flatMap((field) => deviceWords(field, invocation));
  return [...program, residentVerb, ...(app === null ? [] : [app]), ...words];
}

/**
 * The argument list that runs an operation (docs/http.md, The app's command line). It is built in one pass over the operations
 * table, so nothing outside the table can reach a command line.
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

/** The file in the directory `engines` of this package that keeps KonfAI's engine loaded. */
const konfaiWorker = 'konfai_worker.py';

/** Matches the start of a pip script whose interpreter path is too long or contains a space, so that a shell runs it. */
const startedByShell = /^'''exec'\s+"?([^"\n]+?)"?\s+"\$0"/m;

/** The Python of a KonfAI script; undefined for anything else. */
function pythonOf(file: string, searched: string): string | undefined {
  const { shebang, text } = readScriptStart(file);
  if (!text.includes('konfai_apps')) return undefined;
  const [, throughShell] = startedByShell.exec(text) ?? [];
  if (throughShell !== undefined) return throughShell;
  const python = shebang.find((word) => path.basename(word).startsWith('python'));
  return python === undefined ? undefined : findProgram(python, searched);
}

/**
 * The command that starts a resident engine; `resident` and the devices are appended to it. KonfAI's engine is kept loaded by a
 * file of this package, which runs with KonfAI's own Python; any other engine must speak the protocol itself.
 * @param engine program and first arguments, as given in `--engine`
 * @param searched where to search for programs, in the form of PATH
 * @param workers the directory `engines` of this package
 * @throws SetupError if the Python of KonfAI's engine cannot be determined
 */
export function residentEngine(
  engine: readonly string[],
  searched: string,
  workers: string,
): readonly string[] {
  const worker = path.join(workers, konfaiWorker);
  const [program = '', ...words] = engine;
  if (words.join(' ') === '-m konfai_apps') return [program, worker];
  if (words.length > 0) return engine;
  const file = findProgram(program, searched);
  const python = file === undefined ? undefined : pythonOf(file, searched);
  if (python !== undefined) return [python, worker];
  if (file !== undefined && path.basename(program) === 'konfai-apps') {
    throw new SetupError(
      `${oneLine(file)} does not say which Python it is for, so it cannot be kept loaded: name the program of KonfAI's ` +
        'environment itself, as in --engine /opt/konfai/bin/konfai-apps, or leave --engine-resident out',
    );
  }
  return engine;
}
