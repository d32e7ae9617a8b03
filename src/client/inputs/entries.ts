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

/** The digits of a text from a position on. */
function digitsAt(text: string, start: number): string {
  let end = start;
  while (isDigit(text.charCodeAt(end))) end += 1;
  return text.slice(start, end);
}

const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Compares digits by the number that they are, of any length. */
function byNumber(a: string, b: string): number {
  const [short, other] = [a.replace(/^0+/, ''), b.replace(/^0+/, '')];
  return short.length - other.length || byCodeUnits(short, other);
}

/**
 * The order of names: digits count as numbers, so that `case10` stands behind `case2` whatever follows the number; all else
 * counts by code units, in every locale. Names that differ only in zeros before a number are compared by code units.
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
 * What keeps files from being sent. Nothing of it is left out silently, since an app must compute on the whole study. A
 * person is told after all of it was found: the first by name, and how many more there are.
 */
export class Obstacles {
  #first: string | null = null;
  #count = 0;

  /** How many were found. */
  get count(): number {
    return this.#count;
  }

  /** @param why words that follow the path in a sentence */
  add(target: string, why: string): void {
    this.#note(`${quotePath(target)} ${why}`);
  }

  /** Adds a path at which there is nothing. @param why more words, for the end of the sentence */
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
    throw new UsageError(more === 0 ? this.#first : `${this.#first}; ${more} more cannot be sent either`);
  }
}

/** What is found at a path: a file or a directory, or the words for why it cannot be sent, which follow its name. */
export type PathContent =
  | { readonly stats: Stats; readonly fault: null }
  | { readonly stats: null; readonly fault: string };

/** Files up to this size may stand for another file. */
const largestPointer = 1024;

/** How the content of a file begins that stands for one which was not fetched. */
const pointers = [
  { start: '/annex/objects/', of: 'git-annex', remedy: "run 'datalad get' or 'git annex get'" },
  { start: 'version https://git-lfs.github.com/spec/', of: 'Git LFS', remedy: "run 'git lfs pull'" },
] as const;

const notFetched = (of: string, remedy: string): string =>
  `has no content on this machine, since ${of} did not fetch it; ${remedy}`;

const inCloud = "choose Download Now in the Finder, or run 'brctl download'";

/** Where programs of clouds keep their files, and what brings one to this machine. */
const clouds = [
  { directory: /^OneDrive/i, of: 'OneDrive', remedy: "choose 'Always keep on this device'" },
  { directory: /^Dropbox/i, of: 'Dropbox', remedy: "choose 'Make available offline'" },
  { directory: /^(Google ?Drive|My Drive)/i, of: 'Google Drive', remedy: "choose 'Available offline'" },
] as const;

/** Least size of a file, in bytes, that takes a block on the disk: a shorter one may lie beside its name. */
const leastOnDisk = 8192;

/**
 * The words for a file that a cloud has not brought to this machine: it has a size, and takes nothing of the disk. Reading it
 * would fetch it, one file after the other, or fail; elsewhere it may be a file with holes.
 */
function notInCloudFolder(target: string, stats: Stats): string | null {
  const { size, blocks } = stats;
  if (!stats.isFile() || blocks > 0 || size < leastOnDisk) return null;
  const parts = path.resolve(target).split(path.sep).slice(0, -1);
  const cloud = clouds.find(({ directory }) => parts.some((part) => directory.test(part)));
  return cloud ? notFetched(cloud.of, cloud.remedy) : null;
}

/** Files of a few lines that stand for another: of odrive for a file or a directory, and of DVC. */
const standIns = [
  { name: /\.cloudf?$/i, of: 'odrive', remedy: "run 'odrive sync' with its path" },
  { name: /\.dvc$/i, of: 'DVC', remedy: "run 'dvc pull'" },
] as const;

/**
 * The words for a file that only stands for another one by its name, if the other is not there.
 */
function standInFault(target: string, { size }: Stats): string | null {
  const standIn = standIns.find(({ name }) => name.test(target));
  if (!standIn || size > largestPointer) return null;
  const original = target.replace(standIn.name, '');
  return existsSync(original) ? null : notFetched(standIn.of, standIn.remedy);
}

/** Whether a file of this name stands for one that macOS has moved to iCloud: `.scan.nii.icloud` for `scan.nii`. */
export const isCloudPlaceholder = (name: string): boolean => /^\..+\.icloud$/.test(name);

/** The words for a link that leads to nothing. In a data set of git-annex, a file that was not fetched is such a link. */
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
    // ENOTDIR: what is before the last slash is a file.
    const isLink =
      errorCode(error) === 'ENOENT' && lstatSync(bytes, { throwIfNoEntry: false })?.isSymbolicLink();
    return isLink ? { stats: null, fault: brokenLink(bytes) } : null;
  }
}

/** Whether something has this path, also a link that leads to nothing. */
export const exists = (target: string): boolean => lookAt(target) !== null;

/** A file or a directory in a directory. */
export interface Entry {
  readonly name: string;
  readonly path: string;
  /** Of what a link leads to. */
  readonly stats: Stats;
}

/** Why a file whose name is not UTF-8 cannot be sent: a form and an archive would give it another name. */
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
    // It was removed since the directory was listed.
    if (!look) continue;
    if (look.fault !== null) obstacles.add(target, look.fault);
    else if (!isNamed) obstacles.add(target, misnamed);
    else entries.push({ name, path: target, stats: look.stats });
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

/** Why a file without a byte cannot be sent. */
export const emptyFile = 'is empty (0 bytes)';

/** Why a directory without a file cannot be sent. */
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
  // A link to a directory that it lies in: what is there is listed already.
  if (ancestors.includes(real)) return;
  const entries = await entriesOf(directory, (name) => include(prefix + name), obstacles);
  if (entries.length === 0 && prefix !== '') listed.push({ name: prefix, path: directory });
  const directories: Entry[] = [];
  for (const entry of entries) {
    const { name, path, stats } = entry;
    if (stats.isDirectory()) directories.push(entry);
    else if (stats.size === 0 && isVolume(name)) obstacles.add(path, emptyFile);
    else listed.push({ name: prefix + name, path, size: stats.size });
  }
  for (const { name, path } of directories) {
    await listBelow(path, `${prefix}${name}/`, [...ancestors, real], options, listed);
  }
}

/**
 * The files and empty directories of a directory that travels whole, links followed: they are the person's own. Listed
 * before anything is packed, so that an obstacle is found at once.
 */
export async function listTree(directory: string, options: TreeOptions): Promise<ListedFile[]> {
  const before = options.obstacles.count;
  const listed: ListedFile[] = [];
  await listBelow(directory, '', [], options, listed);
  const isEmpty = listed.every(({ name }) => name.endsWith('/'));
  if (isEmpty && options.obstacles.count === before) options.obstacles.add(directory, nothingToSend);
  return listed;
}
