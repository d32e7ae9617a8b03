import { describe, expect, test } from 'vitest';
import { contoursOf } from '../../../src/imaging/pictures/contours.js';
import {
  type Canvas,
  type CaseView,
  drawForTerminal,
  swatchOf,
  viewCase,
} from '../../../src/imaging/pictures/index.js';
import { Screen } from '../../support/screen.js';
import { layouts, phantom } from './phantom.js';

const esc = '\u001b';
const canvas: Canvas = { look: 'true colour', columns: 120, rows: 60, cell: { width: 8, height: 16 } };
const looks = ['kitty', 'sixel', 'true colour', '256 colours', 'characters'] as const;

const head = (layout = layouts[0] ?? []) => {
  const { scan, mask } = phantom({ layout, spacing: [2, 2, 2] });
  return viewCase({ name: 'head', scan, mask }, { slices: 1, maxPixels: 512 });
};

/** The view that nearly all tests draw. */
const usual = head();

type Rgb = readonly [number, number, number];

/** The colours of a place in xterm's table of 256. */
function ofTable(number: number): Rgb {
  if (number >= 232) return [8 + (number - 232) * 10, 8 + (number - 232) * 10, 8 + (number - 232) * 10];
  const level = (step: number) => (step === 0 ? 0 : 55 + step * 40);
  const at = number - 16;
  return [level(Math.floor(at / 36)), level(Math.floor(at / 6) % 6), level(at % 6)];
}

/** The two colours of each character: of the upper half and of the lower one; null where there is other text. */
function halvesOf(line: string): ({ upper: Rgb; lower: Rgb } | null)[] {
  let [upper, lower]: [Rgb, Rgb] = [
    [0, 0, 0],
    [0, 0, 0],
  ];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one
  return [...line.matchAll(/\u001b\[([\d;]*)m|(.)/gu)].flatMap(([, sequence, character]) => {
    if (sequence === undefined) return [character === '▀' ? { upper, lower } : null];
    const [of, kind, ...parts] = sequence.split(';').map(Number);
    const colour =
      kind === 5 ? ofTable(parts[0] ?? 0) : ([parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0] as const);
    if (of === 38) upper = colour;
    if (of === 48) lower = colour;
    return [];
  });
}

/** The middle of the pixels of a colour in the first picture of a drawing, as parts of its width and height. */
function middleOf(drawing: string, isMeant: (colour: Rgb) => boolean, columns: number) {
  let [x, y, count] = [0, 0, 0];
  const rows = drawing
    .split('\n')
    .filter((line) => line.includes('▀'))
    .map((line) => halvesOf(line));
  rows.forEach((row, at) => {
    row.slice(2, 2 + columns).forEach((cell, column) => {
      if (!cell) return;
      for (const [half, colour] of [cell.upper, cell.lower].entries())
        if (isMeant(colour)) {
          x += column + 0.5;
          y += at * 2 + half + 0.5;
          count += 1;
        }
    });
  });
  return { x: x / count / columns, y: y / count / (rows.length * 2), count };
}

const isColour = (view: CaseView, index: number) => {
  const { colour } = view.labels[index - 1] ?? { colour: [] };
  return (rgb: Rgb) => colour.every((part, at) => Math.abs(part - (rgb[at] ?? 0)) <= 40);
};

/** Columns of the first picture of a row: those between the two blanks before it and the text that follows. */
const columnsOfFirst = (drawing: string): number =>
  halvesOf(drawing.split('\n').find((line) => line.includes('▀')) ?? '')
    .slice(2)
    .indexOf(null);

test.each(['true colour', '256 colours'] as const)(
  'half blocks in %s have the marker at the right front side, however the volume is stored',
  async (look) => {
    for (const layout of [layouts[0], layouts[7], layouts[21], layouts[46]]) {
      const view = await head(layout);
      const drawing = drawForTerminal(view, { ...canvas, look });
      const { x, y, count } = middleOf(drawing, isColour(view, 2), columnsOfFirst(drawing));
      expect(count).toBeGreaterThan(8);
      // 14 of 80 mm to the right, 16 of 96 mm to the front; the patient's right is on the left.
      expect(x).toBeCloseTo(0.5 - 14 / 80, 1);
      expect(y).toBeCloseTo(0.5 - 16 / 96, 1);
    }
  },
);

test('the sides of the patient are written around each picture', async () => {
  const rows = new Screen(120).write(drawForTerminal(await usual, canvas).replaceAll('\n', '\r\n')).rows;
  expect(rows[0]).toMatch(/^axial S \d+ mm +coronal A \d+ mm +sagittal R \d+ mm$/);
  expect(rows[1]?.trim().split(/ +/)).toEqual(['A', 'S', 'S']);
  const letters = rows.slice(1).join('').replaceAll(/[▀ ]/g, '');
  expect([...letters].sort().join('')).toBe('AAIILLPPRRSS');
  expect(rows.filter((row) => /^R ▀+ L/.test(row))).toHaveLength(1);
  expect(rows.filter((row) => /A ▀+ P$/.test(row))).toHaveLength(1);
});

test('characters show borders of labels by their digits, and no control sequence', async () => {
  const drawing = drawForTerminal(await usual, { ...canvas, look: 'characters' });
  expect(drawing).toMatch(/^[\x20-\x7e\n]+$/);
  expect(drawing).toMatch(/1+.*2+.*1/);
  // The marker is bright, and so is its middle.
  expect(drawing).toMatch(/2@+2/);
});

test('labels have borders where they end, and none where the picture ends', () => {
  const labels = Uint8Array.from([0, 1, 1, 0, 1, 1, 0, 1, 1]);
  expect([...contoursOf(labels, 3, 3)]).toEqual([0, 1, 0, 0, 1, 0, 0, 1, 0]);
});

test.each([200, 120, 100, 72, 50, 36, 24, 10])('fits a terminal of %i columns', async (columns) => {
  for (const look of ['true colour', '256 colours', 'characters'] as const) {
    const screen = new Screen(columns);
    const drawing = drawForTerminal(await usual, { ...canvas, look, columns });
    screen.write(drawing.replaceAll('\n', '\r\n'));
    expect(screen.wrapped, look).toEqual([]);
    expect(drawing).toContain('axial'.slice(0, columns - 2));
  }
});

test('a narrow terminal has the planes below each other', async () => {
  const titles = (drawing: string) =>
    drawing.split('\n').filter((line) => /axial|coronal|sagittal/.test(line));
  expect(titles(drawForTerminal(await usual, { ...canvas, columns: 120 }))).toHaveLength(1);
  expect(titles(drawForTerminal(await usual, { ...canvas, columns: 80 }))).toHaveLength(2);
  expect(titles(drawForTerminal(await usual, { ...canvas, columns: 60 }))).toHaveLength(3);
});

test('no picture is higher than the screen', async () => {
  const drawing = drawForTerminal(await usual, { ...canvas, columns: 400, rows: 30 });
  expect(drawing.split('\n').length).toBeLessThan(28);
});

/** The pixels of a sixel sequence, as red, green and blue in percent. */
function readSixels(drawing: string) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the sequence begins and ends with one
  const [, body = ''] = /\u001bP0;1;0q([^\u001b]*)\u001b\\/.exec(drawing) ?? [];
  const [all = '', width = 0, height = 0] = /^"1;1;(\d+);(\d+)/.exec(body) ?? [];
  const palette: (readonly number[])[] = [];
  const pixels: (readonly number[] | null)[] = Array(Number(width) * Number(height)).fill(null);
  let [x, y, colour] = [0, 0, 0];
  for (const [, number, parts, count, character = ''] of body
    .slice(all.length)
    .matchAll(/#(\d+)(;2;[\d;]+)?|(?:!(\d+))?([?-~$-])/g)) {
    if (parts) palette[Number(number)] = parts.split(';').slice(2).map(Number);
    else if (number) colour = Number(number);
    else if (character === '$') x = 0;
    else if (character === '-') [x, y] = [0, y + 6];
    else
      for (let repeat = 0; repeat < Number(count ?? 1); repeat += 1, x += 1)
        for (let bit = 0; bit < 6; bit += 1)
          if ((character.charCodeAt(0) - 63) & (1 << bit)) {
            if (x >= Number(width)) throw new Error('A row is too long');
            pixels[(y + bit) * Number(width) + x] = palette[colour] ?? null;
          }
  }
  return { width: Number(width), height: Number(height), palette, pixels };
}

describe('a picture', () => {
  test('as sixels has every pixel, and the colours of labels', async () => {
    const view = await usual;
    const { width, height, palette, pixels } = readSixels(
      drawForTerminal(view, { ...canvas, look: 'sixel' }),
    );
    expect(width).toBeGreaterThan(400);
    expect(width).toBeLessThanOrEqual(120 * 8);
    expect(height).toBeGreaterThan(200);
    expect(palette.length).toBeLessThanOrEqual(256);
    expect(pixels).not.toContain(null);
    const marker = (view.labels[1]?.colour ?? []).map((part) => Math.round((part / 255) * 100));
    const places = pixels.flatMap((each, at) => (each?.join() === marker.join() ? [at % width] : []));
    expect(places.length).toBeGreaterThan(50);
    // On the left of the axial slice, which is the first of three.
    expect(Math.min(...places)).toBeLessThan(width / 6);
  });

  test('as sixels keeps to 256 colours if the volume has more', async () => {
    const view = await usual;
    const noise = (pixels: Uint8Array) =>
      Uint8Array.from({ length: pixels.length * 3 }, (_, at) => (at * 7919) % 251);
    const planes = view.planes.map((plane) => ({
      ...plane,
      slices: plane.slices.map((slice) => ({ ...slice, isColour: true, pixels: noise(slice.pixels) })),
    })) as unknown as CaseView['planes'];
    const { palette, pixels } = readSixels(
      drawForTerminal({ ...view, planes }, { ...canvas, look: 'sixel' }),
    );
    expect(palette.length).toBeGreaterThan(50);
    expect(palette.length).toBeLessThanOrEqual(256);
    expect(pixels).not.toContain(null);
  });

  test('for kitty comes in messages of at most 4096 characters, as a PNG as wide as it says', async () => {
    const drawing = drawForTerminal(await usual, { ...canvas, look: 'kitty' });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the sequences begin and end with one
    const messages = [...drawing.matchAll(/\u001b_G([^;]*);([^\u001b]*)\u001b\\/g)];
    expect(messages.length).toBeGreaterThan(1);
    expect(Math.max(...messages.map(([, , content = '']) => content.length))).toBeLessThanOrEqual(4096);
    expect(messages.map(([, keys = '']) => /m=(\d)/.exec(keys)?.[1])).toEqual([
      ...Array(messages.length - 1).fill('1'),
      '0',
    ]);
    const png = Buffer.from(messages.map(([, , content]) => content).join(''), 'base64');
    const [, columns] = /c=(\d+),/.exec(messages[0]?.[1] ?? '') ?? [];
    expect(png.readUInt32BE(16)).toBe(Number(columns) * 8);
    expect(Number(columns)).toBeLessThanOrEqual(120);
  });
});

test('a legend has blocks in the colours of the labels, or the characters that stand for them', async () => {
  const [, label] = (await usual).labels;
  if (!label) throw new Error('no label');
  expect(swatchOf(label, { look: 'characters' })).toBe('2');
  expect(swatchOf(label, { look: 'true colour' })).toBe(`${esc}[38;2;${label.colour.join(';')}m■${esc}[0m`);
  expect(swatchOf(label, { look: '256 colours' })).toMatch(/38;5;\d+m■/);
});

test('a volume of one slice has one picture, and an empty segmentation no border', async () => {
  const { scan } = phantom({ layout: layouts[0] ?? [], spacing: [2, 2, 64] });
  const view = await viewCase({ name: 'flat', scan, mask: null }, { slices: 1, maxPixels: 512 });
  for (const look of looks) {
    const drawing = drawForTerminal(view, { ...canvas, look });
    expect(drawing).toMatch(/axial/);
    expect(drawing).not.toMatch(/coronal|sagittal/);
  }
});
