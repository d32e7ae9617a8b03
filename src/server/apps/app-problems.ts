import { existsSync } from 'node:fs';
import path from 'node:path';
import {
  isObject,
  nearest,
  oneLine,
  parameterFaults,
  quoteName,
  quotePath,
  volumeTypes,
} from '../../contract/index.js';
import { faultWithoutPath, findProgram } from '../../files/index.js';
import type { AllowedApp } from './allowlist.js';
import { lookInCache, ownCommand, viewAppDirectory } from './app-view.js';
import {
  inWords,
  ManifestError,
  type ManifestFault,
  manifestFile,
  onLines,
  readManifest,
} from './manifest.js';
import { appManifestSchema, volumeSchema } from './manifest-schema.js';
import { jsonOf, missingPackages, type Thoroughness } from './missing-packages.js';

/** Fields that apps may have besides those in the schema. */
const otherFields = ['$schema', 'task', 'vram_plan', 'icon', 'version', 'author', 'license', 'url'];

/** Keys that are probably misspelled. Unknown keys are allowed, so only those similar to a known key are reported. */
function typos(value: unknown, known: readonly string[], at: readonly PropertyKey[]): ManifestFault[] {
  if (!isObject(value)) return [];
  return Object.keys(value).flatMap((key) => {
    if (known.includes(key) || otherFields.includes(key)) return [];
    const near = nearest(key, known);
    if (near === null || Math.abs(near.length - key.length) > 2) return [];
    return [{ path: [...at, key], problem: `there is no such field; did you mean ${quoteName(near)}?` }];
  });
}

/**
 * A volume type that is probably a misspelling of a known one. If it went unnoticed, the app would get files that it cannot read.
 */
function unknownType(volume: unknown, at: readonly PropertyKey[]): ManifestFault[] {
  const type = isObject(volume) ? volume.volume_type : undefined;
  if (typeof type !== 'string' || volumeTypes.includes(type)) return [];
  const near = nearest(type.toUpperCase(), volumeTypes);
  if (near === null) return [];
  const problem = `${quoteName(type)} takes files of every kind; did you mean ${quoteName(near)}?`;
  return [{ path: [...at, 'volume_type'], problem }];
}

/**
 * Probable mistakes in an object of volumes, at any depth: evaluations have them two levels down.
 * @param isOwn whether the app has its own command: KonfAI's engine may know other types of volumes
 */
function faultsOfVolumes(
  value: unknown,
  at: readonly PropertyKey[],
  levels: number,
  isOwn: boolean,
): ManifestFault[] {
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, each]) => {
    const place = [...at, key];
    if (levels > 0) return faultsOfVolumes(each, place, levels - 1, isOwn);
    return [
      ...typos(each, Object.keys(volumeSchema.shape), place),
      ...(isOwn ? unknownType(each, place) : []),
    ];
  });
}

/** Values of the wrong type that are accepted anyway, as KonfAI's reader does. Null counts as missing, as it does there. */
function forgiven(json: unknown): ManifestFault[] {
  const issues = appManifestSchema.safeParse(json).error?.issues ?? [];
  const valueAt = (keys: readonly PropertyKey[]): unknown =>
    keys.reduce<unknown>((value, key) => (value as Record<PropertyKey, unknown>)[key], json);
  return issues
    .filter(({ path: keys }) => valueAt(keys) !== null)
    .map(({ path: keys, message }) => ({ path: keys, problem: inWords(message) }));
}

/**
 * Probable mistakes in a usable `app.json`: misspelled fields, parameters that cannot be enforced and, for an app with its own
 * command, values of another type than in the schema.
 * @param isOwn whether the app has its own command; if KonfAI's engine runs the app, values need only be what KonfAI can read
 */
function manifestWarnings(directory: string, isOwn: boolean): ManifestFault[] {
  const json = jsonOf(manifestFile(directory));
  if (!isObject(json)) return [];
  return [
    ...typos(json, Object.keys(appManifestSchema.shape), []),
    ...faultsOfVolumes(json.inputs, ['inputs'], 0, isOwn),
    ...faultsOfVolumes(json.outputs, ['outputs'], 0, isOwn),
    ...faultsOfVolumes(json.inputs_evaluations, ['inputs_evaluations'], 2, isOwn),
    ...parameterFaults(json.parameters),
    ...(isOwn ? forgiven(json) : []),
  ];
}

/** Faults as sentences that name the file, the line and the field. */
function describe(directory: string, faults: readonly ManifestFault[]): string[] {
  if (faults.length === 0) return [];
  const file = manifestFile(directory);
  return onLines(file, faults).map(({ path: keys, problem, line }) => {
    const place = line === null ? file : `${file}, line ${line}`;
    const field = keys.length === 0 ? '' : `${oneLine(keys.map(String).join('.'))}: `;
    return `${place}: ${field}${oneLine(problem)}`;
  });
}

/** What was found about one app, in sentences for its admin. */
export interface AppFindings {
  readonly id: string;
  /** The app's own command; null for an app that the engine runs, and if `app.json` cannot be read. */
  readonly command: readonly string[] | null;
  /** Whether the engine runs the app. */
  readonly isOfEngine: boolean;
  /** Reasons why the app cannot be run. */
  readonly problems: readonly string[];
  /** Probable mistakes in an app that can be started: wrong fields in `app.json`, packages that are not installed. */
  readonly warnings: readonly string[];
  /** Missing files that the app names, without which a part of it cannot run. Not determined with `files`. */
  readonly missing: readonly string[];
}

/** The files that an app names but does not have. */
function missingFiles(id: string, directory: string): ManifestFault[] {
  const { models = [], inputs_evaluations } = readManifest(directory);
  const view = viewAppDirectory(id, directory);
  const there = view.available ? view.checkpoints_name_available : [];
  const named = [
    ...models
      .map((name, index) => ({ path: ['models', index], name }))
      .filter(({ name }) => !there.includes(name)),
    ...Object.entries(inputs_evaluations)
      .flatMap(([key, files]) =>
        Object.keys(files).map((name) => ({ path: ['inputs_evaluations', key, name], name })),
      )
      .filter(({ name }) => !existsSync(path.join(directory, name))),
  ];
  return named.map(({ path: keys, name }) => ({ path: keys, problem: `the file ${name} is not there` }));
}

/** Matches names of files that interpreters run. */
const script = /\.([cm]?js|py|R|jl|sh|pl|rb|lua)$/;

/** What is wrong with an app's command: its program cannot be executed, or its script does not exist. */
function lostProgram(
  directory: string,
  command: readonly string[] | null,
  searched: string,
): ManifestFault[] {
  const [program, ...others] = command ?? [];
  if (program === undefined) return [];
  const faults: ManifestFault[] = [];
  if (findProgram(program, searched) === undefined) {
    const isThere = path.isAbsolute(program) && existsSync(program);
    const [, environment] = /^([\w.-]+)\/bin\/python[\d.]*$/.exec(program) ?? [];
    const isOwn = environment !== undefined && existsSync(path.join(directory, 'requirements.txt'));
    const remedy = isOwn
      ? `; run 'python3 -m venv ${environment} && ${environment}/bin/python -m pip install -r requirements.txt' in ${quotePath(directory)}`
      : program === 'python3'
        ? '; install it (Debian and Ubuntu: apt-get install python3-venv), or name another Python there'
        : '';
    const problem = isThere
      ? `${quotePath(program)} is not a file that this user may execute (chmod +x)`
      : `there is no program '${program}' that can be run${remedy}`;
    faults.push({ path: ['command', 0], problem });
  }
  // Words that name a file of the app's directory are absolute at this point. Words after the script may be its arguments.
  const index = others.findIndex((word) => script.test(word));
  const file = others[index];
  if (file !== undefined && !existsSync(file) && others.slice(0, index).every((word) => word.startsWith('-')))
    faults.push({
      path: ['command', index + 1],
      problem: `there is no file ${quotePath(file)} in the app's directory`,
    });
  return faults;
}

/** All faults in the fields of an unusable `app.json`, so that its author sees them together. */
function faultsOfFields(directory: string, faults: readonly ManifestFault[]): readonly ManifestFault[] {
  const placeOf = ({ path: keys }: ManifestFault) => keys.join('.');
  const known = new Set(faults.map(placeOf));
  return [...faults, ...manifestWarnings(directory, true).filter((fault) => !known.has(placeOf(fault)))];
}

async function findingsOf(
  { id, directory, repository }: AllowedApp,
  environment: NodeJS.ProcessEnv,
  thoroughness: Thoroughness,
): Promise<AppFindings> {
  const nothing = { id, command: null, isOfEngine: false, problems: [], warnings: [], missing: [] };
  if (repository !== null) {
    const { directory: cached, faults, missing } = await lookInCache(repository, environment);
    return { ...nothing, isOfEngine: true, problems: describe(cached, faults), missing };
  }
  if (directory === null) return nothing;
  let command: readonly string[] | null;
  try {
    command = ownCommand(directory);
  } catch (cause) {
    const faults =
      cause instanceof ManifestError ? cause.faults : [{ path: [], problem: faultWithoutPath(cause) }];
    return { ...nothing, problems: describe(directory, faultsOfFields(directory, faults)) };
  }
  const searched = environment.PATH ?? '';
  return {
    id,
    command,
    isOfEngine: command === null,
    problems: describe(directory, lostProgram(directory, command, searched)),
    warnings: [
      ...describe(directory, manifestWarnings(directory, command !== null)),
      ...(command ? await missingPackages(directory, command, searched, thoroughness) : []),
    ],
    missing: thoroughness === 'files' ? [] : describe(directory, missingFiles(id, directory)),
  };
}

/**
 * Checks everything that the apps need, at the start of a server and for `check`.
 * @param engine program and first arguments, for apps without their own command
 * @param environment variables of the server, including its PATH and those of the hub
 * @returns `engineProblem`: what is wrong with the engine; null if it works or no app needs it
 */
export async function lookAtApps(
  allowed: Iterable<AllowedApp>,
  engine: readonly string[],
  environment: NodeJS.ProcessEnv,
  thoroughness: Thoroughness,
): Promise<{ readonly apps: readonly AppFindings[]; readonly engineProblem: string | null }> {
  const apps = await Promise.all([...allowed].map((app) => findingsOf(app, environment, thoroughness)));
  const ofEngine = apps.filter(({ isOfEngine }) => isOfEngine).map(({ id }) => id);
  const [program = ''] = engine;
  const isMissing = ofEngine.length > 0 && findProgram(program, environment.PATH ?? '') === undefined;
  return {
    apps,
    engineProblem: isMissing
      ? `There is no program '${oneLine(program)}', the engine that runs ${ofEngine.join(', ')}: install it, or name it with --engine`
      : null,
  };
}
