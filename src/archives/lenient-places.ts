import path from 'node:path';
import { quoteName } from '../contract/quote.js';
import { ArchiveError } from './errors.js';
import { freeName, maxNameBytes } from './free-name.js';
import type { Notes } from './notes.js';
import { windowsName } from './windows-names.js';

/** Longest path that Linux opens, and longer than most systems do. */
const maxPathBytes = 4096;

export interface PlaceOptions {
  readonly root: string;
  /** Names at the top of `root` that no entry may take. */
  readonly reserved: readonly string[];
  readonly platform: NodeJS.Platform;
  readonly notes: Notes;
}

/** An entry's name, in parts, and what is left of it where the system cannot have it as it is. */
interface Wish {
  readonly name: string;
  readonly parts: readonly string[];
  readonly isDirectory: boolean;
}

/**
 * Gives entries their places so that one name that cannot be had costs no other file: it is changed, or the file is
 * left out, and both are noted.
 */
export class LenientPlaces {
  readonly #files = new Set<string>();
  readonly #counts = new Map<string, number>();
  readonly #tops = new Map<string, string>();
  readonly #reserved: ReadonlySet<string>;

  constructor(
    private readonly options: PlaceOptions,
    private readonly names: readonly string[],
  ) {
    this.#reserved = new Set(options.reserved.map((name) => this.#key(name)));
  }

  /**
   * The path of each name, in their order; null for one that is left out.
   * @throws ArchiveError for a name that leads out of the root: such an archive is not an accident
   */
  all(): (string | null)[] {
    const { notes } = this.options;
    const wishes = this.names.map((name) => this.#wish(name));
    const places = new Array<string | null>(wishes.length).fill(null);
    const settle = (isChanged: boolean) => {
      for (const [index, wish] of wishes.entries()) {
        if (!wish || (wish.parts.join('/') !== plain(wish.name)) !== isChanged) continue;
        const place = this.#settle(wish);
        places[index] = path.join(this.options.root, place);
        if (place !== plain(wish.name)) {
          notes.add(
            `${quoteName(wish.name)} was extracted as ${quoteName(place)}: its own name cannot be used here`,
          );
        }
      }
    };
    // What keeps its name comes first: a changed name must not take it.
    settle(false);
    settle(true);
    return places;
  }

  /** The name as this system can have it; null where it cannot be had in any way. */
  #wish(name: string): Wish | null {
    const parts = plain(name).split('/');
    if (parts.some((part) => part === '' || part === '.' || part === '..')) {
      throw new ArchiveError('unsafe', `its entry ${quoteName(name)} has a name that cannot be extracted`);
    }
    const { root, platform, notes } = this.options;
    const isWindows = platform === 'win32';
    if (!isWindows && name.includes('\0')) {
      notes.add(`${quoteName(name)} was not extracted: no file can have that name`);
      return null;
    }
    const pathBytes = Buffer.byteLength(name) + Buffer.byteLength(root) + 1;
    if (pathBytes >= maxPathBytes || parts.some((part) => Buffer.byteLength(part) > maxNameBytes)) {
      notes.add(`${quoteName(name)} was not extracted: its name is too long`);
      return null;
    }
    const [first = '', ...rest] = isWindows ? parts.map(windowsName) : parts;
    return { name, parts: [this.#top(first), ...rest], isDirectory: name.endsWith('/') };
  }

  /** The first part of a name: what is reserved has another. */
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

  #settle({ parts, isDirectory }: Wish): string {
    const place = parts.join('/');
    // Directories may share a name; files may not.
    if (isDirectory) return place;
    const directory = place.slice(0, place.lastIndexOf('/') + 1);
    const base = place.slice(directory.length);
    const isTaken = (name: string) => this.#files.has(this.#key(directory + name));
    const settled = isTaken(base) ? directory + freeName(base, this.#counts, isTaken) : place;
    this.#files.add(this.#key(settled));
    return settled;
  }

  /** What two names share that are one to the file system. */
  #key(name: string): string {
    const { platform } = this.options;
    return platform === 'win32' || platform === 'darwin' ? name.normalize('NFC').toLowerCase() : name;
  }
}

const plain = (name: string): string => name.replace(/\/+$/, '');
