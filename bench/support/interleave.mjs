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

function shuffled(values) {
  const left = [...values];
  return values.map(() => left.splice(Math.floor(Math.random() * left.length), 1)[0]);
}

/**
 * Measures several things by turns, so that what else the machine does falls on all of them, in another random order each time,
 * so that none always pays for what the one before it has left. The first round is not counted: memory that is touched for the
 * first time is slow on virtual machines, and code that runs for the first time is slow everywhere.
 * @param sides functions that measure once and resolve with figures
 * @returns for each side, what it resolved with in each round
 */
export async function samplesOf(rounds, sides) {
  const samples = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, measure] of shuffled(Object.entries(sides))) {
      const sample = await measure();
      if (round > 0) samples[name].push(sample);
    }
  }
  return samples;
}

/** `samplesOf`: for each side, the medians of its figures. */
export async function interleave(rounds, sides) {
  const samples = await samplesOf(rounds, sides);
  return Object.fromEntries(Object.entries(samples).map(([name, each]) => [name, medians(each)]));
}
