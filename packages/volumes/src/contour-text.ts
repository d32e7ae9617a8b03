import { partsOfPixel } from './contours.js';
import { decimalString } from './dicom-write.js';
import type { SourceImage, SourceSeries } from './segments.js';

/** Numbers are rounded to this fraction of a pixel, far less than the distance of a contour from any centre. */
const precision = 1e-5;

/** How much a coordinate in mm changes along x and y of a point, which are in parts of a pixel. */
interface Coordinate {
  readonly byX: number;
  readonly byY: number;
}

/** Writes points of contours as decimal strings in mm, in LPS+. */
export class ContourText {
  readonly #scale: number;
  readonly #coordinates: readonly Coordinate[];

  constructor({ orientation, pixelSpacing, size }: SourceSeries) {
    const [betweenRows = 1, betweenColumns = 1] = pixelSpacing;
    this.#scale =
      10 ** Math.max(3, Math.ceil(-Math.log10(Math.min(betweenRows, betweenColumns) * precision)));
    const farthest = partsOfPixel * Math.max(size[0], size[1]);
    // Less than the last digit at the far end of the image is a rounding error of the orientation.
    const step = (value: number) => (Math.abs(value) * farthest * this.#scale < 0.5 ? 0 : value);
    this.#coordinates = [0, 1, 2].map((axis) => ({
      byX: step(((orientation[axis] ?? 0) * betweenColumns) / partsOfPixel),
      byY: step(((orientation[3 + axis] ?? 0) * betweenRows) / partsOfPixel),
    }));
  }

  /** The points of a contour on an image: x, y and z in turn. */
  of({ position }: Pick<SourceImage, 'position'>, points: Int32Array): string {
    const texts: string[] = [];
    for (let at = 0; at < points.length; at += 2)
      for (const [axis, { byX, byY }] of this.#coordinates.entries()) {
        const start = position[axis] ?? 0;
        const value = start + byX * (points[at] as number) + byY * (points[at + 1] as number);
        // The coordinate across an axial plane is exactly that of the image, because some programs compare these texts.
        const isConstant = byX === 0 && byY === 0;
        texts.push(decimalString(isConstant ? start : Math.round(value * this.#scale) / this.#scale));
      }
    return texts.join('\\');
  }
}
