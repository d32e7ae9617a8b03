import type { Owner } from '../../../access/principal.js';

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

  /** @param now milliseconds of a clock that nobody sets */
  constructor(private readonly now: () => number) {}

  /** How much an owner has had: whoever has had less goes first. */
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
