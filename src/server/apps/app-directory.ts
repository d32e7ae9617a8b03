import { existsSync, lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { type AppManifest, type AppView, appManifestSchema } from '../../contract/app-manifest.js';
import { faultWithoutPath } from '../../files/error-code.js';
import { readSmallFile } from '../../files/small-file.js';
import { coerceManifest } from './coerce-manifest.js';

/** Files that hold model weights (interface.md, Apps). */
const weights = /\.(pt|pth|ckpt|onnx|safetensors|bin|h5)$/i;

export const isWeights = (name: string): boolean => weights.test(name);

export const isAppDirectory = (directory: string): boolean => existsSync(path.join(directory, 'app.json'));

/** Most bytes of an `app.json`, which is read in one go for each question and each job: hundreds of labels take 50 KB. */
const longestManifest = 1024 * 1024;

/** Most levels of objects and lists in it. The schema needs 5; a far deeper one could not be written as an answer. */
const deepest = 64;

/** Whether a value has more levels of objects and lists than that. Not recursive: the call stack would not hold them. */
function isTooDeep(json: unknown): boolean {
  let level = [json];
  for (let depth = 0; depth <= deepest && level.length > 0; depth += 1) {
    level = level.flatMap((value) =>
      typeof value === 'object' && value !== null ? Object.values(value) : [],
    );
  }
  return level.length > 0;
}

/**
 * Reads the `app.json` of an app directory.
 * @returns what it says, and under `more` the keys that we do not know, such as `task`
 * @throws Error that says which key of which file is wrong
 */
export function readManifest(
  directory: string,
): AppManifest & { readonly more: Readonly<Record<string, unknown>> } {
  const file = path.join(directory, 'app.json');
  let json: unknown;
  try {
    json = JSON.parse(readSmallFile(file, longestManifest));
  } catch (cause) {
    // The sentence of a syntax error quotes the file, which may be another one than the app's if it is a link.
    const isQuoted = cause instanceof SyntaxError && lstatSync(file).isSymbolicLink();
    const why = isQuoted ? 'it is a link to a file that is not JSON' : faultWithoutPath(cause);
    throw new Error(`app.json of this app cannot be read: ${why}`, { cause });
  }
  if (isTooDeep(json)) {
    throw new Error(
      `app.json of this app is not valid: it has more than ${deepest} levels of objects and lists`,
    );
  }
  const coerced = coerceManifest(json);
  const parsed = appManifestSchema.safeParse(coerced);
  if (!parsed.success) {
    throw new Error(`app.json of this app is not valid: ${z.prettifyError(parsed.error)}`);
  }
  const others = Object.entries(Object(coerced)).filter(
    ([key]) => !Object.hasOwn(appManifestSchema.shape, key),
  );
  return { ...parsed.data, more: Object.fromEntries(others) };
}

/** A file of an app, by its name and the directory that it is in. */
interface AppFile {
  readonly name: string;
  readonly parentPath: string;
}

/** All files in the directory and below, without an app's own packages. */
function filesOf(directory: string): AppFile[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !entry.parentPath.includes('node_modules'),
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

/** Imported lazily to keep start-up fast: most servers are never asked. */
const patchSizeOf = async (directory: string): Promise<number[] | null> =>
  (await import('./prediction-patch.js')).readPatchSize(directory);

/** The answer of `GET /repo_apps/{id}` for an app directory. Files are read each time, so that new checkpoints appear. */
export async function viewAppDirectory(app: string, directory: string): Promise<AppView> {
  let manifest: ReturnType<typeof readManifest>;
  let files: AppFile[];
  try {
    manifest = readManifest(directory);
    files = filesOf(directory);
  } catch (cause) {
    return { app, available: false, reason: faultWithoutPath(cause) };
  }
  const names = new Set(files.map(({ name }) => name));
  const { tta, models, command: _, terminology, more, ...shown } = manifest;
  const checkpoints = models ?? [...names].filter(isWeights).sort();
  return {
    ...more,
    app,
    available: true,
    ...shown,
    patch_size: shown.patch_size ?? (await patchSizeOf(directory)),
    checkpoints_name: checkpoints,
    checkpoints_name_available: [
      ...checkpoints.filter(
        (name) => names.has(path.basename(name)) || names.has(`${path.basename(name)}.pt`),
      ),
      ...addedCheckpoints(directory, checkpoints, files),
    ],
    maximum_tta: tta,
    has_capabilities: [
      Object.keys(shown.inputs).length > 0,
      Object.keys(shown.inputs_evaluations).length > 0,
      names.has('Uncertainty.yml'),
    ],
    finetunable: existsSync(path.join(directory, 'Config.yml')),
    ...(terminology ? { terminology } : {}),
  };
}

/**
 * The program of an app directory: its own command, in which an element that names a file of the directory becomes
 * absolute; null if it has no command.
 */
export function ownCommand(directory: string): readonly string[] | null {
  const { command } = readManifest(directory);
  if (!command) return null;
  return command.map((element) => {
    const file = path.resolve(directory, element);
    const isInside = file.startsWith(directory + path.sep);
    return isInside && existsSync(file) ? file : element;
  });
}
