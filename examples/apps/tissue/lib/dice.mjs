/** Voxels of each label in `one`, in `other` and in both, within `mask` where there is one. */
export function countOverlap(one, other, classes, mask) {
  const counts = Array.from({ length: classes }, () => ({ one: 0, other: 0, both: 0 }));
  for (let i = 0; i < one.length; i += 1) {
    if (mask !== undefined && mask[i] === 0) continue;
    counts[one[i]].one += 1;
    counts[other[i]].other += 1;
    if (one[i] === other[i]) counts[one[i]].both += 1;
  }
  return counts;
}

/** Twice the overlap divided by the sum of the sizes; null if neither has the label. */
export function dice({ one, other, both }) {
  return one + other === 0 ? null : (2 * both) / (one + other);
}

/** The mean over the labels from 1 on that either volume has. */
export function meanDice(one, other, classes) {
  const values = countOverlap(one, other, classes)
    .slice(1)
    .map(dice)
    .filter((value) => value !== null);
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}
