/** A small seeded generator (mulberry32): the same seed gives the same numbers on every machine. */
export function createRandom(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const between = (low, high) => low + (high - low) * uniform();
  const below = (count) => Math.floor(uniform() * count);
  /** Box-Muller; `1 - uniform()` keeps the logarithm away from zero. */
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, between, below, normal };
}

/** Puts the array in a random order, in place. */
export function shuffle(array, random) {
  for (let last = array.length - 1; last > 0; last -= 1) {
    const other = random.below(last + 1);
    [array[last], array[other]] = [array[other], array[last]];
  }
  return array;
}
