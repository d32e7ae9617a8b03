import { onTestFinished, vi } from 'vitest';

/** Until the test ends, the monotonic clock of the product shows what `now` returns, in milliseconds. */
export function showMonotonicTime(now: () => number): void {
  const clock = vi.spyOn(performance, 'now').mockImplementation(now);
  onTestFinished(() => clock.mockRestore());
}
