import { setTimeout as delay } from 'node:timers/promises';
import { monotonicTime } from '../../files/index.js';
import { HttpError, isGatewayError, TransportError } from '../errors.js';
import type { Reporter } from '../reporter.js';

/** Waits. Rejects with the reason of the signal if that is aborted. */
export async function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  try {
    await delay(milliseconds, undefined, signal ? { signal } : {});
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/**
 * Milliseconds to wait before an attempt, counted from 0. Doubles up to `ceiling`, then varies by a quarter, so that the clients
 * of a restarted server do not all connect at the same moment. The loops that use this function share nothing else: each decides
 * for itself what counts as progress and when to stop.
 */
export function backoff(attempt: number, first = 250, ceiling = 10_000): number {
  const even = Math.min(first * 2 ** Math.min(attempt, 20), ceiling);
  return even * (0.75 + Math.random() / 2);
}

/** How many times a GET whose connection broke is repeated. */
export const questionsAgain = 4;

/** Shows the user that the command is waiting for the server. */
export type Watcher = Pick<Reporter, 'note' | 'waiting'>;

/** The remaining time in readable form. */
function remaining(milliseconds: number): string {
  const seconds = Math.ceil(milliseconds / 1000);
  return seconds > 90 ? `${Math.ceil(seconds / 60)} min` : `${seconds} s`;
}

/**
 * How long a command keeps retrying a server that it has reached before. Each outage is noted once; on a terminal, the wait shows
 * the remaining time. An interruption ends the wait at once.
 */
export class Patience {
  #since: number | null = null;
  #failures = 0;

  /** @param seconds maximum length of an outage */
  constructor(
    private readonly seconds: number,
    private readonly signal: AbortSignal | undefined,
    private readonly watcher?: Watcher | undefined,
  ) {}

  /** The maximum length of an outage, in readable form. */
  get words(): string {
    return remaining(this.seconds * 1000);
  }

  /**
   * Waits before the next attempt, longer each time.
   * @param error why the last attempt failed
   * @param limit milliseconds after which the caller gives up for its own reasons
   * @throws the error, if the time is up; the reason of the signal, if it is aborted
   */
  async after(error: Error, limit = Number.POSITIVE_INFINITY): Promise<void> {
    // An interruption also breaks connections, but is not an outage.
    this.signal?.throwIfAborted();
    const now = monotonicTime();
    const isNew = this.#since === null;
    this.#since ??= now;
    const left = Math.min(this.seconds * 1000 - (now - this.#since), limit);
    if (left <= 0) throw error;
    const plan = `again for another ${remaining(left)}`;
    if (isNew) this.watcher?.note(`${error.message}; trying ${plan}`);
    // The time comes first, because a narrow terminal cuts the end.
    this.watcher?.waiting(`Trying ${plan}: ${error.message}`);
    // The last attempt is made when the time is up, not before.
    await pause(Math.min(backoff(this.#failures), left), this.signal);
    this.#failures += 1;
  }

  /** Records that the server answers, at least for now, so that nothing is being waited for. */
  answered(): void {
    if (this.#since !== null) this.watcher?.waiting(null);
  }

  /** Ends the outage, so that the next failure starts a new one. @returns whether there was an outage */
  renew(): boolean {
    const wasAway = this.#since !== null;
    this.answered();
    this.#since = null;
    this.#failures = 0;
    return wasAway;
  }
}

/**
 * Whether the connection broke, or a proxy cannot reach its server. A busy server does not count: it has answered, and
 * may stay busy for hours.
 */
const isOutage = (error: unknown): boolean =>
  error instanceof TransportError
    ? error.fault !== 'unusable'
    : error instanceof HttpError && error.isOfProxy && isGatewayError(error.status);

/**
 * Repeats a request until it is answered or the patience runs out; it must be safe to repeat. A server that was never reached is
 * not waited for; one that only cuts connections is retried as often as for a GET.
 * @param ask gets whether an earlier request may have been carried out although it was not answered
 * @param left milliseconds after which the caller gives up for its own reasons
 * @throws the error of the last attempt; the reason of an interruption
 */
export async function untilAnswered<T>(
  connection: { readonly isMet: boolean },
  patience: Patience,
  ask: (mayBeDone: boolean) => Promise<T>,
  left: () => number = () => Number.POSITIVE_INFINITY,
): Promise<T> {
  let mayBeDone = false;
  let cuts = 0;
  for (;;) {
    try {
      const answer = await ask(mayBeDone);
      patience.renew();
      return answer;
    } catch (error) {
      const fault = error instanceof TransportError ? error.fault : null;
      if (fault === 'broken') cuts += 1;
      const isReached = connection.isMet || (cuts > 0 && cuts <= questionsAgain);
      if (!isReached || !isOutage(error)) throw error;
      mayBeDone ||= fault === 'broken' || fault === 'timeout';
      await patience.after(error as Error, left());
    }
  }
}
