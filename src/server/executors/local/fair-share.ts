import type { Owner } from '../../../access/index.js';

/**
 * Milliseconds after which what somebody has used counts half: six hours. What was used in the morning weighs little in the
 * evening, and a night with all GPUs is nearly forgotten the next afternoon.
 */
export const halfLife = 6 * 3600_000;

/**
 * Milliseconds that a device counts for from the moment that it is given: a minute. Without it somebody who has used a
 * second less than another would be given all devices that become free at the same time.
 */
const advance = 60_000;

/** What an owner has used. */
interface Use {
  /** Device-milliseconds, decayed, up to `at`. */
  used: number;
  at: number;
  /** Devices that are held now. */
  held: number;
}

/** What each owner has used of one kind of device lately: the time of each device, which counts half after `halfLife`. */
export class Shares {
  readonly #uses = new Map<Owner, Use>();

  /** @param now milliseconds of a monotonic clock */
  constructor(private readonly now: () => number) {}

  /** How much an owner has had: the one with less goes first. */
  of(owner: Owner): number {
    const use = this.#current(owner);
    return use === undefined ? 0 : use.used + use.held * advance;
  }

  /** Devices that an owner holds now. */
  heldBy(owner: Owner): number {
    return this.#uses.get(owner)?.held ?? 0;
  }

  /** An owner is given devices, or gives them back (a negative number). */
  hold(owner: Owner, devices: number): void {
    if (devices === 0) return;
    const use = this.#current(owner) ?? { used: 0, at: this.now(), held: 0 };
    use.held += devices;
    this.#uses.set(owner, use);
  }

  /**
   * Counts what was used before this server started.
   * @param ago milliseconds since the end of the use
   */
  remember(owner: Owner, deviceTime: number, ago: number): void {
    const use = this.#current(owner) ?? { used: 0, at: this.now(), held: 0 };
    use.used += deviceTime * 2 ** (-ago / halfLife);
    this.#uses.set(owner, use);
  }

  /** The use of an owner, brought up to now: what was used before decays, and what is held is added. */
  #current(owner: Owner): Use | undefined {
    const use = this.#uses.get(owner);
    if (!use) return undefined;
    const time = this.now();
    const decay = 2 ** (-(time - use.at) / halfLife);
    use.used = use.used * decay + use.held * (halfLife / Math.LN2) * (1 - decay);
    use.at = time;
    return use;
  }
}

/** Milliseconds after which an owner who waits, and was given nothing, goes before all who were: one hour. */
export const longestPassedOver = 3600_000;

/** A job that waits. */
export interface Queued {
  readonly owner: Owner;
  /** Its number in the order in which jobs came. */
  readonly arrival: number;
  /** When it came. */
  readonly since: number;
}

interface Line<T> {
  readonly owner: Owner;
  readonly jobs: T[];
  /** Whether its first job has not been considered yet in this pass. */
  isFresh: boolean;
}

type Rank = readonly [number, number, number];

const compare = (a: Rank, b: Rank): number => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];

/**
 * Whose turn it is. Between owners who wait, the one who has had less lately goes first; the jobs of one owner go in the
 * order in which they came. Nobody starves: who was given nothing for an hour goes before all others, the one who has waited
 * longest first, with their first job; others can only come after them. Where all jobs have one owner this is the order in
 * which they came.
 */
export class TurnsOfOwners {
  /** When each owner's first job was last given what it waited for: the next one is the first since then. */
  readonly #served = new Map<Owner, number>();

  constructor(
    private readonly shares: Shares,
    private readonly now: () => number,
  ) {}

  /** Notes that an owner was given what their first job waited for. */
  serve(owner: Owner): void {
    this.#served.set(owner, this.now());
  }

  /**
   * The jobs, each when it is its turn, and whether it is the first of its owner: what the owner of an earlier one was given
   * meanwhile counts.
   */
  *order<T extends Queued>(jobs: readonly T[]): Generator<{ job: T; isFirst: boolean }, void> {
    const lines = new Map<Owner, Line<T>>();
    for (const job of [...jobs].sort((a, b) => a.arrival - b.arrival)) {
      const line = lines.get(job.owner) ?? { owner: job.owner, jobs: [], isFresh: true };
      line.jobs.push(job);
      lines.set(job.owner, line);
    }
    const ranked = [...lines.values()].map((line) => ({ line, rank: this.#rank(line) }));
    ranked.sort((one, other) => compare(one.rank, other.rank));
    for (let next = ranked.shift(); next; next = ranked.shift()) {
      const { line } = next;
      const job = line.jobs.shift();
      if (job === undefined) continue;
      const isFirst = line.isFresh;
      line.isFresh = false;
      yield { job, isFirst };
      if (line.jobs.length === 0) continue;
      // The owner of this job may have been given something: their next one has its own place.
      const rank = this.#rank(line);
      const behind = ranked.findIndex((each) => compare(rank, each.rank) < 0);
      ranked.splice(behind < 0 ? ranked.length : behind, 0, { line, rank });
    }
  }

  /** Numbers to compare one after the other; the smaller ones go first. */
  #rank({ owner, jobs: [job], isFresh }: Line<Queued>): Rank {
    const { since = 0, arrival = 0 } = job ?? {};
    const waiting = Math.max(since, this.#served.get(owner) ?? since);
    const isPassedOver = isFresh && this.now() - waiting > longestPassedOver;
    return isPassedOver ? [0, waiting, arrival] : [1, this.shares.of(owner), arrival];
  }
}
