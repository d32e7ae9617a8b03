import { existsSync } from 'node:fs';
import path from 'node:path';
import { passedNames } from './passed-environment.js';
import { systemFiles } from './system-files.js';
import { isWithin, realPath, type Visible } from './visible.js';

/**
 * The variables that jobs get and that name a place which they do not see in their sandbox, such as a cache of models in
 * a home directory: an app that believes them fails.
 * @param environment the server's
 * @param added names of `serve --pass-env`
 */
export function blindSpots(
  environment: NodeJS.ProcessEnv,
  binds: readonly Visible[],
  added: readonly string[],
): string[] {
  const seen = [...systemFiles().directories, ...binds.map((each) => realPath(each.path))];
  return passedNames(environment, { isSandboxed: true, network: true, added }).flatMap((name) => {
    const value = environment[name] ?? '';
    if (!path.isAbsolute(value) || !existsSync(value)) return [];
    const real = realPath(value);
    return seen.some((each) => isWithin(each, real)) ? [] : [`${name}=${value}`];
  });
}
