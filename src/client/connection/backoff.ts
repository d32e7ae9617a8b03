import { setTimeout as delay } from 'node:timers/promises';

/** Waits; rejects with the signal's own reason where it is aborted. */
export async function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  try {
    await delay(milliseconds, undefined, signal ? { signal } : {});
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/**
 * Milliseconds before the attempt of that number, from 0: doubling up to `ceiling`, then varied by a quarter, so
 * that the clients of a server that comes back do not all arrive at once.
 */
export function backoff(attempt: number, first = 250, ceiling = 10_000): number {
  const even = Math.min(first * 2 ** Math.min(attempt, 20), ceiling);
  return even * (0.75 + Math.random() / 2);
}
