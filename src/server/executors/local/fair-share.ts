import type { Owner } from '../../../access/index.js';

/**
 * Milliseconds after which past use counts half: six hours. Use in the morning weighs little in the evening, and a night
 * with all GPUs is nearly forgotten the next afternoon.
 */
export const halfLife = 6 * 3600_000;

/**
 * Milliseconds of use that are added for each device that is held: one minute. Otherwise an owner who has used a second less than
 * another would get all devices that become free at the same time.
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

/** Tracks how much each owner has recently used one kind of device. Past use counts half after `halfLife`. */
export class Shares {
  readonly #uses = new Map<Owner, Use>();

  /** @param now milliseconds of a monotonic clock */
  constructor(private readonly now: () => number) {}

  /** How much an owner has used; the owner with less goes first. */
  of(owner: Owner): number {
    const { used, held } = this.#current(owner);
    return used + held * advance;
  }

  /** Devices that an owner holds now. */
  heldBy(owner: Owner): number {
    return this.#uses.get(owner)?.held ?? 0;
  }

  /** Records that an owner gets devices or, if the number is negative, returns them. */
  hold(owner: Owner, devices: number): void {
    if (devices === 0) return;
    this.#current(owner).held += devices;
  }

  /**
   * Counts what was used before this server started.
   * @param ago milliseconds since the end of the use
   */
  remember(owner: Owner, deviceTime: number, ago: number): void {
    this.#current(owner).used += deviceTime * 2 ** (-ago / halfLife);
  }

  /** The use of an owner, updated to now: earlier use decays, and held devices are added. */
  #current(owner: Owner): Use {
    const time = this.now();
    const use = this.#uses.get(owner) ?? { used: 0, at: time, held: 0 };
    this.#uses.set(owner, use);
    const decay = 2 ** (-(time - use.at) / halfLife);
    use.used = use.used * decay + use.held * (halfLife / Math.LN2) * (1 - decay);
    use.at = time;
    return use;
  }
}

/** Milliseconds after which a waiting owner who got nothing goes before everybody who did: one hour. */
const longestPassedOver = 3600_000;

/** A waiting job. */
export interface Queued {
  readonly owner: Owner;
  /** Its number in the order of arrival. */
  readonly arrival: number;
  /** When it arrived, in milliseconds of a monotonic clock. */
  readonly since: number;
}

interface Line<T> {
  readonly owner: Owner;
  readonly jobs: T[];
  /** Whether no job of this owner has been considered yet in this pass. */
  isFresh: boolean;
}

type Rank = readonly [number, number, number];

const compare = (a: Rank, b: Rank): number => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];

/**
 * Decides whose turn it is. Among waiting owners, the one with the least recent use goes first; the jobs of one owner go
 * in order of arrival. Nobody starves: the first job of an owner who got nothing for an hour goes before all others,
 * longest wait first. If all jobs have one owner, this is the order of arrival.
 */
export class TurnsOfOwners {
  /** When the first job of each owner last got what it was waiting for: the next job has been first since then. */
  readonly #served = new Map<Owner, number>();

  constructor(
    private readonly shares: Shares,
    private readonly now: () => number,
  ) {}

  /** Records that the first job of an owner got what it was waiting for. */
  serve(owner: Owner): void {
    this.#served.set(owner, this.now());
  }

  /**
   * Yields the jobs in turn, and whether each is its owner's first. Devices given during the pass are taken into account.
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
      // The owner may have been given devices for this job, so the rank of their next job is computed anew.
      const rank = this.#rank(line);
      const behind = ranked.findIndex((each) => compare(rank, each.rank) < 0);
      ranked.splice(behind < 0 ? ranked.length : behind, 0, { line, rank });
    }
  }

  /** The sort key of an owner: compared number by number, smaller ones first. */
  #rank({ owner, jobs: [job], isFresh }: Line<Queued>): Rank {
    const { since = 0, arrival = 0 } = job ?? {};
    const waiting = Math.max(since, this.#served.get(owner) ?? since);
    const isPassedOver = isFresh && this.now() - waiting > longestPassedOver;
    return isPassedOver ? [0, waiting, arrival] : [1, this.shares.of(owner), arrival];
  }
}
