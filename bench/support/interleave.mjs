export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The value that `share` of all values do not exceed. */
export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
}

/** The median of every figure that the samples have in common. */
function medians(samples) {
  const names = Object.keys(samples[0]).filter((name) => typeof samples[0][name] === 'number');
  return Object.fromEntries(names.map((name) => [name, median(samples.map((sample) => sample[name]))]));
}

/**
 * Measures several things by turns, so that what else the machine does falls on all of them; every other round
 * goes backwards, so that none always comes first.
 * @param sides functions that measure once and resolve with figures
 * @returns for each side, the medians of its figures
 */
export async function interleave(rounds, sides) {
  const samples = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    const order = Object.entries(sides);
    if (round % 2 === 1) order.reverse();
    for (const [name, measure] of order) samples[name].push(await measure());
  }
  return Object.fromEntries(Object.entries(samples).map(([name, each]) => [name, medians(each)]));
}
