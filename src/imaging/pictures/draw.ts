import { contoursOf, enlargedLabels } from './contours.js';
import { glyphOf, glyphSize } from './font.js';
import type { CaseView, Colour, Picture, PlaneView, SliceView } from './picture.js';
import { brightnessOf } from './planar.js';
import type { Axis } from './planes.js';

/** A black picture. */
export const blank = (width: number, height: number): Picture => ({
  width,
  height,
  pixels: new Uint8Array(width * height * 3),
});

/** Fills a rectangle, clipped to the picture. */
export function fill(
  { width, height, pixels }: Picture,
  [left, top, across, down]: readonly [left: number, top: number, across: number, down: number],
  colour: Colour,
): void {
  for (let y = Math.max(0, top); y < Math.min(height, top + down); y += 1)
    for (let x = Math.max(0, left); x < Math.min(width, left + across); x += 1)
      pixels.set(colour, (y * width + x) * 3);
}

/** Copies a picture into a larger one. */
export function place(onto: Picture, picture: Picture, left: number, top: number): void {
  for (let y = 0; y < picture.height; y += 1) {
    const row = picture.pixels.subarray(y * picture.width * 3, (y + 1) * picture.width * 3);
    onto.pixels.set(row, ((top + y) * onto.width + left) * 3);
  }
}

/** Width of a text, in pixels. */
export const textWidth = (text: string): number => [...text].length * glyphSize.width;

/** Writes a text with its upper left corner at a place. */
export function write(picture: Picture, text: string, left: number, top: number, colour: Colour): void {
  for (const [at, character] of [...text].entries()) {
    glyphOf(character).forEach((row, y) => {
      for (let x = 0; x < glyphSize.width; x += 1)
        if (row & (0x80 >> x)) fill(picture, [left + at * glyphSize.width + x, top + y, 1, 1], colour);
    });
  }
}

const white: Colour = [255, 255, 255];
const black: Colour = [0, 0, 0];

/** Writes a text with a dark outline, so that it is legible on any background. */
function writeOnPicture(picture: Picture, text: string, left: number, top: number): void {
  for (const [x, y] of [
    [-1, 0],
    [1, 0],
    [0, -1],
    [0, 1],
  ] as const)
    write(picture, text, left + x, top + y, black);
  write(picture, text, left, top, white);
}

/** Space between a mark and the edge of the picture, in pixels. */
const rim = 2;

export interface DrawOptions {
  /** Size of the picture, in pixels. */
  readonly width: number;
  readonly height: number;
  /** Whether letters mark the sides: false if they are written beside the picture. */
  readonly hasMarks?: boolean;
}

/** Draws a slice at a given size, with coloured contours of labels and letters for the sides of the patient. */
export function drawSlice(
  view: CaseView,
  plane: PlaneView,
  slice: SliceView,
  { width, height, hasMarks = true }: DrawOptions,
): Picture {
  const axis = (of: 0 | 1, count: number, pixels: number): Axis => ({
    ...{ of, count, spacing: pixels / count, isReversed: false },
  });
  const raster = { across: axis(0, slice.width, width), down: axis(1, slice.height, height), pixel: 1 };
  const isScaled = width !== slice.width || height !== slice.height;
  const bright = isScaled ? brightnessOf(slice.pixels, raster, slice.isColour ? 3 : 1) : slice.pixels;
  const picture = blank(width, height);
  for (let at = 0; at < picture.pixels.length; at += 1)
    picture.pixels[at] = bright[slice.isColour ? at : Math.floor(at / 3)] as number;
  if (slice.labels) {
    const labels = enlargedLabels(slice.labels, [slice.width, slice.height], [width, height]);
    contoursOf(labels, width, height).forEach((label, at) => {
      if (label > 0) picture.pixels.set(view.labels[label - 1]?.colour ?? white, at * 3);
    });
  }
  if (hasMarks) {
    const { left, right, top, bottom } = plane.marks;
    const [middleX, middleY] = [(width - glyphSize.width) >> 1, (height - glyphSize.height) >> 1];
    writeOnPicture(picture, left, rim, middleY);
    writeOnPicture(picture, right, width - glyphSize.width - rim, middleY);
    writeOnPicture(picture, top, middleX, 0);
    writeOnPicture(picture, bottom, middleX, height - glyphSize.height);
  }
  return picture;
}
