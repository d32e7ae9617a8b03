import { monotonicTime } from '../../files/monotonic-time.js';
import type { Reporter } from '../reporter.js';
import { backoff, pause } from './backoff.js';

/** Where a person sees that the server is waited for. */
export type Watcher = Pick<Reporter, 'note' | 'waiting'>;

/** What is left of a time, as a person reads it. */
function remaining(milliseconds: number): string {
  const seconds = Math.ceil(milliseconds / 1000);
  return seconds > 90 ? `${Math.ceil(seconds / 60)} min` : `${seconds} s`;
}

/**
 * How long a command keeps trying a server that it has reached before. Each outage is noted once; at a terminal the wait
 * shows how much of the time is left. An interruption ends it at once.
 */
export class Patience {
  #since: number | null = null;
  #failures = 0;

  /** @param seconds the longest outage */
  constructor(
    private readonly seconds: number,
    private readonly signal: AbortSignal | undefined,
    private readonly watcher?: Watcher | undefined,
  ) {}

  /** The longest outage in words. */
  get words(): string {
    return remaining(this.seconds * 1000);
  }

  /**
   * Waits before the next attempt, longer after each.
   * @param error why the last attempt failed
   * @param limit milliseconds after which the caller gives up for reasons of its own
   * @throws the error, if the time is up; the reason of the signal, if that is aborted
   */
  async after(error: Error, limit = Number.POSITIVE_INFINITY): Promise<void> {
    // An interruption breaks connections: that is not an outage.
    this.signal?.throwIfAborted();
    const now = monotonicTime();
    const isNew = this.#since === null;
    this.#since ??= now;
    const left = Math.min(this.seconds * 1000 - (now - this.#since), limit);
    if (left <= 0) throw error;
    const plan = `again for another ${remaining(left)}`;
    if (isNew) this.watcher?.note(`${error.message}; trying ${plan}`);
    // The time comes first: a narrow terminal cuts the end.
    this.watcher?.waiting(`Trying ${plan}: ${error.message}`);
    // The last attempt comes when the time is up, and not before.
    await pause(Math.min(backoff(this.#failures), left), this.signal);
    this.#failures += 1;
  }

  /** The server answers, which may not last: nothing is waited for at the moment. */
  answered(): void {
    if (this.#since !== null) this.watcher?.waiting(null);
  }

  /** The outage is over: the next failure is another one. */
  renew(): void {
    this.answered();
    this.#since = null;
    this.#failures = 0;
  }
}
