/** Standard deviation over the components of each voxel; the components of a voxel lie side by side. */
export function deviationMap(stack, components) {
  const map = new Float32Array(stack.length / components);
  for (let voxel = 0, at = 0; voxel < map.length; voxel += 1, at += components) {
    let mean = 0;
    for (let m = 0; m < components; m += 1) mean += Number(stack[at + m]) / components;
    let variance = 0;
    for (let m = 0; m < components; m += 1) variance += (Number(stack[at + m]) - mean) ** 2 / components;
    // Rounding must not make identical members look uncertain.
    map[voxel] = variance < 1e-14 ? 0 : Math.sqrt(variance);
  }
  return map;
}

/** Entropy of the votes of each voxel's components, 0 (all agree) to 1 (no two agree). */
export function entropyMap(stack, components) {
  const map = new Float32Array(stack.length / components);
  const votes = new Map();
  for (let voxel = 0, at = 0; voxel < map.length; voxel += 1, at += components) {
    votes.clear();
    for (let m = 0; m < components; m += 1) votes.set(stack[at + m], (votes.get(stack[at + m]) ?? 0) + 1);
    if (votes.size === 1) continue;
    let entropy = 0;
    for (const count of votes.values()) entropy -= (count / components) * Math.log(count / components);
    map[voxel] = entropy / Math.log(components);
  }
  return map;
}
