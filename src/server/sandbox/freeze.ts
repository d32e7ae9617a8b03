import path from 'node:path';
import { namesIn } from '../../files/names-in.js';
import { SetupError } from '../setup-error.js';
import { isOfSecret, linkText, namesOf } from './secret-files.js';
import { isWithin, placesOf, realPath } from './visible.js';

/** A directory that is frozen, where a sandbox shows it. */
export interface Frozen {
  readonly at: string;
  /** Arguments of bwrap. */
  readonly words: readonly string[];
}

/** What freezes directories. */
export interface FreezeRules {
  /** Absolute. */
  readonly secretFiles: readonly string[];
  /** A real path. What is in it is hidden by itself. */
  readonly dataDirectory: string;
}

/** Directories in which each program has one of its own. */
const homesOfPrograms = ['/etc', '/opt'];

/** Entries that a frozen directory may have: each is a mount of every sandbox, and bwrap takes 9000 words. */
const mostEntries = 500;

/** The arguments that put an entry of a directory where the directory is frozen. */
function entryWords(directory: string, at: string, entry: string): string[] {
  const [from, to] = [directory, at].map((each) => path.join(each, entry)) as [string, string];
  const target = linkText(from);
  return target === undefined ? ['--ro-bind-try', from, to] : ['--symlink', target, to];
}

/**
 * The entries of a directory that are neither secret files nor what is left of them.
 * @param names of all secret files
 * @throws SetupError if there are too many
 */
function entriesBeside(directory: string, names: readonly string[]): string[] {
  const secrets = names.flatMap((each) => (path.dirname(each) === directory ? [path.basename(each)] : []));
  const entries = namesIn(directory).filter((entry) => !secrets.some((each) => isOfSecret(entry, each)));
  if (entries.length <= mostEntries) return entries;
  throw new SetupError(
    `${path.join(directory, secrets[0] ?? '')}: a sandbox cannot show ${directory} without this file, since it has more than ${mostEntries} entries; move the file to a directory of its own`,
  );
}

/** Names of secret files that are not in the data directory, which is hidden anyway. */
const secretNames = ({ secretFiles, dataDirectory }: FreezeRules): string[] =>
  secretFiles.flatMap(namesOf).filter((each) => !isWithin(dataDirectory, path.dirname(each)));

/** Whether a directory belongs to one program, such as `/etc/remote-app`, and a job needs nothing in it. */
const isOwn = (directory: string, needed: readonly string[]): boolean =>
  homesOfPrograms.some((each) => each !== directory && isWithin(each, directory)) &&
  !needed.some((each) => isWithin(each, directory) || isWithin(directory, each));

/**
 * The directories of the system of which a job sees nothing, because secret files are in them.
 * @param needed real paths of what a job needs
 */
export const hiddenDirectories = (rules: FreezeRules, needed: readonly string[]): string[] =>
  secretNames(rules)
    .map((each) => path.dirname(each))
    .filter((each) => isOwn(each, needed));

/**
 * Freezes each directory that holds a secret file, or a link to one. A mount on the file itself would go when the file is
 * replaced, and the new file would be seen. So an empty directory is mounted on its directory, and there the other
 * entries: what gets a name later is not seen. A directory that belongs to one program stays empty.
 * @param shown the names of what a sandbox shows
 * @param needed real paths of what a job needs
 * @throws SetupError if a directory has too many entries
 */
export function freeze(rules: FreezeRules, shown: readonly string[], needed: readonly string[]): Frozen[] {
  const names = secretNames(rules);
  const directories = new Set(names.map((each) => path.dirname(each)));
  return [...directories].flatMap((directory) => {
    const places = placesOf(directory, shown);
    if (places.length === 0) return [];
    const entries = isOwn(directory, needed) ? [] : entriesBeside(directory, names);
    return places.map((at) => ({
      at,
      words: ['--tmpfs', at, ...entries.flatMap((entry) => entryWords(directory, at, entry))],
    }));
  });
}

/** Tells whether a file is a secret one under one of its names: then it is not shown, whoever asks for it. */
export function secretsOf({ secretFiles }: FreezeRules): (file: string) => boolean {
  const names = new Set(secretFiles.flatMap(namesOf));
  return (file) => names.has(realPath(file));
}
