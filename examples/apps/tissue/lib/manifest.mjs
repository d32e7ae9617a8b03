import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { ServiceError } from './errors.mjs';

/** The app's own `app.json`: the limits and the tissue names that the operations go by. */
export async function readManifest(appDirectory) {
  try {
    return JSON.parse(await readFile(path.join(appDirectory, 'app.json'), 'utf8'));
  } catch (error) {
    throw new ServiceError(`app.json cannot be read: ${error.message}`);
  }
}

/** The name of a label, for a person. */
export function tissueName(manifest, label) {
  return manifest.terminology?.[label]?.name ?? `Label ${label}`;
}
