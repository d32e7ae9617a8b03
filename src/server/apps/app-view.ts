import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import type { AppView, AvailableApp, RepositoryState } from '../../contract/index.js';
import { errorCode, faultWithoutPath, filesBelow, orElse } from '../../files/index.js';
import { HubError, hubSettings, type RepositoryName, TrackedRepository } from '../hub/index.js';
import { isWeights } from '../weights.js';
import {
  ManifestError,
  type ManifestFault,
  manifestFile,
  type ReadManifest,
  readManifest,
} from './manifest.js';
import { readPrediction } from './prediction.js';

/** Whether a directory has an `app.json`. @throws the system's error, such as EACCES */
export function isAppDirectory(directory: string): boolean {
  try {
    return statSync(manifestFile(directory), { throwIfNoEntry: false }) !== undefined;
  } catch (cause) {
    if (errorCode(cause) === 'ENOTDIR') return false;
    throw cause;
  }
}

/** A file of an app, by its name and the directory that it is in. */
interface AppFile {
  readonly name: string;
  readonly parentPath: string;
}

/** All files in a directory and below, without installed packages: a Python environment has some 10,000 files. */
const filesOf = (directory: string): AppFile[] =>
  filesBelow(
    directory,
    (place) => path.basename(place) === 'node_modules' || existsSync(path.join(place, 'pyvenv.cfg')),
  );

/**
 * Names of files that count as checkpoints although the app does not list them: files of the same kind beside a listed one, such
 * as a fine-tuned checkpoint that an admin added. At the top of an app only weights count, because `app.json` is there too.
 */
function addedCheckpoints(directory: string, listed: readonly string[], files: readonly AppFile[]): string[] {
  const names = new Set(listed.flatMap((each) => [path.basename(each), `${path.basename(each)}.pt`]));
  const placeOf = ({ name, parentPath }: AppFile) => path.join(parentPath, `*${path.extname(name)}`);
  const places = new Set(files.filter(({ name }) => names.has(name)).map(placeOf));
  return files
    .filter((file) => !names.has(file.name) && places.has(placeOf(file)))
    .filter(({ name, parentPath }) => isWeights(name) || path.relative(directory, parentPath) !== '')
    .map(({ name }) => name)
    .sort();
}

/** What an app's description is based on, in addition to its manifest. */
interface AppParts {
  readonly directory: string;
  /** The names of all its files, without directories. */
  readonly names: ReadonlySet<string>;
  /** The names of those files that are on this machine. */
  readonly present: ReadonlySet<string>;
  /** Returns checkpoints that exist although the app does not list them. */
  readonly added: (listed: readonly string[]) => readonly string[];
}

/** The answer of `GET /repo_apps/{id}` for an app directory. Files are read each time, so that new checkpoints appear. */
export function viewAppDirectory(app: string, directory: string): AppView {
  try {
    const manifest = readManifest(directory);
    const files = filesOf(directory);
    const names = new Set(files.map(({ name }) => name));
    const added = (listed: readonly string[]) => addedCheckpoints(directory, listed, files);
    return describeApp(app, manifest, { directory, names, present: names, added });
  } catch (cause) {
    return { app, available: false, reason: faultWithoutPath(cause) };
  }
}

/** The description of an app from its manifest and files, wherever the files are. */
function describeApp(
  app: string,
  manifest: ReadManifest,
  { directory, names, present, added }: AppParts,
): AvailableApp {
  const {
    tta,
    models,
    command: _command,
    resident: _resident,
    shared: _shared,
    terminology,
    parameters: declared,
    more,
    ...shown
  } = manifest;
  // Dropped because clients take `version` for the server's version of the app's files.
  const { version: _ofAuthor, ...others } = more;
  const checkpoints = models ?? [...names].filter(isWeights).sort();
  const { patchSize, parameters: ofModel } = readPrediction(directory);
  // Parameters that the app itself declares take precedence.
  const parameters = declared ?? ofModel;
  return {
    ...others,
    app,
    available: true,
    ...shown,
    patch_size: shown.patch_size ?? patchSize,
    checkpoints_name: checkpoints,
    checkpoints_name_available: [
      ...checkpoints.filter(
        (name) => present.has(path.basename(name)) || present.has(`${path.basename(name)}.pt`),
      ),
      ...added(checkpoints),
    ],
    maximum_tta: tta,
    has_capabilities: [
      Object.keys(shown.inputs).length > 0,
      Object.keys(shown.inputs_evaluations).length > 0,
      names.has('Uncertainty.yml'),
    ],
    finetunable: existsSync(path.join(directory, 'Config.yml')),
    ...(terminology ? { terminology } : {}),
    ...(parameters ? { parameters } : {}),
  };
}

/** How an app directory is run. */
export interface OwnProgram {
  /** The app's command; words that name a file or directory of the app are made absolute. */
  readonly command: readonly string[];
  /** Whether the app can stay loaded between jobs. */
  readonly isResident: boolean;
  /** Whether the app keeps nothing of a job, so that a loaded one may run jobs of several owners. */
  readonly isShared: boolean;
}

/** How an app directory is run; null if it has no command of its own. @throws ManifestError */
export function ownProgram(directory: string): OwnProgram | null {
  const { command, resident, shared } = readManifest(directory);
  if (!command) return null;
  const words = command.map((element) => {
    const file = path.resolve(directory, element);
    const isInside = file.startsWith(directory + path.sep);
    return isInside && existsSync(file) ? file : element;
  });
  return { command: words, isResident: resident ?? false, isShared: shared ?? false };
}

/** The command of an app directory; null if it has none. @throws ManifestError */
export const ownCommand = (directory: string): readonly string[] | null =>
  ownProgram(directory)?.command ?? null;

/** Whether the program of an app directory is loaded once for many jobs; false where `app.json` cannot be read. */
export const staysLoaded = (directory: string): boolean =>
  orElse(() => ownProgram(directory)?.isResident ?? false, false);

/** An app from a repository, as it is in the cache. The hub is never asked here. */
export interface RepositoryApp {
  readonly tracked: TrackedRepository;
  readonly folder: string | null;
}

const baseNames = (names: readonly string[]): Set<string> =>
  new Set(names.map((name) => path.posix.basename(name)));

const checkedAt = (tracked: TrackedRepository): string | null =>
  tracked.hubStatus.checkedAt?.toISOString() ?? null;

/** The answer of `GET /repo_apps/{id}` for an app of a repository. */
export async function viewRepositoryApp(app: string, { tracked, folder }: RepositoryApp): Promise<AppView> {
  try {
    const { commit, directory, present, listed } = await tracked.files(folder);
    const view = describeApp(app, readManifest(directory, 'repository'), {
      directory,
      names: baseNames(listed),
      present: baseNames(present.map(({ name }) => name)),
      added: () => [],
    });
    const { repository: name, revision, hubStatus } = tracked;
    return {
      ...view,
      repository: { name, revision, commit, checked_at: checkedAt(tracked), problem: hubStatus.problem },
    };
  } catch (cause) {
    return { app, available: false, reason: faultWithoutPath(cause) };
  }
}

/** The same in brief: whether the app is available, and the result of the last check of the hub. */
export async function repositoryState(
  app: string,
  { tracked, folder }: RepositoryApp,
): Promise<RepositoryState> {
  const view = await viewRepositoryApp(app, { tracked, folder });
  return {
    app,
    available: view.available,
    commit: tracked.cache.commitOf(tracked.revision),
    checked_at: checkedAt(tracked),
    problem: view.available ? tracked.hubStatus.problem : view.reason,
  };
}

/**
 * What is wrong with or missing from an app of a repository, as far as the server knows without asking the hub.
 * @throws SetupError for settings that cannot be used
 */
export async function lookInCache(
  name: RepositoryName,
  environment: NodeJS.ProcessEnv,
): Promise<{
  readonly directory: string;
  readonly faults: readonly ManifestFault[];
  readonly missing: readonly string[];
}> {
  const settings = hubSettings(environment);
  let directory = settings.cache;
  try {
    ({ directory } = await new TrackedRepository(name, settings).files(name.folder));
    readManifest(directory, 'repository');
    return { directory, faults: [], missing: [] };
  } catch (cause) {
    if (cause instanceof ManifestError) return { directory, faults: cause.faults, missing: [] };
    if (!(cause instanceof HubError)) throw cause;
    const fetched = `it is not in ${settings.cache}; a server fetches it from ${settings.endpoint} when it has started`;
    return { directory, faults: [], missing: [settings.isOffline ? cause.message : fetched] };
  }
}
