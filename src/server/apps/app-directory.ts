import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { type AppManifest, type AppView, appManifestSchema } from '../../contract/app-manifest.js';
import { faultWithoutPath } from '../../files/error-code.js';

/** Files that hold model weights (interface.md, Apps). */
const weights = /\.(pt|pth|ckpt|onnx|safetensors|bin|h5)$/i;

export const isWeights = (name: string): boolean => weights.test(name);

export const isAppDirectory = (directory: string): boolean => existsSync(path.join(directory, 'app.json'));

/**
 * Reads the `app.json` of an app directory.
 * @throws Error that says which key of which file is wrong
 */
export function readManifest(directory: string): AppManifest {
  const file = path.join(directory, 'app.json');
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new Error(`app.json of this app cannot be read: ${faultWithoutPath(cause)}`, { cause });
  }
  const parsed = appManifestSchema.safeParse(json);
  if (!parsed.success) {
    throw new Error(`app.json of this app is not valid: ${z.prettifyError(parsed.error)}`);
  }
  return parsed.data;
}

/** All file names in the directory and below, without an app's own packages. */
function fileNames(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
    .map((entry) => entry.name);
}

/** The answer of `GET /repo_apps/{id}` for an app directory. Files are read each time, so that new checkpoints appear. */
export function viewAppDirectory(app: string, directory: string): AppView {
  let manifest: AppManifest;
  let names: Set<string>;
  try {
    manifest = readManifest(directory);
    names = new Set(fileNames(directory));
  } catch (cause) {
    return { app, available: false, reason: faultWithoutPath(cause) };
  }
  const { tta, models, command: _, terminology, ...shown } = manifest;
  const checkpoints = models ?? [...names].filter(isWeights).sort();
  return {
    app,
    available: true,
    ...shown,
    checkpoints_name: checkpoints,
    checkpoints_name_available: checkpoints.filter((name) => names.has(path.basename(name))),
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
