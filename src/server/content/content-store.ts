import { randomBytes } from 'node:crypto';
import { readdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { Owner } from '../../access/index.js';
import type { UsageOfUploads } from '../../contract/index.js';
import { type Clock, makeDirectory } from '../../files/index.js';
import { ownDirectory, setAside } from '../data-directory/index.js';
import type { ServerEvents } from '../events.js';
import type { Report } from '../report.js';
import { FileHashes } from './file-hashes.js';
import { directoryName, directoryPattern } from './names.js';
import { OwnedUploads } from './owned-uploads.js';

/** Most milliseconds between two looks for uploads that have expired. */
const longestInterval = 10 * 60_000;

export interface ContentStoreDeps {
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
export class ContentStore {
  readonly #root: string;
  readonly #removed: string;
  readonly #hashes = new FileHashes();
  readonly #owners = new Map<Owner, OwnedUploads>();
  #cancelSweep: () => void = () => {};

  constructor(private readonly deps: ContentStoreDeps) {
    const { dataDirectory, report } = deps;
    this.#root = ownDirectory(dataDirectory, 'uploads', report);
    this.#removed = path.join(this.#root, 'removed');
    makeDirectory(this.#removed, 0o700);
  }

  /** Milliseconds that an upload is kept after its last use. */
  get keep(): number {
    return this.deps.keep;
  }

  /**
   * Finds the uploads of these owners on the disk, and removes those of others, whose tokens are gone.
   */
  load(owners: readonly Owner[]): void {
    for (const name of readdirSync(this.#removed)) void this.#delete(path.join(this.#removed, name));
    const known = new Map(owners.map((owner) => [directoryName(owner), owner]));
    for (const name of readdirSync(this.#root)) {
      const entry = path.join(this.#root, name);
      const owner = known.get(name);
      if (owner !== undefined) {
        for (const foreign of this.of(owner).load()) this.#setAside(path.join(entry, foreign));
      } else if (directoryPattern.test(name)) this.#end(entry);
      else if (entry !== this.#removed) this.#setAside(entry);
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
    const { clock, keep, events, report } = this.deps;
    const owned = new OwnedUploads(owner, path.join(this.#root, directoryName(owner)), {
      keep,
      now: () => clock.now(),
      removed: this.#removed,
      hashes: this.#hashes,
      report,
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
      this.#end(directory);
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

  /** Removes all uploads of an owner in one step. */
  #end(directory: string): void {
    const target = path.join(this.#removed, randomBytes(8).toString('hex'));
    try {
      renameSync(directory, target);
      void this.#delete(target);
    } catch (cause) {
      this.deps.report('Uploads of an owner could not be removed', cause);
    }
  }

  async #delete(entry: string): Promise<void> {
    await rm(entry, { recursive: true, force: true }).catch((cause) =>
      this.deps.report(`${entry} could not be removed; the next start tries again`, cause),
    );
  }
}
