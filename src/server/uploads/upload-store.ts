import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { Owner } from '../../access/index.js';
import type { UsageOfUploads } from '../../contract/index.js';
import type { Clock } from '../../files/index.js';
import { ownDirectory, setAside } from '../data-directory/index.js';
import type { ServerEvents } from '../events.js';
import type { Report } from '../report.js';
import { OwnedUploads } from './owned-uploads.js';
import { Removals } from './removals.js';

/**
 * The name of the directory of an owner's uploads. A restarted server derives the same name, and the name reveals nothing about
 * the owner.
 */
const directoryName = (owner: Owner): string =>
  createHash('sha256')
    .update(`uploads of ${JSON.stringify(owner)}`)
    .digest('hex')
    .slice(0, 32);

const directoryPattern = /^[0-9a-f]{32}$/;

/** Maximum number of milliseconds between two sweeps for expired and idle uploads. */
const maxInterval = 10 * 60_000;

export interface UploadStoreDeps {
  readonly dataDirectory: string;
  /** Milliseconds that an upload is kept after its last use. */
  readonly keep: number;
  readonly clock: Clock;
  readonly events: ServerEvents;
  readonly report: Report;
  /**
   * Inspects a file whose bytes have all arrived. @throws ServiceError if the server does not accept it; the file is then removed
   */
  readonly inspect?: ((file: string) => Promise<void>) | undefined;
}

/**
 * The uploads of all owners, in `DATA/uploads`: a directory per owner, a file per upload. The disk is authoritative: at startup,
 * the state in memory is rebuilt from it.
 */
export class UploadStore {
  readonly #root: string;
  readonly #removals: Removals;
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

  /** Loads the uploads of these owners from disk. Removes those of other owners, whose tokens no longer exist. */
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

  /** Starts removing uploads when they expire. */
  start(): void {
    const { clock, keep } = this.deps;
    this.#cancelSweep = clock.after(Math.min(keep, maxInterval), () => {
      for (const owned of this.#owners.values()) owned.sweep();
      this.start();
    });
  }

  close(): void {
    this.#cancelSweep();
  }

  /** The uploads of an owner. */
  of(owner: Owner): OwnedUploads {
    const known = this.#owners.get(owner);
    if (known) return known;
    const { clock, keep, events, inspect = async () => {} } = this.deps;
    const owned = new OwnedUploads(owner, path.join(this.#root, directoryName(owner)), {
      keep,
      now: () => clock.now(),
      removals: this.#removals,
      inspect,
      announceComplete: ({ length }) => events.announce('uploaded', { owner, bytes: length }),
    });
    this.#owners.set(owner, owned);
    return owned;
  }

  /** Removes the uploads of all other owners. */
  keepOnly(owners: readonly Owner[]): void {
    for (const [owner, owned] of this.#owners) {
      if (owners.includes(owner)) continue;
      this.#owners.delete(owner);
      owned.release();
      void this.#removals.remove(owned.directory);
    }
  }

  /** Uploads that may be evicted if disk space is short, least recently used first. */
  evictable() {
    const found = [...this.#owners.values()].flatMap((owned) =>
      owned.evictable().map((upload) => ({ owned, upload })),
    );
    return found
      .sort((a, b) => a.upload.lastUse - b.upload.lastUse)
      .map(({ owned, upload }) => ({
        owner: owned.name,
        bytes: upload.offset,
        remove: () => owned.remove(upload),
      }));
  }

  /** Evicts uploads of an owner until they have at most this many bytes. Uploads in use stay. */
  trim(owner: Owner, maxBytes: number): void {
    this.#owners.get(owner)?.trim(maxBytes);
  }

  /** How much each owner stores. */
  usage(): UsageOfUploads[] {
    return [...this.#owners.values()]
      .filter(({ count }) => count > 0)
      .map(({ name: owner, count, bytes }) => ({ owner, uploads: count, bytes_kept: bytes }));
  }

  #setAside(entry: string): void {
    const { dataDirectory, report } = this.deps;
    setAside(dataDirectory, entry, 'it is not an upload', report);
  }
}
