import { existsSync, type Stats } from 'node:fs';
import path from 'node:path';
import { firstBytes } from '../../files/index.js';

/** A program that leaves something small, or nothing, in the place of a file whose content it has not fetched. */
interface Keeper {
  readonly of: string;
  /** What to do, at the end of a sentence. */
  readonly remedy: string;
  /** How the content of a placeholder begins. */
  readonly begins?: string;
  /** Where a link leads that dangles. */
  readonly link?: RegExp;
  /** The name of a placeholder that stands beside nothing else. */
  readonly name?: RegExp;
  /** What is added to the name of a missing file, or directory, in that of its placeholder. */
  readonly ending?: RegExp;
  /** Directories of the program, where a file that was not fetched has a size and takes no space on the disk. */
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

/** Largest placeholder, in bytes: a pointer of Git LFS has some 130. */
const largest = 1024;

/** Bytes that show how a placeholder begins. */
const longestBeginning = 64;

/** Smallest size, in bytes, that must occupy a block on the disk: a shorter file may be stored in its inode. */
const minOnDisk = 8192;

const faultOf = (keeper: Keeper | undefined): string | null =>
  keeper ? `has no content on this machine, since ${keeper.of} did not fetch it; ${keeper.remedy}` : null;

/** Whether a hidden file of this name stands for one that is not hidden. */
export const isPlaceholderName = (name: string): boolean => keepers.some((each) => each.name?.test(name));

/** Why a dangling link cannot be sent, where it stands for a file that was not fetched; null for any other. */
export const linkFault = (target: string): string | null =>
  faultOf(keepers.find(({ link }) => link?.test(target)));

/**
 * Why a file cannot be sent that stands for one which was not fetched; null for any other. Looks at no content of a larger
 * file: reading one in the cloud would download it, one file at a time, or fail. Outside of the directories of such programs,
 * a file that takes no space may be a sparse one.
 * @param bytes its path as it is on the disk
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
