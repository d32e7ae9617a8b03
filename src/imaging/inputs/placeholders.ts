import { existsSync, type Stats } from 'node:fs';
import path from 'node:path';
import { firstBytes } from '../../files/index.js';

/** A program that leaves a small placeholder, or an empty file, for content that it has not fetched. */
interface Keeper {
  readonly of: string;
  /** How to fetch the file, worded to end a sentence. */
  readonly remedy: string;
  /** How the content of a placeholder begins. */
  readonly begins?: string;
  /** The target of a dangling link. */
  readonly link?: RegExp;
  /** The name of a placeholder that exists instead of the file. */
  readonly name?: RegExp;
  /** The suffix that a placeholder adds to the name of the missing file or directory. */
  readonly ending?: RegExp;
  /** Directories of the program in which a file that was not fetched has a size but occupies no disk space. */
  readonly directory?: RegExp;
}

const keepers: readonly Keeper[] = [
  {
    of: 'git-annex',
    remedy: "run 'datalad get' or 'git annex get'",
    begins: '/annex/objects/',
    link: /(^|\/)\.git\/annex\/objects\//,
  },
  { of: 'Git LFS', remedy: "run 'git lfs pull'", begins: 'version https://git-lfs.github.com/spec/' },
  { of: 'DVC', remedy: "run 'dvc pull'", ending: /\.dvc$/i },
  { of: 'odrive', remedy: "run 'odrive sync' with its path", ending: /\.cloudf?$/i },
  // `.scan.nii.icloud` for `scan.nii`.
  {
    of: 'iCloud',
    remedy: "choose Download Now in the Finder, or run 'brctl download'",
    name: /^\..+\.icloud$/,
  },
  { of: 'OneDrive', remedy: "choose 'Always keep on this device'", directory: /^OneDrive/i },
  { of: 'Dropbox', remedy: "choose 'Make available offline'", directory: /^Dropbox/i },
  {
    of: 'Google Drive',
    remedy: "choose 'Available offline'",
    directory: /^(Google ?Drive|My Drive)/i,
  },
];

/** Maximum size of a placeholder, in bytes: a Git LFS pointer has about 130. */
const largest = 1024;

/** Number of bytes read to recognise a placeholder. */
const longestBeginning = 64;

/** Minimum size, in bytes, of a file that must occupy a disk block: a shorter one may be stored in its inode. */
const minOnDisk = 8192;

const faultOf = (keeper: Keeper | undefined): string | null =>
  keeper ? `has no content on this machine, since ${keeper.of} did not fetch it; ${keeper.remedy}` : null;

/** Whether a hidden file with this name is a placeholder for a visible file. */
export const isPlaceholderName = (name: string): boolean => keepers.some((each) => each.name?.test(name));

/** Why a dangling link to a file that was not fetched cannot be sent; null for any other link. */
export const linkFault = (target: string): string | null =>
  faultOf(keepers.find(({ link }) => link?.test(target)));

/**
 * Why a placeholder for a file that was not fetched cannot be sent; null for any other file. The content of larger files is not
 * read: for a file in the cloud, that would download it, one file at a time, or fail. Outside the directories of such programs, a
 * file that occupies no disk space may be sparse.
 * @param bytes the path as stored on disk
 */
export function placeholderFault(target: string, bytes: string | Buffer, stats: Stats): string | null {
  const { size, blocks } = stats;
  const [name, isSmall] = [path.basename(target), size <= largest];
  const folders = blocks === 0 && size >= minOnDisk ? path.resolve(target).split(path.sep).slice(0, -1) : [];
  const start = isSmall && size > 0 ? firstBytes(bytes, longestBeginning).toString('latin1') : '';
  return faultOf(
    keepers.find(
      (each) =>
        each.name?.test(name) ||
        (isSmall && each.ending?.test(name) && !existsSync(target.replace(each.ending, ''))) ||
        (each.begins && start.startsWith(each.begins)) ||
        folders.some((folder) => each.directory?.test(folder)),
    ),
  );
}
