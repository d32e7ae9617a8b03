import { realpathSync } from 'node:fs';
import path from 'node:path';
import { orElse } from '../../files/index.js';
import type { GpuInventory } from '../devices/index.js';
import { SetupError } from '../setup-error.js';
import { systemFiles } from './machine-files.js';
import { linkText, programPlaces } from './program-places.js';

/** A file or directory of the machine that a job sees. */
export interface Visible {
  /** Its name, which is the same inside and outside. */
  readonly path: string;
  readonly isWritable: boolean;
}

/** The path without links; the path itself if there is no such file. */
export const realPath = (file: string): string => orElse(() => realpathSync(file), file);

export const isWithin = (directory: string, file: string): boolean =>
  file === directory || file.startsWith(directory === '/' ? '/' : directory + path.sep);

/**
 * Each under its own name and, if that contains links, also under its real name, because programs use either. Parents
 * come first.
 */
export function withRealPaths(visible: readonly Visible[]): Visible[] {
  const all = new Map<string, Visible>();
  for (const each of visible) {
    for (const name of [each.path, realPath(each.path)]) {
      const isWritable = each.isWritable || (all.get(name)?.isWritable ?? false);
      all.set(name, { path: name, isWritable });
    }
  }
  return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The arguments of bwrap that hide a file or directory. */
export const cover = (place: string, isDirectory: boolean): string[] =>
  isDirectory ? ['--tmpfs', place] : ['--ro-bind', '/dev/null', place];

/** Where a file or directory is visible: under its real path, and under that of each visible link. */
function placesOf(real: string, visible: readonly string[]): string[] {
  const places = visible.flatMap((each) => {
    const shown = realPath(each);
    return isWithin(shown, real) ? [path.join(each, path.relative(shown, real))] : [];
  });
  return [...new Set(places)];
}

/** Maximum number of links that are followed to one file, as in Linux. */
const maxLinks = 40;

/**
 * The names that lead to a file: those of all links followed on the way, and finally its own. Their directories contain
 * no links. Replacing what has one of these names replaces the file.
 * @param file absolute
 */
function namesOf(file: string): string[] {
  const links: string[] = [];
  let reached = '/';
  const left = file.split(path.sep);
  for (let part = left.shift(); part !== undefined; part = left.shift()) {
    const name = path.join(reached, part);
    const target = links.length < maxLinks ? linkText(name) : undefined;
    if (target === undefined) reached = name;
    else {
      links.push(name);
      if (path.isAbsolute(target)) reached = '/';
      left.unshift(...target.split(path.sep));
    }
  }
  return [...links, reached];
}

/** The path without links, even of a file that does not exist yet. */
export const resolved = (file: string): string => namesOf(file).at(-1) ?? file;

/** The files that no job may see. */
export interface SecretRules {
  /** Absolute paths of the tokens and the audit log. */
  readonly secretFiles: readonly string[];
  /** Real path of the data directory. Its content is hidden in any case. */
  readonly dataDirectory: string;
}

/** The admin's settings for every job's sandbox. */
export interface SandboxRules extends SecretRules {
  /** Files and directories that jobs see in addition to their own and their app's: `serve --bind` and `--bind-rw`. */
  readonly binds: readonly Visible[];
  /** The environment variables of the server. */
  readonly environment: NodeJS.ProcessEnv;
  /** The GPUs of this machine; absent if no job is run. */
  readonly gpus?: Pick<GpuInventory, 'current'>;
}

const isOfSystem = (directory: string): boolean =>
  systemFiles().directories.some((each) => isWithin(realPath(each), directory));

/** Whether a directory belongs to one program, such as `/etc/remote-app`, so that it can be hidden as a whole. */
const belongsToProgram = (directory: string): boolean =>
  ['/etc', '/opt'].some((each) => each !== directory && isWithin(each, directory));

/**
 * Refuses to start if jobs would see a secret. A secret in a directory of its own below `/etc` or `/opt` is fine: jobs
 * see that directory empty.
 * @param apps directories of apps
 * @param engine its command
 * @throws SetupError
 */
export function checkSecrets(
  { secretFiles, dataDirectory, binds, environment }: SandboxRules,
  apps: readonly string[],
  engine: readonly string[],
): void {
  const shown = [
    ...binds.map((each) => [each.path, each.isWritable ? '--bind-rw' : '--bind'] as const),
    ...apps.map((each) => [each, 'an app'] as const),
    ...programPlaces(engine[0] ?? '', environment.PATH ?? '').map((each) => [each, 'the engine'] as const),
  ].map(([place, why]) => ({ place: realPath(place), why }));
  for (const file of secretFiles) {
    const names = namesOf(file);
    for (const name of names) {
      const directory = path.dirname(name);
      if (isWithin(dataDirectory, directory)) continue;
      const isFile = name === names.at(-1);
      const refuse = (why: string): never => {
        throw new SetupError(
          `${file}: jobs must not see this file, and ${isFile ? 'it' : 'a link to it'} is in ${directory}, ${why}; move it to a directory of its own, such as /etc/remote-app`,
        );
      };
      const around = shown.find(({ place }) => isWithin(place, name));
      if (around) refuse(`which jobs see (${around.why}: ${around.place})`);
      if (!isOfSystem(directory)) continue;
      const beside = shown.find(({ place }) => isWithin(directory, place));
      if (!belongsToProgram(directory)) {
        if (isFile) refuse('which jobs see as a part of the system');
      } else if (beside) refuse(`where jobs need ${beside.place} (${beside.why})`);
    }
  }
}

/**
 * The directories that a sandbox has to hide, at the places where it would show them: the data directory, and those of
 * secret files. Whole directories are hidden, because a mount on a file is lost when the file is replaced.
 * @param shown the names of what a sandbox shows
 */
export function hiddenPlaces(
  { secretFiles, dataDirectory }: SecretRules,
  shown: readonly string[],
): string[] {
  const directories = secretFiles
    .flatMap(namesOf)
    .map((name) => path.dirname(name))
    .filter((each) => belongsToProgram(each) || !isOfSystem(each));
  const places = [dataDirectory, ...directories].flatMap((each) => placesOf(each, shown));
  const alreadyHidden = systemFiles().hiddenDirectories;
  return [...new Set(places)].filter(
    (place, _, all) =>
      !alreadyHidden.some((each) => isWithin(each, place)) &&
      !all.some((other) => other !== place && isWithin(other, place)),
  );
}
