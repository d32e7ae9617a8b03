import { onTestFinished, vi } from 'vitest';

/** Until the test ends, the monotonic clock of the product shows what `now` returns, in milliseconds. */
export function showMonotonicTime(now: () => number): void {
  const clock = vi.spyOn(process.hrtime, 'bigint').mockImplementation(() => BigInt(Math.round(now() * 1e6)));
  onTestFinished(() => clock.mockRestore());
}
