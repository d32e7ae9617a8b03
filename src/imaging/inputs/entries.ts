import { isUtf8 } from 'node:buffer';
import { accessSync, constants, lstatSync, readlinkSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import type { Refused } from '../../client/found-files.js';
import { quotePath, someOf } from '../../contract/index.js';
import {
  errorCode,
  faultWithoutPath,
  isForbidden,
  isMissing,
  isSystemError,
  TooManyEntries,
  type WalkedEntry,
  walkDirectories,
} from '../../files/index.js';
import { isWholeVolumeName } from './formats.js';
import { linkFault, placeholderFault } from './placeholders.js';

/**
 * The reasons why files cannot be sent, or shown. No file is left out silently, since an app must compute on the whole
 * study. They are reported once all are found: the first one with the reason, others by name.
 */
export class Obstacles {
  readonly #all: Refused[] = [];
  #alone = new Map<string, string>();

  /**
   * @param purpose what the files are needed for
   * @param failsAlone whether a faulty volume fails only its own case, while all others are sent: see `takeAlone`
   */
  constructor(
    readonly purpose: 'sent' | 'shown' = 'sent',
    readonly failsAlone = false,
  ) {}

  /** Number of obstacles found. */
  get count(): number {
    return this.#all.length + this.#alone.size;
  }

  /** @param why the reason, worded to follow the path in a sentence */
  add(target: string, why: string): void {
    if (this.failsAlone && isWholeVolumeName(target)) this.#alone.set(target, why);
    else this.#note(target, `${quotePath(target)} ${why}`);
  }

  /** The files whose failure affects only their own case, with the reasons. They no longer count as obstacles afterwards. */
  takeAlone(): ReadonlyMap<string, string> {
    const alone = this.#alone;
    this.#alone = new Map();
    return alone;
  }

  /** Adds a path that does not exist. @param why further words, to end the sentence */
  addMissing(target: string, why = ''): void {
    this.#note(target, `No such file or directory: ${quotePath(target)}${why}`);
  }

  #note(path: string, sentence: string): void {
    this.#all.push({ path, sentence });
  }

  /** In the order in which they were found. */
  get all(): readonly Refused[] {
    return this.#all;
  }

  /** @throws UsageError if there are obstacles */
  check(): void {
    const [first, ...others] = this.#all;
    if (first === undefined) return;
    if (others.length === 0) throw new UsageError(first.sentence);
    const names = someOf(others.map((each) => quotePath(each.path)));
    const list = this.purpose === 'sent' ? "; 'remote-app inputs' says why" : '';
    throw new UsageError(
      `${first.sentence}; ${others.length} more cannot be ${this.purpose} either: ${names}${list}`,
    );
  }
}

/** What exists at a path: a file or directory, or the reason why it cannot be sent, worded to follow the path. */
export type PathContent =
  | { readonly stats: Stats; readonly fault: null }
  | { readonly stats: null; readonly fault: string };

/** The fault of a dangling link. */
function brokenLink(bytes: string | Buffer): string {
  const target = readlinkSync(bytes, { encoding: 'utf8' });
  return linkFault(target) ?? `is a link to ${quotePath(target)}, which does not exist`;
}

function kindOf(stats: Stats): string {
  if (stats.isFIFO()) return 'a FIFO';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/** Why a file or a directory cannot be sent; null if it can. @throws the system's error for a file that cannot be read */
function faultOf(target: string, bytes: string | Buffer, stats: Stats): string | null {
  if (stats.isDirectory()) return null;
  if (!stats.isFile()) return `is neither a file nor a directory but ${kindOf(stats)}`;
  const fault = placeholderFault(target, bytes, stats);
  if (fault === null) accessSync(bytes, constants.R_OK);
  return fault;
}

/**
 * Examines what a path leads to, following links. It is synchronous because a directory may have thousands of files, and the
 * thread pool takes longer than the calls themselves.
 * @param bytes the path as stored on disk, if it is not UTF-8
 * @returns null if nothing exists at this path
 */
export function lookAt(target: string, bytes: string | Buffer = target): PathContent | null {
  try {
    const stats = statSync(bytes);
    const fault = faultOf(target, bytes, stats);
    return fault === null ? { stats, fault } : { stats: null, fault };
  } catch (error) {
    if (!isMissing(error)) {
      return { stats: null, fault: `cannot be read: ${faultWithoutPath(error)}` };
    }
    // ENOTDIR: a parent of the path is a file.
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
  /** Whether it is a directory, or a link to one. */
  readonly isDirectory: boolean;
  /** Whether it is a link itself. */
  readonly isLink: boolean;
  /** Size in bytes; of a link, the size of its target. */
  readonly size: number;
}

/** The fault of a file whose name is not UTF-8: a form and an archive would change its name. */
export const misnamed = 'has a name that is not UTF-8; rename it';

/** Maximum number of files and directories examined below one directory: far more than a study has. */
export const maxEntries = 1_000_000;

export const tooMany = `there are more than ${maxEntries} files and directories; name those below that are meant`;

/** A directory that is being walked, with those of its entries that may be sent. */
interface Visited {
  readonly path: string;
  readonly entries: readonly Entry[];
}

/** How a directory and those below it are walked. */
export interface InputWalk {
  readonly obstacles: Obstacles;
  /** Whether to examine an entry. Faults of other entries are not reported. */
  readonly wanted: (name: string, path: string) => boolean;
  /** Whether to walk a subdirectory. Called after its parent was visited. */
  readonly enters: (entry: Entry) => boolean;
  readonly followsLinks?: boolean;
  /** Called for a directory that several paths lead to, with the first of these paths: it is walked only once. */
  readonly onRepeated?: (directory: string, first: string) => void;
}

export const isBelow = (file: string, directory: string): boolean =>
  file.startsWith(`${directory}${path.sep}`);

/**
 * Walks a directory and its subdirectories, following links. Each directory is visited once, by its first path in the order of
 * names. Anything that cannot be sent becomes an obstacle: dangling links, unreadable files, FIFOs, sockets, devices, names that
 * are not UTF-8, and more entries than the limit.
 */
export async function* walkInputs(start: string, how: InputWalk): AsyncGenerator<Visited> {
  const { obstacles, wanted, enters, followsLinks = true, onRepeated = () => {} } = how;
  const entered = new Set<string>();
  const unreadable = (directory: string, cause: unknown) =>
    obstacles.add(directory, `cannot be read: ${faultWithoutPath(cause)}`);
  const directories = walkDirectories(start, {
    followsLinks,
    maxEntries,
    enters: (entry) => entered.has(path.join(entry.path.toString())),
    onUnreadable: (directory, cause) => unreadable(directory.toString(), cause),
    onRepeated: (repeated, visited) => {
      const [directory, first] = [normal(repeated), normal(visited)];
      // A link to a directory that contains it repeats nothing.
      if (!isBelow(directory, first)) onRepeated(directory, first);
    },
  });
  try {
    for await (const { path: directory, entries: listed } of directories) {
      const entries = listed.flatMap((entry) => sendable(entry, wanted, obstacles) ?? []);
      yield { path: normal(directory), entries };
      for (const entry of entries) if (entry.isDirectory && enters(entry)) entered.add(entry.path);
    }
  } catch (cause) {
    if (cause instanceof TooManyEntries) obstacles.add(start, `cannot be searched: ${tooMany}`);
    else if (isSystemError(cause)) unreadable(start, cause);
    else throw cause;
  }
}

/** A path without a trailing slash or a leading `./`. */
const normal = (directory: Buffer): string => path.dirname(path.join(directory.toString(), 'x'));

/** Null for an entry that is not wanted, cannot be sent, or was removed after its directory was listed. */
function sendable(
  { name: bytes, path: place, isLink }: WalkedEntry,
  wanted: InputWalk['wanted'],
  obstacles: Obstacles,
): Entry | null {
  const [name, target] = [bytes.toString(), path.join(place.toString())];
  if (!wanted(name, target)) return null;
  const isNamed = isUtf8(bytes);
  const look = lookAt(target, isNamed ? target : place);
  const fault = look?.fault ?? (look && !isNamed ? misnamed : null);
  if (fault !== null) obstacles.add(target, fault);
  if (fault !== null || !look?.stats) return null;
  return { name, path: target, isDirectory: look.stats.isDirectory(), isLink, size: look.stats.size };
}

/** The fault of a file whose content cannot be read. @throws the cause, if it is not a system error */
export function readingFault(cause: unknown): string {
  if (!isSystemError(cause)) throw cause;
  const remedy = isForbidden(cause) ? 'make it readable' : 'copy it again from the original';
  return `cannot be read: ${faultWithoutPath(cause)}; ${remedy}, or leave it out`;
}

/** The fault of an empty file. */
export const emptyFile = 'is empty (0 bytes)';

/** The fault of a directory without files. */
export const nothingToSend = 'contains no file to send';
