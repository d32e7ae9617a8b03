import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import {
  decodedText,
  expandHome,
  faultWithoutPath,
  isDirectory,
  isSystemError,
  monotonicTime,
} from '../../files/index.js';
import type { ChangedApps } from '../events.js';
import { type RepositoryName, readRepositoryName } from '../hub/index.js';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';
import { isAppDirectory } from './app-view.js';

/** One app that the admin allows. */
export interface AllowedApp {
  /** The app's id, as clients use it. */
  readonly id: string;
  /** A directory of this machine, absolute; null for a repository. */
  readonly directory: string | null;
  /** The repository that the app is in; null for a directory. */
  readonly repository: RepositoryName | null;
  /** What stands for the app on its command line: the directory, or the repository's id. */
  readonly argument: string;
  /** Whether the app's jobs may use the network in their sandbox. The admin decides this, not the app. */
  readonly network: boolean;
}

const listSchema = z.object({
  apps: z.array(
    z.union([
      z.string().min(1),
      z.object({ name: z.string().min(1), source: z.string().min(1), network: z.boolean().default(false) }),
    ]),
  ),
});

/** The app that a source names: an existing directory on this machine, otherwise a repository. */
function appOf(id: string, source: string, base: string, network = false): AllowedApp {
  const directory = path.resolve(base, expandHome(source));
  if (isDirectory(directory)) return { id, directory, repository: null, argument: directory, network };
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
  return { id, directory: null, repository, argument: source, network };
}

function readList(file: string): AllowedApp[] {
  const text = decodedText(readFileSync(file));
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new SetupError(`--apps ${file}: it is not JSON: ${cause instanceof Error ? cause.message : cause}`);
  }
  const parsed = listSchema.safeParse(json);
  if (!parsed.success) throw new SetupError(`--apps ${file}: ${z.prettifyError(parsed.error)}`);
  const base = path.dirname(file);
  return parsed.data.apps.flatMap((entry) => {
    if (typeof entry !== 'string') return appOf(entry.name, entry.source, base, entry.network);
    const directory = path.resolve(base, expandHome(entry));
    const isParent = isDirectory(directory) && !isAppDirectory(directory);
    const inside = isParent ? appsOf(directory).apps : [];
    return inside.length > 0 ? inside : appOf(entry, entry, base);
  });
}

/** A source in `serve --apps` and the apps in it. */
interface AppSource {
  /** The source in the form in which it was given. */
  readonly source: string;
  /** Whether the source is a directory of app directories, to which apps can be added. */
  readonly isParent: boolean;
  readonly apps: readonly AllowedApp[];
  /** Sentences about subdirectories that cannot be read. */
  readonly unreadable: readonly string[];
}

const unreadable = (place: string, cause: unknown): string =>
  `--apps ${place}: it cannot be read: ${faultWithoutPath(cause)}; the user of the server must be able to`;

/** An app directory of this machine under its own name, absolute. */
const ownNamed = (directory: string): AllowedApp => appOf(path.basename(directory), directory, directory);

/** A directory at the top of many file systems that only root can read. */
const notOfApps = 'lost+found';

/** Reads the current apps in a directory of app directories. @throws SetupError if it cannot be read */
function appsOf(source: string): AppSource {
  const parent = path.resolve(expandHome(source));
  const found: AllowedApp[] = [];
  const problems: string[] = [];
  for (const name of namesIn(parent, source)) {
    const directory = path.join(parent, name);
    try {
      if (isAppDirectory(directory)) found.push(ownNamed(directory));
    } catch (cause) {
      if (name !== notOfApps) problems.push(unreadable(directory, cause));
    }
  }
  return { source, isParent: true, apps: found, unreadable: problems };
}

function namesIn(parent: string, source: string): string[] {
  try {
    return readdirSync(parent).sort();
  } catch (cause) {
    throw new SetupError(unreadable(source, cause), { cause });
  }
}

function readSource(source: string): AppSource {
  const single = (apps: readonly AllowedApp[]): AppSource => ({
    source,
    isParent: false,
    apps,
    unreadable: [],
  });
  try {
    const place = expandHome(source);
    const stats = statSync(place, { throwIfNoEntry: false });
    if (stats?.isFile()) return single(readList(path.resolve(place)));
    if (!stats?.isDirectory()) return single([appOf(source, source, process.cwd())]);
    const directory = path.resolve(place);
    return isAppDirectory(directory) ? single([ownNamed(directory)]) : appsOf(source);
  } catch (cause) {
    throw isSystemError(cause) ? new SetupError(unreadable(source, cause), { cause }) : cause;
  }
}

/** Sentences about the problems of a directory of app directories; empty for any other source. */
export function sourceProblems({ source, isParent, apps, unreadable }: AppSource): readonly string[] {
  if (!isParent || apps.length + unreadable.length > 0) return unreadable;
  return [`--apps ${source}: neither this directory nor one directly in it has an app.json`];
}

/**
 * Reads what `serve --apps` names: each source is a JSON file, an app directory, a directory of app directories, or a
 * repository id. A directory may be empty if other apps are served: its last app may have been
 * removed.
 * @throws SetupError that says which source is wrong
 */
export function readSources(sources: readonly string[]): readonly AppSource[] {
  const read = sources.map(readSource);
  const [problem] = read.flatMap(sourceProblems);
  if (problem && read.every(({ apps }) => apps.length === 0)) throw new SetupError(problem);
  return read;
}

/**
 * The apps of these sources, by id.
 * @throws SetupError that names a duplicate
 */
export function uniqueApps(sources: readonly AppSource[]): ReadonlyMap<string, AllowedApp> {
  const apps = new Map<string, AllowedApp>();
  for (const app of sources.flatMap((each) => each.apps)) {
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

/** Ids of the apps to which the admin grants something extra, by the flag of `serve` that does so. */
export interface NamedApps {
  /** Apps whose jobs may use the network in their sandbox. */
  readonly network: readonly string[];
  /** Apps whose workers may run jobs of all owners, if `app.json` says `"shared": true`. */
  readonly 'share-workers': readonly string[];
}

/**
 * Checks that all apps named in flags of `serve` exist.
 * @throws SetupError that names one that does not
 */
export function checkNamedApps(named: NamedApps, apps: ReadonlyMap<string, AllowedApp>): void {
  for (const [flag, ids] of Object.entries(named)) {
    const unknown = ids.find((id: string) => !apps.has(id));
    if (unknown === undefined) continue;
    const known = [...apps.keys()].join(', ') || 'none';
    throw new SetupError(`--${flag} ${unknown}: there is no such app; there are: ${known}`);
  }
}

/** Milliseconds before the directories are read again. */
const lookInterval = 1000;

interface AppChanges {
  readonly changed: (change: ChangedApps) => void;
  /** Called with the reason why newly found apps cannot be used; the current apps are then kept. */
  readonly failed: Report;
}

/**
 * The apps of `serve --apps`. Directories of app directories are read again when a client asks for an app, at most once a second,
 * so that a new app is found without a reload. All other sources are read again only by `reload`.
 */
export class AllowedApps {
  #sources: readonly AppSource[];
  #apps: ReadonlyMap<string, AllowedApp>;
  #lastLook = monotonicTime();
  #lastProblem = '';

  /** @throws SetupError that names the wrong source or the duplicate */
  constructor(
    private readonly names: readonly string[],
    private readonly changes: AppChanges,
  ) {
    this.#sources = readSources(names);
    this.#apps = uniqueApps(this.#sources);
    for (const problem of this.#sources.flatMap(sourceProblems)) {
      this.changes.failed('A directory has no app that can be used', problem);
    }
  }

  /** The current apps, by id. */
  get current(): ReadonlyMap<string, AllowedApp> {
    if (monotonicTime() - this.#lastLook > lookInterval) this.#look();
    return this.#apps;
  }

  /**
   * Reads all sources again.
   * @throws SetupError; the current apps are then kept
   */
  reload(): void {
    this.#take(readSources(this.names));
  }

  #look(): void {
    this.#lastLook = monotonicTime();
    try {
      this.#take(this.#sources.map((source) => (source.isParent ? appsOf(source.source) : source)));
      this.#lastProblem = '';
    } catch (cause) {
      const problem = String(cause);
      if (problem !== this.#lastProblem) this.changes.failed('The apps could not be looked at again', cause);
      this.#lastProblem = problem;
    }
  }

  #take(sources: readonly AppSource[]): void {
    const [before, after] = [this.#apps, uniqueApps(sources)];
    this.#sources = sources;
    this.#apps = after;
    this.#lastLook = monotonicTime();
    const added = [...after.keys()].filter((id) => !before.has(id));
    const removed = [...before.keys()].filter((id) => !after.has(id));
    if (added.length + removed.length > 0) this.changes.changed({ added, removed });
  }
}
