import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { Owner } from '../../access/index.js';
import type { UsageOfUploads } from '../../contract/index.js';
import type { Clock } from '../../files/index.js';
import { ownDirectory, setAside } from '../data-directory/index.js';
import type { ServerEvents } from '../events.js';
import type { Report } from '../report.js';
import { FileHashes } from './file-hashes.js';
import { directoryName, directoryPattern } from './names.js';
import { OwnedUploads } from './owned-uploads.js';
import { Removals } from './removals.js';

/** Most milliseconds between two looks for uploads that have expired. */
const longestInterval = 10 * 60_000;

export interface UploadStoreDeps {
  readonly dataDirectory: string;
  /** Milliseconds that an upload is kept after its last use. */
  readonly keep: number;
  readonly clock: Clock;
  readonly events: ServerEvents;
  readonly report: Report;
}

/**
 * The uploads of all owners, in `DATA/uploads`: a directory for each owner, a file for each upload. The disk is the truth; what
 * is in memory is found there by a start.
 */
export class UploadStore {
  readonly #root: string;
  readonly #removals: Removals;
  readonly #hashes = new FileHashes();
  readonly #owners = new Map<Owner, OwnedUploads>();
  #cancelSweep: () => void = () => {};

  constructor(private readonly deps: UploadStoreDeps) {
    const { dataDirectory, report } = deps;
    this.#root = ownDirectory(dataDirectory, 'uploads', report);
    this.#removals = new Removals(path.join(this.#root, 'removed'), report);
  }

  /** Milliseconds that an upload is kept after its last use. */
  get keep(): number {
    return this.deps.keep;
  }

  /**
   * Finds the uploads of these owners on the disk, and removes those of others, whose tokens are gone.
   */
  load(owners: readonly Owner[]): void {
    this.#removals.resume();
    const known = new Map(owners.map((owner) => [directoryName(owner), owner]));
    for (const name of readdirSync(this.#root)) {
      const entry = path.join(this.#root, name);
      const owner = known.get(name);
      if (owner !== undefined) {
        for (const foreign of this.of(owner).load()) this.#setAside(path.join(entry, foreign));
      } else if (directoryPattern.test(name)) void this.#removals.remove(entry);
      else if (entry !== this.#removals.directory) this.#setAside(entry);
    }
  }

  /** Removes from now on what expires. */
  start(): void {
    const { clock, keep } = this.deps;
    this.#cancelSweep = clock.after(Math.min(keep, longestInterval), () => {
      for (const owned of this.#owners.values()) owned.removeExpired();
      this.start();
    });
  }

  close(): void {
    this.#cancelSweep();
    this.#hashes.close();
  }

  /** The uploads of an owner. */
  of(owner: Owner): OwnedUploads {
    const known = this.#owners.get(owner);
    if (known) return known;
    const { clock, keep, events } = this.deps;
    const owned = new OwnedUploads(owner, path.join(this.#root, directoryName(owner)), {
      keep,
      now: () => clock.now(),
      removals: this.#removals,
      hashes: this.#hashes,
      completed: ({ length }) => events.tell('uploaded', { owner, bytes: length }),
    });
    this.#owners.set(owner, owned);
    return owned;
  }

  /** Ends the uploads of all owners but these. */
  keepOnly(owners: readonly Owner[]): void {
    for (const [owner, { directory }] of this.#owners) {
      if (owners.includes(owner)) continue;
      this.#owners.delete(owner);
      void this.#removals.remove(directory);
    }
  }

  /**
   * Removes the upload whose last use is the longest ago, of those that nobody needs now.
   * @returns false if there is none
   */
  async dropOldest(): Promise<boolean> {
    let chosen: { readonly owned: OwnedUploads; readonly lastUse: number } | null = null;
    for (const owned of this.#owners.values()) {
      const oldest = owned.oldest();
      if (oldest && (!chosen || oldest.lastUse < chosen.lastUse)) chosen = { owned, lastUse: oldest.lastUse };
    }
    return chosen !== null && (await chosen.owned.dropOldest());
  }

  /** Removes uploads of an owner, oldest first, until they keep at most so many bytes, as far as nobody uses them. */
  trim(owner: Owner, most: number): void {
    this.#owners.get(owner)?.trim(most);
  }

  /** What each owner keeps. */
  usage(): UsageOfUploads[] {
    return [...this.#owners.values()]
      .filter(({ count }) => count > 0)
      .map(({ owner, count, bytes }) => ({ owner, uploads: count, bytes_kept: bytes }));
  }

  #setAside(entry: string): void {
    const { dataDirectory, report } = this.deps;
    setAside(dataDirectory, entry, 'it is not an upload', report);
  }
}
