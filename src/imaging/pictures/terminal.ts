import type { Canvas } from '../../client/case/index.js';
import { contoursOf, enlargedLabels } from './contours.js';
import { drawSlice } from './draw.js';
import type { CaseView, Colour, DrawnLabel, PlaneView, SliceView } from './picture.js';
import { placeText } from './sheet.js';

const esc = '\u001b';

/** Minimum number of columns for each plane in a row. */
const minColumns = 36;

/** Screen rows reserved for titles, marks and following output. */
const otherRows = 8;
/** Minimum number of rows of a picture, even on a screen with fewer. */
const minRows = 8;

/** Columns beside a picture: for the letters of its sides with a space each, and for the gap to the next picture. */
const [marked, gap] = [4, 2];
const beside = marked + gap;

const characters = ' .:-=+*#%@';
const keys = '123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** The character for a label without colours. The last one stands for all further labels. */
const keyOf = (index: number): string => keys[index - 1] ?? '&';

/** The swatch of a label in a legend: a block in its colour, or the character that represents it. */
export function swatchOf({ index, colour }: DrawnLabel, { look }: Pick<Canvas, 'look'>): string {
  return look === 'characters' ? keyOf(index) : `${ink(38, colour, look)}■${esc}[0m`;
}

/** The sequence for the colour of the text (38) or of its background (48). */
const ink = (of: 38 | 48, colour: Colour, look: Canvas['look']): string =>
  look === '256 colours' ? `${esc}[${of};5;${nearestOf256(colour)}m` : `${esc}[${of};2;${colour.join(';')}m`;

/** The levels of the cube among the 256 colours. */
const levels: readonly number[] = [0, 95, 135, 175, 215, 255];

/** Index of the nearest of xterm's 256 colours: one of a cube of 6 x 6 x 6 colours, or one of 24 greys. */
function nearestOf256(colour: Colour): number {
  const steps = colour.map((part) =>
    levels.reduce(
      (best, level, at) => (Math.abs(level - part) < Math.abs((levels[best] ?? 0) - part) ? at : best),
      0,
    ),
  );
  const mean = colour.reduce((sum, part) => sum + part, 0) / 3;
  const grey = Math.max(0, Math.min(23, Math.round((mean - 8) / 10)));
  const distance = (parts: readonly number[]) =>
    parts.reduce((sum, part, at) => sum + (part - (colour[at] ?? 0)) ** 2, 0);
  const ofCube = steps.map((step) => levels[step] ?? 0);
  const [red = 0, green = 0, blue = 0] = steps;
  return distance(ofCube) <= distance(Array(3).fill(8 + grey * 10))
    ? 16 + 36 * red + 6 * green + blue
    : 232 + grey;
}

/** A plane with the slice that is shown of it, and its size in half characters. */
interface Shown {
  readonly plane: PlaneView;
  readonly slice: SliceView;
  readonly width: number;
  readonly height: number;
}

/**
 * Draws the slice of each plane that has most of the labels, as many side by side as the terminal is wide enough for, all
 * at the same scale.
 * @returns lines, each with its end; they contain control sequences
 */
export function drawForTerminal(view: CaseView, canvas: Canvas): string {
  const { look, columns, rows } = canvas;
  const planes = view.planes.flatMap((plane) => {
    const slice = plane.slices[plane.best];
    return slice ? [{ plane, slice }] : [];
  });
  const inRow = Math.max(1, Math.floor(columns / minColumns));
  const groups = planes.flatMap((_, at) => (at % inRow === 0 ? [planes.slice(at, at + inRow)] : []));
  const height = Math.max(minRows, rows - otherRows) * 2;
  const scale = Math.min(
    ...groups.flatMap((group) => [
      // The last column stays free, because some terminals would wrap the line.
      (columns - 1 - group.length * beside) / group.reduce((sum, { slice }) => sum + slice.width, 0),
      height / Math.max(...group.map(({ slice }) => slice.height)),
    ]),
  );
  const side = (pixels: number) => Math.max(1, Math.floor(pixels * scale));
  return groups
    .map((group) => {
      const shown = group.map((each) => ({
        ...each,
        width: side(each.slice.width),
        height: side(each.slice.height),
      }));
      return besideEachOther(shown.map((each) => blockLines(view, each, look)));
    })
    .join('');
}

const titleOf = ({ plane, slice }: Shown): string => `${plane.name} ${placeText(plane, slice.position)}`;

/** Lines of a block with their visible width: control sequences take no columns. */
interface Block {
  readonly width: number;
  readonly lines: readonly { readonly text: string; readonly width: number }[];
}

/** Puts blocks side by side. */
function besideEachOther(blocks: readonly Block[]): string {
  const count = Math.max(...blocks.map(({ lines }) => lines.length));
  let text = '';
  for (let at = 0; at < count; at += 1) {
    const row = blocks.map(({ width, lines }) => {
      const line = lines[at] ?? { text: '', width: 0 };
      return line.text + ' '.repeat(Math.max(0, width - line.width));
    });
    text += `${row.join('').trimEnd()}\n`;
  }
  return text;
}

/** A slice as characters, with the letters of its sides around it. */
function blockLines(view: CaseView, shown: Shown, look: Canvas['look']): Block {
  const { width, plane } = shown;
  const { left, right, top, bottom } = plane.marks;
  const picture = look === 'characters' ? inCharacters(view, shown) : inHalfBlocks(view, shown, look);
  const middle = Math.floor((picture.length - 1) / 2);
  const plain = (text: string) => ({ text, width: text.length });
  const centred = (mark: string) => plain(' '.repeat(2 + Math.floor((width - 1) / 2)) + mark);
  return {
    width: width + beside,
    lines: [
      plain(titleOf(shown).slice(0, width + beside - 1)),
      centred(top),
      ...picture.map((line, at) => ({
        text: at === middle ? `${left} ${line} ${right}` : `  ${line}`,
        width: width + (at === middle ? marked : 2),
      })),
      centred(bottom),
    ],
  };
}

/** Draws two pixels in each character: the upper one in the text colour, the lower one in the background colour. */
function inHalfBlocks(
  view: CaseView,
  { plane, slice, width, height }: Shown,
  look: Canvas['look'],
): string[] {
  const { pixels } = drawSlice(view, plane, slice, { width, height, hasMarks: false });
  const colourAt = (x: number, y: number): Colour => {
    const at = (y * width + x) * 3;
    return [pixels[at] ?? 0, pixels[at + 1] ?? 0, pixels[at + 2] ?? 0];
  };
  const lines: string[] = [];
  for (let y = 0; y < height; y += 2) {
    let [line, upper, lower] = ['', '', ''];
    for (let x = 0; x < width; x += 1) {
      const [text, ground] = [ink(38, colourAt(x, y), look), ink(48, colourAt(x, y + 1), look)];
      line += `${text === upper ? '' : text}${ground === lower ? '' : ground}▀`;
      [upper, lower] = [text, ground];
    }
    lines.push(`${line}${esc}[0m`);
  }
  return lines;
}

/**
 * Draws one character for every two pixels: denser for brighter pixels, or the character of the label whose border lies there.
 */
function inCharacters(view: CaseView, { plane, slice, width, height }: Shown): string[] {
  const rows = Math.ceil(height / 2);
  const size = { width, height: rows * 2, hasMarks: false };
  const { pixels } = drawSlice(view, plane, { ...slice, labels: null }, size);
  const labels = slice.labels && enlargedLabels(slice.labels, [slice.width, slice.height], [width, rows]);
  const borders = labels && contoursOf(labels, width, rows);
  return Array.from({ length: rows }, (_row, y) =>
    Array.from({ length: width }, (_column, x) => {
      const border = borders?.[y * width + x] ?? 0;
      if (border > 0) return keyOf(border);
      let sum = 0;
      for (const row of [2 * y, 2 * y + 1])
        for (let part = 0; part < 3; part += 1) sum += pixels[(row * width + x) * 3 + part] ?? 0;
      return characters[Math.floor((sum / 6 / 256) * characters.length)] ?? ' ';
    }).join(''),
  );
}
