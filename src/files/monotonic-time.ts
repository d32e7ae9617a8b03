/**
 * Milliseconds by a clock that nobody sets, since some moment in the past. `performance.now()` would say as much, but where
 * it is first called, Node loads all that measures performance: 3 ms of a start.
 */
export const monotonicTime = (): number => Number(process.hrtime.bigint()) / 1e6;
