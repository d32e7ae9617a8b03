/**
 * What a job prints. Lines go to stdout. A progress bar is redrawn in place with `\r`, so a reader that
 * treats `\r` as a line end (as a job's log stream does) sees every step and a terminal sees one line.
 */
export function createLog({ quiet = false, stream = process.stdout } = {}) {
  const line = (text) => stream.write(`${text}\n`);

  const progress = (label, total) => {
    let shown = -1;
    return (done) => {
      const percent = total === 0 ? 100 : 5 * Math.floor((20 * done) / total);
      // One write for each step of the bar: it must not cost more than the work it shows, nor fill the log.
      if (quiet || percent === shown) return;
      shown = percent;
      const bar = '#'.repeat(Math.floor(percent / 5)).padEnd(20, '.');
      stream.write(`\r${label} [${bar}] ${String(percent).padStart(3)}%${done >= total ? '\n' : ''}`);
    };
  };

  return { line, progress };
}

/** Seconds since `start` (from `performance.now()`), for a person to read. */
export function secondsSince(start) {
  return `${((performance.now() - start) / 1000).toFixed(1)} s`;
}
