import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { expandHome } from '../../files/home-path.js';
import { type RepositoryName, readRepositoryName } from '../hub/repository-name.js';
import { SetupError } from '../setup-error.js';
import { isAppDirectory } from './app-directory.js';

/** One app that the admin allows. */
export interface AllowedApp {
  /** Its identifier for clients. */
  readonly id: string;
  /** A directory of this machine, absolute; null for a repository. */
  readonly directory: string | null;
  /** Which repository it is in; null for a directory. */
  readonly repository: RepositoryName | null;
  /** The app on the app's command line: the directory, or the repository's id. */
  readonly argument: string;
}

const listSchema = z.object({
  apps: z.array(
    z.union([z.string().min(1), z.object({ name: z.string().min(1), source: z.string().min(1) })]),
  ),
});

function isDirectory(source: string): boolean {
  return statSync(source, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** The app of a source: a directory on this machine, otherwise a repository. */
function appOf(id: string, source: string, base: string): AllowedApp {
  const directory = path.resolve(base, expandHome(source));
  if (isDirectory(directory)) return { id, directory, repository: null, argument: directory };
  if (/^[/.~]/.test(source)) {
    const advice = /^~[^/]/.test(source) ? "; only '~/' stands for a home directory here" : '';
    throw new SetupError(`App '${id}': there is no directory ${directory}${advice}`);
  }
  const repository = readRepositoryName(source);
  if (repository === null) {
    throw new SetupError(
      `App '${id}': '${source}' is neither a directory nor an app of a repository (owner/name:app or owner/name@revision:app)`,
    );
  }
  return { id, directory: null, repository, argument: source };
}

function readList(file: string): AllowedApp[] {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new SetupError(`--apps ${file}: it is not JSON: ${cause instanceof Error ? cause.message : cause}`);
  }
  const parsed = listSchema.safeParse(json);
  if (!parsed.success) throw new SetupError(`--apps ${file}: ${z.prettifyError(parsed.error)}`);
  return parsed.data.apps.map((entry) =>
    typeof entry === 'string'
      ? appOf(entry, entry, path.dirname(file))
      : appOf(entry.name, entry.source, path.dirname(file)),
  );
}

function readSource(source: string): AllowedApp[] {
  const place = expandHome(source);
  const stats = statSync(place, { throwIfNoEntry: false });
  if (stats?.isFile()) return readList(path.resolve(place));
  if (!stats?.isDirectory()) return [appOf(source, source, process.cwd())];
  const directory = path.resolve(place);
  const named = (each: string) => ({
    id: path.basename(each),
    directory: each,
    repository: null,
    argument: each,
  });
  if (isAppDirectory(directory)) return [named(directory)];
  const apps = readdirSync(directory)
    .sort()
    .map((name) => path.join(directory, name))
    .filter(isAppDirectory);
  if (apps.length === 0) {
    throw new SetupError(`--apps ${source}: neither this directory nor one directly in it has an app.json`);
  }
  return apps.map(named);
}

/**
 * The apps that `serve --apps` allows: each source is a JSON file, an app directory, a directory of app
 * directories, or a repository id (interface.md, serve).
 * @throws SetupError that says which source is wrong, or which name is there twice
 */
export function readAllowlist(sources: readonly string[]): ReadonlyMap<string, AllowedApp> {
  const apps = new Map<string, AllowedApp>();
  for (const app of sources.flatMap(readSource)) {
    const other = apps.get(app.id);
    if (other && other.argument === app.argument) {
      throw new SetupError(`App '${app.id}' is given twice with --apps: ${app.argument}; give it once`);
    }
    if (other) {
      throw new SetupError(
        `Two apps are called '${app.id}': ${other.argument} and ${app.argument}; rename one`,
      );
    }
    apps.set(app.id, app);
  }
  return apps;
}
