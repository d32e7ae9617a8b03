/** The pixels whose centres lie within polygons, by the even-odd rule: 1 for those, x fastest. */
export function filled(
  polygons: readonly (readonly (readonly [x: number, y: number])[])[],
  width: number,
  height: number,
): Uint8Array {
  const mask = new Uint8Array(width * height);
  for (let y = 0; y < height; y += 1) {
    const crossings: number[] = [];
    for (const polygon of polygons)
      for (const [at, [fromX, fromY]] of polygon.entries()) {
        const [toX, toY] = polygon[(at + 1) % polygon.length] as readonly [number, number];
        if (fromY <= y === toY <= y) continue;
        crossings.push(fromX + ((y - fromY) / (toY - fromY)) * (toX - fromX));
      }
    for (let x = 0; x < width; x += 1) mask[y * width + x] = crossings.filter((each) => each < x).length % 2;
  }
  return mask;
}
