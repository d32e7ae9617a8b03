/**
 * The borders of labels: labelled pixels that have a neighbour above, below, left or right with a different label. Labels are
 * open at the edge of the picture.
 * @param labels index of the label of each pixel, width x height; 0 for none
 * @returns the same with 0 inside labels
 */
export function contoursOf(labels: Uint8Array, width: number, height: number): Uint8Array {
  const contours = new Uint8Array(labels.length);
  for (let y = 0, at = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, at += 1) {
      const label = labels[at] as number;
      if (label === 0) continue;
      const isInside =
        (x === 0 || labels[at - 1] === label) &&
        (x === width - 1 || labels[at + 1] === label) &&
        (y === 0 || labels[at - width] === label) &&
        (y === height - 1 || labels[at + width] === label);
      if (!isInside) contours[at] = label;
    }
  }
  return contours;
}

/** Enlarges a picture of labels: each pixel takes the label that lies at its middle. */
export function enlargedLabels(
  labels: Uint8Array,
  [width, height]: readonly [number, number],
  [newWidth, newHeight]: readonly [number, number],
): Uint8Array {
  const result = new Uint8Array(newWidth * newHeight);
  const columns = Array.from({ length: newWidth }, (_, x) => Math.floor(((x + 0.5) * width) / newWidth));
  for (let y = 0, at = 0; y < newHeight; y += 1) {
    const row = Math.floor(((y + 0.5) * height) / newHeight) * width;
    for (let x = 0; x < newWidth; x += 1, at += 1)
      result[at] = labels[row + (columns[x] as number)] as number;
  }
  return result;
}
