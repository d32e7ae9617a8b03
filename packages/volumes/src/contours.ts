import type { Voxels } from './volume.js';

/** Coordinates are in hundredths of a pixel, so that they are integers. */
export const partsOfPixel = 100;

/**
 * Distance from the centre of a pixel at which the contour crosses the line to the next centre. It is just under half a pixel, so
 * that programs that round points to pixels and include the outline reproduce the mask exactly.
 */
const crossing = 49;

/** A closed line around the voxels of one value in a slice: x and y of each point, in fractions of a pixel (`partsOfPixel`). */
export interface Contour {
  readonly value: number;
  readonly points: Int32Array;
}

/** Directions to the next pixel, clockwise in the image: left, up, right, down. */
const alongX = [-1, 0, 1, 0] as const;
const alongY = [0, -1, 0, 1] as const;

/** A closed line as it is traced: around an island, or along the edge of a hole. */
interface Loop {
  readonly value: number;
  /** The node at the left side of a pixel in its first row. */
  readonly first: number;
  readonly isHole: boolean;
}

/**
 * Finds the contours of label maps slice by slice (marching squares). The line runs halfway between pixel centres, so the centres
 * inside it are those of the mask. Pixels that touch only at a corner belong to different contours. A hole is connected to the
 * contour around it by a channel of zero width between rows of pixels (the keyhole of PS3.3, C.8.8.6.3).
 */
export class ContourFinder {
  readonly #width: number;
  readonly #height: number;
  #values: Voxels = new Uint8Array(0);
  /** The sides of pixels at which the mask ends (4 x pixel + way), one node each. Further nodes are points of channels. */
  #sides: number[] = [];
  #x: number[] = [];
  #y: number[] = [];
  #next: number[] = [];
  #isKept: boolean[] = [];
  /**
   * The node of each side. An entry is valid only if its node refers back to this side, so the array need not be cleared for each
   * slice.
   */
  readonly #nodeOfSide: Int32Array;

  constructor(width: number, height: number) {
    this.#width = width;
    this.#height = height;
    this.#nodeOfSide = new Int32Array(4 * width * height);
  }

  /** The contours of all values except 0, in the order of their first rows. */
  find(values: Voxels): Contour[] {
    this.#values = values;
    for (const nodes of [this.#sides, this.#x, this.#y, this.#next, this.#isKept]) nodes.length = 0;
    const loops: Loop[] = [];
    for (let y = 0, pixel = 0; y < this.#height; y += 1)
      for (let x = 0, before = 0; x < this.#width; x += 1, pixel += 1) {
        const value = values[pixel] as number;
        if (value !== before && value !== 0 && !this.#isTraced(4 * pixel))
          loops.push({ value, first: this.#trace(x, y, value), isHole: this.#isOf(value, x, y - 1) });
        before = value;
      }
    // From top to bottom: a hole is connected to a line that was traced before it.
    for (const loop of loops) if (loop.isHole) this.#connectHole(loop);
    return loops.flatMap(({ value, first, isHole }) =>
      isHole ? [] : [{ value, points: this.#pointsFrom(first) }],
    );
  }

  #isOf(value: number, x: number, y: number): boolean {
    return (
      x >= 0 && y >= 0 && x < this.#width && y < this.#height && this.#values[y * this.#width + x] === value
    );
  }

  #isTraced(side: number): boolean {
    const node = this.#nodeOfSide[side] as number;
    return this.#sides[node] === side;
  }

  #add(x: number, y: number, side: number): number {
    this.#x.push(x);
    this.#y.push(y);
    this.#sides.push(side);
    this.#next.push(0);
    return this.#isKept.push(false) - 1;
  }

  /** Traces the line that starts at the left side of a pixel, with the mask on its right, until it closes. */
  #trace(startX: number, startY: number, value: number): number {
    let [x, y, way] = [startX, startY, 0];
    const first = this.#x.length;
    do {
      const side = 4 * (y * this.#width + x) + way;
      const node = this.#add(
        partsOfPixel * x + crossing * (alongX[way] as number),
        partsOfPixel * y + crossing * (alongY[way] as number),
        side,
      );
      this.#nodeOfSide[side] = node;
      this.#next[node] = node + 1;
      const turned = (way + 1) & 3;
      const [nextX, nextY] = [x + (alongX[turned] as number), y + (alongY[turned] as number)];
      const [cornerX, cornerY] = [nextX + (alongX[way] as number), nextY + (alongY[way] as number)];
      if (!this.#isOf(value, nextX, nextY)) way = turned;
      else if (this.#isOf(value, cornerX, cornerY)) [x, y, way] = [cornerX, cornerY, (way + 3) & 3];
      else [x, y] = [nextX, nextY];
    } while (x !== startX || y !== startY || way !== 0);
    this.#next[this.#next.length - 1] = first;
    return first;
  }

  /**
   * Connects a hole to the line to its left, by a channel along its upper edge. There is mask above and beside the left end of that
   * edge, or the hole would continue there. The first node of a hole is at the right end of its first row.
   */
  #connectHole({ value, first }: Loop): void {
    const pixel = (this.#sides[first] as number) >> 2;
    const y = Math.floor(pixel / this.#width);
    let x = (pixel % this.#width) - 1;
    while (!this.#isOf(value, x - 1, y)) x -= 1;
    const start = this.#nodeAt(x, y - 1, 3);
    do x -= 1;
    while (this.#isOf(value, x, y - 1) && this.#isOf(value, x, y));
    if (this.#isOf(value, x, y - 1)) this.#connect(this.#nodeAt(x, y - 1, 3), start);
    else if (this.#isOf(value, x, y)) this.#connect(this.#nodeAt(x, y, 1), start);
    else {
      // The line runs straight up here, without a point between the rows.
      const before = this.#nodeAt(x + 1, y, 0);
      const between = this.#add(this.#x[before] as number, partsOfPixel * y - partsOfPixel / 2, -1);
      this.#next[between] = this.#next[before] as number;
      this.#next[before] = between;
      this.#connect(between, start);
    }
  }

  #nodeAt(x: number, y: number, way: number): number {
    return this.#nodeOfSide[4 * (y * this.#width + x) + way] as number;
  }

  /** Inserts a path from a node to a node of the hole, around the hole, and back. */
  #connect(node: number, hole: number): void {
    const [there, back] = [this.#copyOf(hole), this.#copyOf(node)];
    this.#next[back] = this.#next[node] as number;
    this.#next[there] = this.#next[hole] as number;
    this.#next[node] = there;
    this.#next[hole] = back;
    for (const each of [node, hole, there, back]) this.#isKept[each] = true;
  }

  #copyOf(node: number): number {
    return this.#add(this.#x[node] as number, this.#y[node] as number, -1);
  }

  /** The points of a line, without those on straight parts. */
  #pointsFrom(first: number): Int32Array {
    const points: number[] = [];
    let [before, node] = [first, this.#next[first] as number];
    do {
      const after = this.#next[node] as number;
      const [x, y] = [this.#x[node] as number, this.#y[node] as number];
      const [fromX, fromY] = [x - (this.#x[before] as number), y - (this.#y[before] as number)];
      const [toX, toY] = [(this.#x[after] as number) - x, (this.#y[after] as number) - y];
      if (this.#isKept[node] || fromX * toY !== fromY * toX) points.push(x, y);
      [before, node] = [node, after];
    } while (before !== first);
    return Int32Array.from(points);
  }
}
