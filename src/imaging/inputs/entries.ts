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
   * @param purpose what the files are wanted for
   * @param failsAlone whether a volume fails by itself, while all others are sent: see `takeAlone`
   */
  constructor(
    readonly purpose: 'sent' | 'shown' = 'sent',
    readonly failsAlone = false,
  ) {}

  /** How many were found. */
  get count(): number {
    return this.#all.length + this.#alone.size;
  }

  /** @param why words that follow the path in a sentence */
  add(target: string, why: string): void {
    if (this.failsAlone && isWholeVolumeName(target)) this.#alone.set(target, why);
    else this.#note(target, `${quotePath(target)} ${why}`);
  }

  /** The files that fail alone, each with the reason. From then on they are no obstacles. */
  takeAlone(): ReadonlyMap<string, string> {
    const alone = this.#alone;
    this.#alone = new Map();
    return alone;
  }

  /** Adds a path that does not exist. @param why more words, for the end of the sentence */
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

  /** @throws UsageError if anything was found */
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

/** What is found at a path: a file or a directory, or the words for why it cannot be sent, which follow its name. */
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
 * Looks at what a path leads to, links followed. Synchronous, since a directory may have thousands of files: the thread pool
 * takes longer than the calls themselves.
 * @param bytes the path as it is on the disk, if it is not UTF-8
 * @returns null if nothing has this path
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
  /** Whether it is a link itself. */
  readonly isLink: boolean;
  /** Bytes of the link's target. */
  readonly size: number;
}

/** The fault of a file whose name is not UTF-8: a form and an archive would change its name. */
export const misnamed = 'has a name that is not UTF-8; rename it';

/** How many files and directories are looked at below one directory: far more than a study has. */
export const maxEntries = 1_000_000;

export const tooMany = `there are more than ${maxEntries} files and directories; name those below that are meant`;

/** A directory while it is walked, with what may be sent of it. */
interface Visited {
  readonly path: string;
  readonly entries: readonly Entry[];
}

/** How a directory and those below it are walked. */
export interface InputWalk {
  readonly obstacles: Obstacles;
  /** Which entries to look at. Faults of others are not reported. */
  readonly wanted: (name: string, path: string) => boolean;
  /** Whether a directory is walked too. Asked after its parent was visited. */
  readonly enters: (entry: Entry) => boolean;
  readonly followsLinks?: boolean;
  /** Called with a directory to which several paths lead, and the first of them: it is walked only once. */
  readonly onRepeated?: (directory: string, first: string) => void;
}

export const isBelow = (file: string, directory: string): boolean =>
  file.startsWith(`${directory}${path.sep}`);

/**
 * A directory and those below it, links followed, each visited once: by its first path in the order of names. What cannot be
 * sent is added to the obstacles: links that lead nowhere, files that cannot be read, FIFOs, sockets, devices, names that are
 * not UTF-8, and more entries than the limit.
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

/** A path without a slash at its end, and without a dot at its beginning. */
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

/** The fault of a file whose content cannot be read. @throws the cause, if it is no error of the system */
export function readingFault(cause: unknown): string {
  if (!isSystemError(cause)) throw cause;
  const remedy = isForbidden(cause) ? 'make it readable' : 'copy it again from the original';
  return `cannot be read: ${faultWithoutPath(cause)}; ${remedy}, or leave it out`;
}

/** The fault of an empty file. */
export const emptyFile = 'is empty (0 bytes)';

/** The fault of a directory without files. */
export const nothingToSend = 'contains no file to send';
