import { setTimeout as delay } from 'node:timers/promises';

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
 * Milliseconds to wait before an attempt, counted from 0. Doubles up to `ceiling`, then varies by a quarter, so that the
 * clients of a restarted server do not all connect at the same moment. The loops that use it share nothing else: each
 * decides by its own rules what counts as progress and when it ends.
 */
export function backoff(attempt: number, first = 250, ceiling = 10_000): number {
  const even = Math.min(first * 2 ** Math.min(attempt, 20), ceiling);
  return even * (0.75 + Math.random() / 2);
}
