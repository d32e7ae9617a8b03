import { isUtf8 } from 'node:buffer';
import {
  accessSync,
  closeSync,
  existsSync,
  lstatSync,
  constants as open,
  openSync,
  readlinkSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs';
import { readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { ListedFile } from '../../archive/index.js';
import { quotePath } from '../../contract/index.js';
import { errorCode, faultWithoutPath, isMissing } from '../../files/index.js';
import { UsageError } from '../errors.js';

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;

/** The digits of a text from this position on. */
function digitsAt(text: string, start: number): string {
  let end = start;
  while (isDigit(text.charCodeAt(end))) end += 1;
  return text.slice(start, end);
}

const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Compares two digit strings as numbers of any length. */
function byNumber(a: string, b: string): number {
  const [short, other] = [a.replace(/^0+/, ''), b.replace(/^0+/, '')];
  return short.length - other.length || byCodeUnits(short, other);
}

/**
 * The order of names: digits count as numbers, so that `case10` comes after `case2` whatever follows the number;
 * everything else is compared by code units, in every locale. Names that differ only in zeros before a number are
 * compared by code units.
 */
export function byName(a: string, b: string): number {
  let [atA, atB] = [0, 0];
  while (atA < a.length && atB < b.length) {
    const [unitA, unitB] = [a.charCodeAt(atA), b.charCodeAt(atB)];
    if (isDigit(unitA) && isDigit(unitB)) {
      const [numberA, numberB] = [digitsAt(a, atA), digitsAt(b, atB)];
      const difference = byNumber(numberA, numberB);
      if (difference !== 0) return difference;
      atA += numberA.length;
      atB += numberB.length;
    } else {
      if (unitA !== unitB) return unitA - unitB;
      atA += 1;
      atB += 1;
    }
  }
  return a.length - atA - (b.length - atB) || byCodeUnits(a, b);
}

/**
 * The reasons why files cannot be sent, or shown. No file is left out silently, since an app must compute on the whole
 * study. They are reported once all are found: the first one by name, and how many more there are.
 */
export class Obstacles {
  #first: string | null = null;
  #count = 0;
  #alone = new Map<string, string>();

  /**
   * @param purpose what the files are wanted for
   * @param failsAlone whether what is wrong with a file is no reason to send nothing: see `takeAlone`
   */
  constructor(
    readonly purpose: 'sent' | 'shown' = 'sent',
    private readonly failsAlone: (target: string) => boolean = () => false,
  ) {}

  /** How many were found. */
  get count(): number {
    return this.#count + this.#alone.size;
  }

  /** @param why words that follow the path in a sentence */
  add(target: string, why: string): void {
    if (this.failsAlone(target)) this.#alone.set(target, why);
    else this.#note(`${quotePath(target)} ${why}`);
  }

  /** The files that fail alone, with the words for why; they are no obstacles any more. */
  takeAlone(): ReadonlyMap<string, string> {
    const alone = this.#alone;
    this.#alone = new Map();
    return alone;
  }

  /** Adds a path that does not exist. @param why more words, for the end of the sentence */
  addMissing(target: string, why = ''): void {
    this.#note(`No such file or directory: ${quotePath(target)}${why}`);
  }

  #note(sentence: string): void {
    this.#first ??= sentence;
    this.#count += 1;
  }

  /** @throws UsageError if anything was found */
  check(): void {
    if (this.#first === null) return;
    const more = this.#count - 1;
    throw new UsageError(
      more === 0 ? this.#first : `${this.#first}; ${more} more cannot be ${this.purpose} either`,
    );
  }
}

/** What is found at a path: a file or a directory, or the words for why it cannot be sent, which follow its name. */
export type PathContent =
  | { readonly stats: Stats; readonly fault: null }
  | { readonly stats: null; readonly fault: string };

/** Only files up to this size are checked for being placeholders. */
const largestPointer = 1024;

/** How the content of a placeholder begins that stands for a file which was not fetched. */
const pointers = [
  { start: '/annex/objects/', of: 'git-annex', remedy: "run 'datalad get' or 'git annex get'" },
  { start: 'version https://git-lfs.github.com/spec/', of: 'Git LFS', remedy: "run 'git lfs pull'" },
] as const;

const notFetched = (of: string, remedy: string): string =>
  `has no content on this machine, since ${of} did not fetch it; ${remedy}`;

const inCloud = "choose Download Now in the Finder, or run 'brctl download'";

/** Directories of cloud storage programs, and how to download a file there. */
const clouds = [
  { directory: /^OneDrive/i, of: 'OneDrive', remedy: "choose 'Always keep on this device'" },
  { directory: /^Dropbox/i, of: 'Dropbox', remedy: "choose 'Make available offline'" },
  { directory: /^(Google ?Drive|My Drive)/i, of: 'Google Drive', remedy: "choose 'Available offline'" },
] as const;

/** Smallest size, in bytes, that must occupy a block on the disk: a shorter file may be stored in its inode. */
const leastOnDisk = 8192;

/**
 * The fault of a file that a cloud program has not downloaded yet: it has a size, but takes no disk space. Reading it
 * would download it, one file at a time, or fail. Outside of such directories it may be a sparse file.
 */
function notInCloudFolder(target: string, stats: Stats): string | null {
  const { size, blocks } = stats;
  if (!stats.isFile() || blocks > 0 || size < leastOnDisk) return null;
  const parts = path.resolve(target).split(path.sep).slice(0, -1);
  const cloud = clouds.find(({ directory }) => parts.some((part) => directory.test(part)));
  return cloud ? notFetched(cloud.of, cloud.remedy) : null;
}

/** Small files that stand for another one: odrive's for a file or a directory, and DVC's. */
const standIns = [
  { name: /\.cloudf?$/i, of: 'odrive', remedy: "run 'odrive sync' with its path" },
  { name: /\.dvc$/i, of: 'DVC', remedy: "run 'dvc pull'" },
] as const;

/** The fault of a file whose name shows that it stands for another one that is missing. */
function standInFault(target: string, { size }: Stats): string | null {
  const standIn = standIns.find(({ name }) => name.test(target));
  if (!standIn || size > largestPointer) return null;
  const original = target.replace(standIn.name, '');
  return existsSync(original) ? null : notFetched(standIn.of, standIn.remedy);
}

/** Whether a file of this name stands for one that macOS has moved to iCloud: `.scan.nii.icloud` for `scan.nii`. */
export const isCloudPlaceholder = (name: string): boolean => /^\..+\.icloud$/.test(name);

/** The fault of a dangling link. In a git-annex data set, a file that was not fetched is such a link. */
function brokenLink(bytes: string | Buffer): string {
  const target = readlinkSync(bytes, { encoding: 'utf8' });
  if (/(^|\/)\.git\/annex\/objects\//.test(target)) return notFetched(pointers[0].of, pointers[0].remedy);
  return `is a link to ${quotePath(target)}, which does not exist`;
}

function kindOf(stats: Stats): string {
  if (stats.isFIFO()) return 'a FIFO';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/** Why a file or a directory cannot be sent; null if it can. */
function faultOf(bytes: string | Buffer, stats: Stats): string | null {
  if (stats.isDirectory()) return null;
  if (!stats.isFile()) return `is neither a file nor a directory but ${kindOf(stats)}`;
  const { size } = stats;
  if (size === 0 || size > largestPointer) {
    accessSync(bytes, open.R_OK);
    return null;
  }
  const descriptor = openSync(bytes, open.O_RDONLY | open.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(64);
    const start = buffer.toString('latin1', 0, readSync(descriptor, buffer, 0, buffer.length, 0));
    const pointer = pointers.find((each) => start.startsWith(each.start));
    return pointer ? notFetched(pointer.of, pointer.remedy) : null;
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Looks at what a path leads to, links followed. Synchronous, since a directory may have thousands of files: the thread pool
 * takes longer than the calls themselves.
 * @param bytes the path as it is on the disk, if it is not UTF-8
 * @returns null if nothing has this path
 */
export function lookAt(target: string, bytes: string | Buffer = target): PathContent | null {
  try {
    const stats = statSync(bytes);
    const isInCloud = stats.isFile() && isCloudPlaceholder(path.basename(target));
    const fault = isInCloud
      ? notFetched('iCloud', inCloud)
      : (notInCloudFolder(target, stats) ?? standInFault(target, stats) ?? faultOf(bytes, stats));
    return fault === null ? { stats, fault } : { stats: null, fault };
  } catch (error) {
    if (!isMissing(error)) {
      return { stats: null, fault: `cannot be read: ${faultWithoutPath(error)}` };
    }
    // ENOTDIR: a file where a directory is expected, before the last slash.
    const isLink =
      errorCode(error) === 'ENOENT' && lstatSync(bytes, { throwIfNoEntry: false })?.isSymbolicLink();
    return isLink ? { stats: null, fault: brokenLink(bytes) } : null;
  }
}

/** Whether something has this path, including a dangling link. */
export const exists = (target: string): boolean => lookAt(target) !== null;

/** A file or a directory in a directory. */
export interface Entry {
  readonly name: string;
  readonly path: string;
  /** Whether the link's target is one. */
  readonly isDirectory: boolean;
  /** Bytes of the link's target. */
  readonly size: number;
}

/** The fault of a file whose name is not UTF-8: a form and an archive would change its name. */
export const misnamed = 'has a name that is not UTF-8; rename it';

/**
 * The files and directories of a directory in the order of their names, links followed. What cannot be sent is added to the
 * obstacles: links that lead nowhere, files that cannot be read, FIFOs, sockets, devices, names that are not UTF-8.
 * @param wanted which entries to look at, by their name and path
 */
export async function entriesOf(
  directory: string,
  wanted: (name: string, path: string) => boolean,
  obstacles: Obstacles,
): Promise<Entry[]> {
  const listed = await readdir(directory, { encoding: 'buffer' }).catch((error) => {
    obstacles.add(directory, `cannot be read: ${faultWithoutPath(error)}`);
    return [];
  });
  const names = listed
    .map((bytes) => ({ name: bytes.toString(), bytes }))
    .sort((a, b) => byName(a.name, b.name));
  const entries: Entry[] = [];
  for (const [index, { name, bytes }] of names.entries()) {
    // Lets an interruption through on a slow disk.
    if (index % 64 === 63) await setImmediate();
    const target = path.join(directory, name);
    if (!wanted(name, target)) continue;
    const isNamed = isUtf8(bytes);
    const look = lookAt(target, isNamed ? target : Buffer.concat([Buffer.from(directory + path.sep), bytes]));
    // It was removed after the directory was listed.
    if (!look) continue;
    if (look.fault !== null) obstacles.add(target, look.fault);
    else if (!isNamed) obstacles.add(target, misnamed);
    else entries.push({ name, path: target, isDirectory: look.stats.isDirectory(), size: look.stats.size });
  }
  return entries;
}

interface TreeOptions {
  /** Which files belong to it, by their path relative to the directory. */
  readonly include: (relativePath: string) => boolean;
  /** Which files hold voxels, by their name: an empty one is an obstacle. */
  readonly isVolume: (name: string) => boolean;
  readonly obstacles: Obstacles;
}

/** The fault of an empty file. */
export const emptyFile = 'is empty (0 bytes)';

/** The fault of a directory without files. */
export const nothingToSend = 'contains no file to send';

async function listBelow(
  directory: string,
  prefix: string,
  ancestors: readonly string[],
  options: TreeOptions,
  listed: ListedFile[],
): Promise<void> {
  const { include, isVolume, obstacles } = options;
  const real = await realpath(directory);
  // A link to a directory above it: everything there is listed already.
  if (ancestors.includes(real)) return;
  const entries = await entriesOf(directory, (name) => include(prefix + name), obstacles);
  if (entries.length === 0 && prefix !== '') listed.push({ name: prefix, path: directory });
  const directories: Entry[] = [];
  for (const entry of entries) {
    const { name, path, isDirectory, size } = entry;
    if (isDirectory) directories.push(entry);
    else if (size === 0 && isVolume(name)) obstacles.add(path, emptyFile);
    else listed.push({ name: prefix + name, path, size });
  }
  for (const { name, path } of directories) {
    await listBelow(path, `${prefix}${name}/`, [...ancestors, real], options, listed);
  }
}

/**
 * The files and empty directories of a directory that is sent whole. Links are followed, because they are the person's
 * own. Listed before anything is packed, so that an obstacle is found at once.
 */
export async function listTree(directory: string, options: TreeOptions): Promise<ListedFile[]> {
  const before = options.obstacles.count;
  const listed: ListedFile[] = [];
  await listBelow(directory, '', [], options, listed);
  const isEmpty = listed.every(({ name }) => name.endsWith('/'));
  if (isEmpty && options.obstacles.count === before) options.obstacles.add(directory, nothingToSend);
  return listed;
}
