import { closeSync, lstatSync, openSync, rmSync } from 'node:fs';
import path from 'node:path';
import { quoteName } from '../contract/index.js';
import {
  foldedName,
  freeName,
  isSafeName,
  maxNameBytes,
  type Notes,
  privateMode,
  safeName,
} from '../files/index.js';
import { ArchiveError } from './errors.js';

/** A path that begins with a drive letter, which is absolute on Windows. */
const drivePath = /^[A-Za-z]:/;

/** Maximum number of parts in an entry's path. */
export const maxParts = 64;

/**
 * The path of an archive's entry under `root`. Null for a name that would leave `root`, is absolute on any system, or has a part
 * that is not safe (see `isSafeName`).
 */
export function entryPath(root: string, name: string, platform = process.platform): string | null {
  const parts = name.replace(/\/+$/, '').split('/');
  if (drivePath.test(name) || parts.length > maxParts || !parts.every((part) => isSafeName(part, platform)))
    return null;
  return path.join(root, ...parts);
}

/**
 * Adds a directory and its parents to a set, as far as `root`, which is not added. Packing and extracting count directories in the
 * same way: otherwise an archive could be packed that nobody may extract.
 */
export function addDirectories(directories: Set<string>, directory: string, root: string): void {
  for (let each = directory; each !== root && !directories.has(each); each = path.dirname(each))
    directories.add(each);
}

/**
 * Whether `A.txt` and `a.txt` are the same file in a directory, as they are on FAT under any system. Creates an empty file to
 * find out.
 */
function foldsCase(directory: string): boolean {
  const probe = path.join(directory, `.remote-app-Case-${process.pid}`);
  try {
    closeSync(openSync(probe, 'wx', privateMode));
  } catch {
    // The directory is not writable; the extraction itself reports that.
    return false;
  }
  try {
    return lstatSync(probe.replace('Case', 'cASE'), { throwIfNoEntry: false }) !== undefined;
  } finally {
    rmSync(probe, { force: true });
  }
}

/** Maximum length in bytes of a path that Linux opens; most systems have a lower limit. */
const maxPathBytes = 4096;

export interface PlaceOptions {
  readonly root: string;
  /** Names at the top of `root` that no entry may take. */
  readonly reserved: readonly string[];
  readonly platform: NodeJS.Platform;
  readonly notes: Notes;
}

/** An entry's name, and the path that it would get if it were the only entry. */
interface WantedPath {
  readonly name: string;
  /** The name without trailing slashes. */
  readonly own: string;
  readonly place: string;
}

/**
 * Chooses paths for entries so that an impossible name affects only its own file: the file is renamed or left out, with a note.
 */
export class LenientPlaces {
  readonly #files = new Set<string>();
  readonly #counts = new Map<string, number>();
  readonly #tops = new Map<string, string>();
  readonly #reserved: ReadonlySet<string>;
  readonly #folds: boolean;

  constructor(
    private readonly options: PlaceOptions,
    private readonly names: readonly string[],
  ) {
    this.#folds = this.#foldsHere();
    this.#reserved = new Set(options.reserved.map((name) => this.#key(name)));
  }

  /**
   * The path of each name, in the order of the names; null for an entry that is left out.
   * @throws ArchiveError for a name that leads out of the root, because that is never an accident
   */
  all(): (string | null)[] {
    const changed: { readonly index: number; readonly wanted: WantedPath }[] = [];
    const places = this.names.map((name, index) => {
      const wanted = this.#wantedPath(name);
      if (wanted && wanted.place !== wanted.own) changed.push({ index, wanted });
      return wanted && wanted.place === wanted.own ? this.#choose(wanted) : null;
    });
    // Entries that keep their names are placed first, so that no renamed entry takes the name of another.
    for (const { index, wanted } of changed) places[index] = this.#choose(wanted);
    return places;
  }

  /** The name in a form that is safe on this system, as `isSafeName` requires; null if it is too long. */
  #wantedPath(name: string): WantedPath | null {
    const own = name.endsWith('/') ? name.replace(/\/+$/, '') : name;
    const parts = own.split('/');
    if (parts.some((part) => part === '' || part === '.' || part === '..')) {
      throw new ArchiveError('unsafe', `its entry ${quoteName(name)} has a name that cannot be extracted`);
    }
    const { root, platform, notes } = this.options;
    const maxBytes = maxPathBytes - Buffer.byteLength(root) - 2;
    if (isLonger(name, maxBytes) || parts.some((part) => isLonger(part, maxNameBytes))) {
      notes.add(`${quoteName(name)} was not extracted: its name is too long`);
      return null;
    }
    return { name, own, place: this.#belowTop(parts.map((part) => safeName(part, platform)).join('/')) };
  }

  /** A path with its first part changed if that is reserved. */
  #belowTop(place: string): string {
    const end = place.indexOf('/');
    const first = end < 0 ? place : place.slice(0, end);
    const top = this.#top(first);
    return top === first ? place : top + place.slice(first.length);
  }

  /** The first part of a name, changed if it is reserved. */
  #top(name: string): string {
    const key = this.#key(name);
    if (!this.#reserved.has(key)) return name;
    let top = this.#tops.get(key);
    if (top === undefined) {
      const tops = this.names.map((each) => this.#key(each.split('/', 1)[0] ?? ''));
      const taken = new Set([...this.#reserved, ...tops]);
      top = freeName(name, this.#counts, (each) => taken.has(this.#key(each)));
      this.#tops.set(key, top);
    }
    return top;
  }

  /** The final path of an entry. */
  #choose({ name, own, place }: WantedPath): string {
    const chosen = name.endsWith('/') ? place : this.#apart(place);
    if (chosen !== own) {
      this.options.notes.add(
        `${quoteName(name)} was extracted as ${quoteName(chosen)}: its own name cannot be used here`,
      );
    }
    return path.join(this.options.root, chosen);
  }

  /** A path that no other file has; directories may share one. */
  #apart(place: string): string {
    const key = this.#key(place);
    if (!this.#files.has(key)) {
      this.#files.add(key);
      return place;
    }
    const directory = place.slice(0, place.lastIndexOf('/') + 1);
    const isTaken = (name: string) => this.#files.has(this.#key(directory + name));
    const free = directory + freeName(place.slice(directory.length), this.#counts, isTaken);
    this.#files.add(this.#key(free));
    return free;
  }

  /** A key that is the same for all names that this file system treats as equal. */
  #key(name: string): string {
    return this.#folds ? foldedName(name) : name;
  }

  /** Whether names that differ only in case are the same here. Asking the disk is faster than comparing all names. */
  #foldsHere(): boolean {
    const { platform, root } = this.options;
    return platform === 'win32' || platform === 'darwin' || foldsCase(root);
  }
}

/** Whether a text takes more than this many bytes in UTF-8. A UTF-16 unit takes at most three, so short texts need no count. */
const isLonger = (text: string, bytes: number): boolean =>
  text.length * 3 > bytes && Buffer.byteLength(text) > bytes;
