import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import type { AppView, AvailableApp } from '../../contract/app-manifest.js';
import { isWeights } from '../../contract/weights.js';
import { errorCode, faultWithoutPath } from '../../files/error-code.js';
import { manifestFile, type ReadManifest, readManifest } from './manifest.js';
import { readPrediction } from './prediction-file.js';

/** Whether a directory is that of an app. @throws the system's error where that cannot be told */
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

/** All files in the directory and below, without an app's own packages. */
function filesOf(directory: string): AppFile[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true }).filter(
    (entry) =>
      entry.isFile() && !path.relative(directory, entry.parentPath).split(path.sep).includes('node_modules'),
  );
}

/**
 * Names of files that count as checkpoints although the app does not list them: those of the same kind beside one that it
 * lists, such as what a fine-tuning wrote and an admin put there. At the top of an app only weights count: `app.json` lies
 * there.
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

/** What an app is described from, beside its manifest. */
export interface AppParts {
  readonly directory: string;
  /** The names of its files, without their directories. */
  readonly names: ReadonlySet<string>;
  /** Those of its files that are on this machine. */
  readonly present: ReadonlySet<string>;
  /** Checkpoints that are there although the app does not list them. */
  readonly added: (listed: readonly string[]) => readonly string[];
}

/** The answer of `GET /repo_apps/{id}` for an app directory. Files are read each time, so that new checkpoints appear. */
export async function viewAppDirectory(app: string, directory: string): Promise<AppView> {
  try {
    const manifest = readManifest(directory);
    const files = filesOf(directory);
    const names = new Set(files.map(({ name }) => name));
    const added = (listed: readonly string[]) => addedCheckpoints(directory, listed, files);
    return await describeApp(app, manifest, { directory, names, present: names, added });
  } catch (cause) {
    return { app, available: false, reason: faultWithoutPath(cause) };
  }
}

/** The same from what was read of an app, wherever its files are. */
export async function describeApp(
  app: string,
  manifest: ReadManifest,
  { directory, names, present, added }: AppParts,
): Promise<AvailableApp> {
  const {
    tta,
    models,
    command: _command,
    resident: _resident,
    terminology,
    parameters: declared,
    more,
    ...shown
  } = manifest;
  const checkpoints = models ?? [...names].filter(isWeights).sort();
  const { patchSize, parameters: ofModel } = readPrediction(directory);
  // What the app itself says counts.
  const parameters = declared ?? ofModel;
  return {
    ...more,
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

/** What an app directory is run by. */
export interface OwnProgram {
  /** Its command, in which an element that names a file or a directory in the app's is absolute. */
  readonly command: readonly string[];
  /** Whether it can stay loaded from one job to the next. */
  readonly isResident: boolean;
}

/** The program of an app directory; null if it has no command of its own. @throws ManifestError */
export function ownProgram(directory: string): OwnProgram | null {
  const { command, resident } = readManifest(directory);
  if (!command) return null;
  const words = command.map((element) => {
    const file = path.resolve(directory, element);
    const isInside = file.startsWith(directory + path.sep);
    return isInside && existsSync(file) ? file : element;
  });
  return { command: words, isResident: resident ?? false };
}

/** The command of an app directory; null if it has none. @throws ManifestError */
export const ownCommand = (directory: string): readonly string[] | null =>
  ownProgram(directory)?.command ?? null;
