import { existsSync } from 'node:fs';
import path from 'node:path';
import { oneLine } from '../../contract/quote.js';
import { faultWithoutPath } from '../../files/error-code.js';
import { findProgram } from '../../files/find-program.js';
import type { AllowedApp } from './allowlist.js';
import { ownCommand, viewAppDirectory } from './app-directory.js';
import { manifestWarnings, missingPackages, type Thoroughness } from './app-warnings.js';
import { ManifestError, type ManifestFault, manifestFile, readManifest } from './manifest.js';
import { onLines } from './manifest-lines.js';
import { lookInCache } from './repository-app.js';

/** What is found about the apps of a server, in sentences for its admin. */
export interface AllFindings {
  readonly apps: readonly AppFindings[];
  /** Apps that the engine runs. */
  readonly forEngine: readonly string[];
  /** What is wrong with the engine; null if nothing is, or if no app needs it. */
  readonly engineProblem: string | null;
}

/** Faults in sentences that name the file, the line and the field. */
async function describe(directory: string, faults: readonly ManifestFault[]): Promise<string[]> {
  if (faults.length === 0) return [];
  const file = manifestFile(directory);
  const found = await onLines(file, faults);
  return found.map(({ path: keys, problem, line }) => {
    const place = line === null ? file : `${file}, line ${line}`;
    const field = keys.length === 0 ? '' : `${oneLine(keys.map(String).join('.'))}: `;
    return `${place}: ${field}${oneLine(problem)}`;
  });
}

/** What is found about one app. */
export interface AppFindings {
  readonly id: string;
  /** Why it cannot be run. */
  readonly problems: readonly string[];
  /** Looks for what is probably wrong, although it can be started: fields of `app.json`, packages that are not installed. */
  readonly warnings: (thoroughness: Thoroughness) => Promise<readonly string[]>;
  /** Looks for files that it names and that are not there, without which a part of it can be run. */
  readonly missing: () => Promise<readonly string[]>;
}

/** The files that an app names and does not have. */
async function missingFiles(id: string, directory: string): Promise<ManifestFault[]> {
  const { models = [], inputs_evaluations } = readManifest(directory);
  const view = await viewAppDirectory(id, directory);
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

/** The program of an app's own command if it cannot be run. */
function lostProgram(command: readonly string[] | null, searched: string): ManifestFault[] {
  const [program] = command ?? [];
  if (program === undefined || findProgram(program, searched) !== undefined) return [];
  return [{ path: ['command', 0], problem: `there is no program '${program}' that can be run` }];
}

/** What is probably wrong with an app that can be started. */
async function warningsOf(
  directory: string,
  command: readonly string[] | null,
  searched: string,
  thoroughness: Thoroughness,
): Promise<string[]> {
  const ofManifest = await describe(directory, manifestWarnings(directory, command !== null));
  const ofPackages = command ? await missingPackages(directory, command, searched, thoroughness) : [];
  return [...ofManifest, ...ofPackages];
}

const nothing = async () => [];

/** The command that an app has of its own, null for one that the engine runs; or why that cannot be told. */
type Read = { readonly command: readonly string[] | null } | { readonly cause: unknown };

/** Reads the manifest of an app, if it is a directory. */
function read({ directory }: AllowedApp): Read {
  try {
    return { command: directory === null ? null : ownCommand(directory) };
  } catch (cause) {
    return { cause };
  }
}

function faultsOf(own: Read, searched: string): readonly ManifestFault[] {
  if ('command' in own) return lostProgram(own.command, searched);
  const { cause } = own;
  return cause instanceof ManifestError ? cause.faults : [{ path: [], problem: faultWithoutPath(cause) }];
}

async function findingsOf(
  { id, directory, repository }: AllowedApp,
  own: Read,
  searched: string,
): Promise<AppFindings> {
  if (repository !== null) {
    const found = await lookInCache(repository);
    return {
      id,
      problems: await describe(found.directory, found.faults),
      warnings: nothing,
      missing: async () => found.missing,
    };
  }
  if (directory === null) return { id, problems: [], warnings: nothing, missing: nothing };
  return {
    id,
    problems: await describe(directory, faultsOf(own, searched)),
    warnings: async (thoroughness) =>
      'command' in own ? warningsOf(directory, own.command, searched, thoroughness) : [],
    missing: 'command' in own ? async () => describe(directory, await missingFiles(id, directory)) : nothing,
  };
}

/**
 * Looks at all that the apps need.
 * @param engine program and first arguments for the apps without a command of their own
 * @param searched where programs are searched, as in PATH
 */
export async function lookAtApps(
  apps: Iterable<AllowedApp>,
  engine: readonly string[],
  searched: string,
): Promise<AllFindings> {
  const all = [...apps].map((app) => ({ app, own: read(app) }));
  const forEngine = all
    .filter(({ own }) => 'command' in own && own.command === null)
    .map(({ app }) => app.id);
  const [program = ''] = engine;
  const isMissing = forEngine.length > 0 && findProgram(program, searched) === undefined;
  return {
    apps: await Promise.all(all.map(({ app, own }) => findingsOf(app, own, searched))),
    forEngine,
    engineProblem: isMissing
      ? `There is no program '${oneLine(program)}', the engine that runs ${forEngine.join(', ')}: install it, or name it with --engine`
      : null,
  };
}
