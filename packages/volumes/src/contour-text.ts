import { partsOfPixel } from './contours.js';
import { decimalString } from './dicom-write.js';
import type { SourceImage, SourceSeries } from './segments.js';

/** Numbers are rounded to this fraction of a pixel, far less than the distance of a contour from any centre. */
const precision = 1e-5;

/** How a coordinate in mm depends on x and y of a point, in parts of a pixel. */
interface Coordinate {
  readonly byX: number;
  readonly byY: number;
  /** Cached texts; null where both x and y matter. */
  readonly known: Map<number, string> | null;
}

/** Writes points of contours as decimal strings in mm, in LPS+. */
export class ContourText {
  readonly #scale: number;
  readonly #coordinates: readonly Coordinate[];
  /** The position of the cached texts. */
  #position: readonly number[] = [];

  constructor({ orientation, pixelSpacing, size }: SourceSeries) {
    const [betweenRows = 1, betweenColumns = 1] = pixelSpacing;
    this.#scale =
      10 ** Math.max(3, Math.ceil(-Math.log10(Math.min(betweenRows, betweenColumns) * precision)));
    const farthest = partsOfPixel * Math.max(size[0], size[1]);
    // Less than the last digit at the far end of the image is a rounding error of the orientation.
    const step = (value: number) => (Math.abs(value) * farthest * this.#scale < 0.5 ? 0 : value);
    this.#coordinates = [0, 1, 2].map((axis) => {
      const byX = step(((orientation[axis] ?? 0) * betweenColumns) / partsOfPixel);
      const byY = step(((orientation[3 + axis] ?? 0) * betweenRows) / partsOfPixel);
      return { byX, byY, known: byX === 0 || byY === 0 ? new Map() : null };
    });
  }

  /** The points of a contour on an image: x, y and z in turn. */
  of({ position }: Pick<SourceImage, 'position'>, points: Int32Array): string {
    for (const [axis, { known }] of this.#coordinates.entries())
      if (position[axis] !== this.#position[axis]) known?.clear();
    this.#position = position;
    const texts: string[] = [];
    for (let at = 0; at < points.length; at += 2)
      for (let axis = 0; axis < 3; axis += 1)
        texts.push(
          this.#textOf(
            this.#coordinates[axis] as Coordinate,
            position[axis] ?? 0,
            points[at] as number,
            points[at + 1] as number,
          ),
        );
    return texts.join('\\');
  }

  #textOf({ byX, byY, known }: Coordinate, start: number, x: number, y: number): string {
    const value = start + byX * x + byY * y;
    if (!known) return this.#rounded(value);
    const key = byX === 0 ? y : x;
    let text = known.get(key);
    if (text === undefined) {
      // The coordinate across an axial plane is exactly that of the image, because some programs compare these texts.
      text = byX === 0 && byY === 0 ? decimalString(start) : this.#rounded(value);
      known.set(key, text);
    }
    return text;
  }

  #rounded(value: number): string {
    return decimalString(Math.round(value * this.#scale) / this.#scale);
  }
}
