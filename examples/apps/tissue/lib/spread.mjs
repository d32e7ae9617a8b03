/** Standard deviation over the components of each voxel; the voxels of one component come after those of another. */
export function deviationMap(stack, components) {
  const map = new Float32Array(stack.length / components);
  for (let voxel = 0; voxel < map.length; voxel += 1) {
    let mean = 0;
    for (let at = voxel; at < stack.length; at += map.length) mean += stack[at] / components;
    let variance = 0;
    for (let at = voxel; at < stack.length; at += map.length)
      variance += (stack[at] - mean) ** 2 / components;
    // Rounding must not make identical members look uncertain.
    map[voxel] = variance < 1e-14 ? 0 : Math.sqrt(variance);
  }
  return map;
}

/** Entropy of the votes of each voxel's components, 0 (all agree) to 1 (no two agree). */
export function entropyMap(stack, components) {
  const map = new Float32Array(stack.length / components);
  const votes = new Map();
  for (let voxel = 0; voxel < map.length; voxel += 1) {
    votes.clear();
    for (let at = voxel; at < stack.length; at += map.length)
      votes.set(stack[at], (votes.get(stack[at]) ?? 0) + 1);
    if (votes.size === 1) continue;
    let entropy = 0;
    for (const count of votes.values()) entropy -= (count / components) * Math.log(count / components);
    map[voxel] = entropy / Math.log(components);
  }
  return map;
}
