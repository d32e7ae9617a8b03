import path from 'node:path';
import { quoteName } from '../contract/quote.js';
import type { TimeSlice } from '../files/time-slice.js';
import { entryName } from './entry-name.js';
import { entryPaths } from './entry-path.js';
import { ArchiveError } from './errors.js';
import { LenientPlaces, type PlaceOptions } from './lenient-places.js';
import type { ZipEntry } from './zip-entry.js';

/** Stored and deflated: what every zip program writes. */
const knownMethods = new Set([0, 8]);
const encryptedFlag = 0x1;
const fileTypeMask = 0o170000;
const regularFile = 0o100000;
const directoryType = 0o040000;

/** An entry and where it goes. */
export interface Target {
  readonly entry: ZipEntry;
  readonly path: string;
  readonly isDirectory: boolean;
}

export interface PlanOptions extends PlaceOptions {
  /** Whether an entry whose name is impossible here is renamed or left out; otherwise the archive is refused. */
  readonly lenient: boolean;
  /** Lets other work run in between: an archive may have 200,000 entries. */
  readonly slice: TimeSlice;
}

/**
 * The place of every entry. An entry that must not be written refuses the archive before anything is written.
 * @throws ArchiveError
 */
export async function planEntries(entries: readonly ZipEntry[], options: PlanOptions): Promise<Target[]> {
  const names: string[] = [];
  const seen = new Set<string>();
  for (const entry of entries) {
    if (options.slice.isOver) await options.slice.pause();
    const name = entryName(entry);
    checkKind(entry, name);
    if (seen.has(name)) throw new ArchiveError('unsafe', `it has two entries named ${quoteName(name)}`);
    seen.add(name);
    names.push(name);
  }
  const places = options.lenient
    ? new LenientPlaces(options, names).all()
    : await strictPlaces(options, names);
  return entries.flatMap((entry, index) => {
    const place = places[index];
    return place ? [{ entry, path: place, isDirectory: isDirectoryName(names[index] ?? '') }] : [];
  });
}

const isDirectoryName = (name: string): boolean => name.endsWith('/');

function checkKind(entry: ZipEntry, name: string): void {
  const type = (entry.externalFileAttributes >>> 16) & fileTypeMask;
  if (type !== 0 && type !== (isDirectoryName(name) ? directoryType : regularFile)) {
    throw new ArchiveError('unsafe', `its entry ${quoteName(name)} is a link or a device, not a file`);
  }
  if (entry.flags & encryptedFlag || !knownMethods.has(entry.compressionMethod)) {
    throw new ArchiveError('corrupt', `its entry ${quoteName(name)} is encrypted or oddly compressed`);
  }
}

async function strictPlaces(options: PlanOptions, names: readonly string[]): Promise<string[]> {
  const { root, reserved, platform, slice } = options;
  const placeOf = entryPaths(root, platform);
  const kept = new Set(reserved.map((name) => path.join(root, name)));
  const taken = new Set<string>();
  const places: string[] = [];
  for (const name of names) {
    if (slice.isOver) await slice.pause();
    const place = placeOf(name);
    if (place === null || kept.has(place)) {
      throw new ArchiveError('unsafe', `its entry ${quoteName(name)} has a name that cannot be extracted`);
    }
    if (taken.has(place)) throw new ArchiveError('unsafe', `it has two entries named ${quoteName(name)}`);
    taken.add(place);
    places.push(place);
  }
  return places;
}
