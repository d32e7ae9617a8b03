import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds after which what was waited for is taken never to come. */
const patience = 30_000;

/** Looks again and again until the condition holds, and returns what it gave. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  milliseconds = patience,
): Promise<NonNullable<T>> {
  const deadline = Date.now() + milliseconds;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`In ${milliseconds} ms it did not happen: ${what}`);
    await delay(15);
  }
}
