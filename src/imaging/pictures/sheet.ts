import { encode } from 'fast-png';
import { millilitresText } from '../../client/case/index.js';
import { UsageError } from '../../client/errors.js';
import { blank, drawSlice, fill, place, textWidth, write } from './draw.js';
import { glyphSize } from './font.js';
import type { CaseView, Colour, DrawnCase, Picture, PlaneView } from './picture.js';

/** Space around and between slices, in pixels. */
const gap = 6;
const line = glyphSize.height + 2;

/** Minimum length of the longest side of a slice, in pixels. Slices of small volumes are enlarged to it. */
const minSide = 192;

/** Minimum width of a sheet, in pixels. Narrower ones would cut off names and notes. */
const minWidth = 640;

/** Maximum number of pixels of a sheet: each takes 4 bytes. */
const maxPixels = 100_000_000;

const bright: Colour = [235, 235, 235];
const dim: Colour = [160, 160, 160];

/** Letters of the two directions along the normal of each plane: negative, then positive. */
const sides = { sagittal: 'LR', coronal: 'PA', axial: 'IS' } as const;

/** The position of a slice, as radiologists write it: `S 12 mm`. */
export function placeText({ name }: Pick<PlaneView, 'name'>, position: number): string {
  const rounded = Math.round(position);
  return `${rounded === 0 ? '' : `${sides[name][rounded > 0 ? 1 : 0]} `}${Math.abs(rounded)} mm`;
}

/** Describes the values shown as black and white. */
export function windowText({ window }: Pick<CaseView, 'window'>): string {
  if (!window) return '';
  const number = (value: number) => String(Number(value.toPrecision(4)));
  const [black, white] = window.isInverted ? [window.high, window.low] : [window.low, window.high];
  return `black ${number(black)}, white ${number(white)}${window.unit ? ` ${window.unit}` : ''}`;
}

/** Wraps a text to a width. */
function linesOf(text: string, width: number): string[] {
  const max = Math.max(1, Math.floor(width / glyphSize.width));
  const lines: string[] = [];
  for (let rest = [...text]; rest.length > 0; ) {
    const space = rest.length > max ? rest.lastIndexOf(' ', max) : -1;
    const end = rest.length <= max ? rest.length : space > 0 ? space : max;
    lines.push(rest.slice(0, end).join(''));
    rest = rest.slice(rest[end] === ' ' ? end + 1 : end);
  }
  return lines;
}

/** Draws the name and notes of a case that has no picture. */
function drawNotes({ name, notes }: DrawnCase): Picture {
  const inner = minWidth - 2 * gap;
  const [title, about] = [linesOf(name, inner), notes.flatMap((note) => linesOf(note, inner))];
  const picture = blank(minWidth, 2 * gap + (title.length + about.length) * line);
  for (const [at, text] of [...title, ...about].entries())
    write(picture, text, gap, gap + at * line, at < title.length ? bright : dim);
  return picture;
}

/** Draws one view of a case: its name, a row of slices for each plane, notes, and a legend. */
function drawView(view: CaseView, notes: readonly string[]): Picture {
  const slices = view.planes.flatMap((plane) => plane.slices);
  const longest = Math.max(1, ...slices.flatMap(({ width, height }) => [width, height]));
  const scale = Math.max(1, minSide / longest);
  const side = (pixels: number) => Math.max(1, Math.round(pixels * scale));
  const rows = view.planes
    .filter((plane) => plane.slices.length > 0)
    .map((plane) => ({
      plane,
      width: Math.max(...plane.slices.map((slice) => side(slice.width))),
      height: Math.max(...plane.slices.map((slice) => side(slice.height))),
    }));
  const width = Math.max(minWidth, ...rows.map((row) => gap + row.plane.slices.length * (row.width + gap)));
  const inner = width - 2 * gap;
  const name = linesOf(view.name, inner);
  const about = [windowText(view), ...notes, ...view.notes]
    .filter(Boolean)
    .flatMap((note) => linesOf(note, inner));
  const entries = view.labels.map(({ name, colour, millilitres }) => ({
    text: `${name} ${millilitresText(millilitres)}`,
    colour,
  }));
  const entryWidth = Math.max(0, ...entries.map(({ text }) => textWidth(text))) + 3 * gap + glyphSize.width;
  const columns = Math.max(1, Math.floor(inner / entryWidth));
  const height =
    gap +
    (name.length + about.length) * line +
    rows.reduce((sum, row) => sum + row.height + line + gap, 0) +
    Math.ceil(entries.length / columns) * line +
    gap;
  const picture = blank(width, height);
  let y = gap;
  const writeLines = (lines: readonly string[], colour: Colour) => {
    for (const each of lines) {
      write(picture, each, gap, y, colour);
      y += line;
    }
  };
  writeLines(name, bright);
  writeLines(about, dim);
  for (const row of rows) {
    row.plane.slices.forEach((slice, at) => {
      const x = gap + at * (row.width + gap);
      const size = { width: side(slice.width), height: side(slice.height) };
      place(picture, drawSlice(view, row.plane, slice, size), x, y);
      write(picture, placeText(row.plane, slice.position), x, y + row.height, dim);
    });
    y += row.height + line + gap;
  }
  entries.forEach(({ text, colour }, at) => {
    const x = gap + (at % columns) * entryWidth;
    const top = y + Math.floor(at / columns) * line;
    fill(picture, [x, top + 3, 10, 10], colour);
    write(picture, text, x + 10 + gap, top, bright);
  });
  return picture;
}

/**
 * The layout of pictures of these sizes in a grid that is about as wide as it is high: its columns, its width, and the heights of
 * its rows.
 */
function gridOf(pictures: readonly Picture[]): { columns: number; width: number; rows: number[] } {
  const width = Math.max(1, ...pictures.map((picture) => picture.width));
  const rowsFor = (columns: number) =>
    Array.from({ length: Math.ceil(pictures.length / columns) }, (_, row) =>
      Math.max(...pictures.slice(row * columns, (row + 1) * columns).map(({ height }) => height)),
    );
  const shapes = Array.from({ length: pictures.length }, (_, at) => {
    const rows = rowsFor(at + 1);
    const height = rows.reduce((sum, each) => sum + each, 0);
    return { columns: at + 1, width, rows, lack: Math.abs(Math.log(((at + 1) * width) / height)) };
  });
  return shapes.reduce((best, each) => (each.lack < best.lack ? each : best));
}

/**
 * A contact sheet of cases: a grid, row by row, about as wide as it is high.
 * @returns a PNG; the same bytes for the same cases
 * @throws UsageError if the sheet would be too large for a picture
 */
export function sheetOf(cases: readonly DrawnCase[]): Uint8Array {
  const pictures: Picture[] = [];
  let area = 0;
  for (const each of cases) {
    const drawn = each.layers.map(({ view }, at) => drawView(view, at === 0 ? each.notes : []));
    for (const picture of drawn.length > 0 ? drawn : [drawNotes(each)]) {
      pictures.push(picture);
      area += picture.width * picture.height;
    }
    if (area > maxPixels)
      throw new UsageError(
        `${cases.length} cases do not fit on one sheet: show fewer of them, fewer slices, or a page`,
      );
  }
  const { columns, width, rows } = gridOf(pictures);
  const height = rows.reduce((sum, each) => sum + each, 0);
  const sheet = blank(columns * width, height);
  let y = 0;
  for (const [row, rowHeight] of rows.entries()) {
    for (const [at, picture] of pictures.slice(row * columns, (row + 1) * columns).entries())
      place(sheet, picture, at * width, y);
    y += rowHeight;
  }
  return encode({ width: sheet.width, height, data: sheet.pixels, channels: 3, depth: 8 });
}
