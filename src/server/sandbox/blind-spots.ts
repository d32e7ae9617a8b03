import { type Dirent, existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { type FreezeRules, hiddenDirectories } from './freeze.js';
import { passedNames } from './passed-environment.js';
import { systemFiles } from './system-files.js';
import { isWithin, realPath, type Visible } from './visible.js';

/** Links of an app that are named, and levels of its directory in which they are looked for. */
const mostLinks = 5;
const deepest = 3;

export interface BlindSpotsOptions {
  /** The server's. */
  readonly environment: NodeJS.ProcessEnv;
  readonly binds: readonly Visible[];
  /** Names of `serve --pass-env`. */
  readonly added: readonly string[];
  /** Directories of apps. */
  readonly apps: readonly string[];
  readonly secrets: FreezeRules;
}

function entriesOf(directory: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** The links in a directory and below. */
function linksIn(directory: string, levels = deepest): string[] {
  return entriesOf(directory).flatMap((entry) => {
    const file = path.join(directory, entry.name);
    if (entry.isSymbolicLink()) return [file];
    return entry.isDirectory() && entry.name !== 'node_modules' && levels > 1
      ? linksIn(file, levels - 1)
      : [];
  });
}

/**
 * What jobs are led to and do not see in their sandbox, in words: places that variables name, such as a cache of models in
 * a home directory, and files of an app that are links to elsewhere, such as its weights. An app that relies on them fails.
 */
export function blindSpots({ environment, binds, added, apps, secrets }: BlindSpotsOptions): string[] {
  const bound = binds.map((each) => realPath(each.path));
  /** Tells whether a job does not see a file, which sees these places as well. */
  const unseenBeside = (also: readonly string[]) => {
    const named = [...bound, ...also];
    const shown = [...systemFiles().directories, ...named];
    const hidden = hiddenDirectories(secrets, named);
    return (file: string): boolean => {
      const real = realPath(file);
      const isIn = (each: string) => isWithin(each, real);
      return existsSync(real) && (!shown.some(isIn) || hidden.some(isIn));
    };
  };
  const isUnseen = unseenBeside([]);
  const variables = passedNames(environment, { isSandboxed: true, network: true, added }).flatMap((name) => {
    const value = environment[name] ?? '';
    return path.isAbsolute(value) && isUnseen(value) ? [`${name}=${value}`] : [];
  });
  const links = apps.flatMap((app) =>
    linksIn(app)
      .filter(unseenBeside([realPath(app)]))
      .slice(0, mostLinks)
      .map((link) => `${link} leads to ${realPath(link)}`),
  );
  return [...variables, ...links];
}
