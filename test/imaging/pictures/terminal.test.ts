import { expect, test } from 'vitest';
import type { Canvas } from '../../../src/client/case/index.js';
import type { CaseView } from '../../../src/imaging/pictures/picture.js';
import { drawForTerminal, swatchOf } from '../../../src/imaging/pictures/terminal.js';
import { Screen } from '../../support/screen.js';
import { layouts, phantom, viewOf as viewCase } from './phantom.js';

const esc = '\u001b';
const canvas: Canvas = { look: 'true colour', columns: 120, rows: 60 };
const looks = ['true colour', '256 colours', 'characters'] as const;

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
  'Half blocks in %s have the marker at the right front, however the volume is stored',
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

test('The sides of the patient are written around each picture', async () => {
  const rows = new Screen(120).write(drawForTerminal(await usual, canvas).replaceAll('\n', '\r\n')).rows;
  expect(rows[0]).toMatch(/^axial S \d+ mm +coronal A \d+ mm +sagittal R \d+ mm$/);
  expect(rows[1]?.trim().split(/ +/)).toEqual(['A', 'S', 'S']);
  const letters = rows.slice(1).join('').replaceAll(/[▀ ]/g, '');
  expect([...letters].sort().join('')).toBe('AAIILLPPRRSS');
  expect(rows.filter((row) => /^R ▀+ L/.test(row))).toHaveLength(1);
  expect(rows.filter((row) => /A ▀+ P$/.test(row))).toHaveLength(1);
});

test('In characters, the borders of labels are drawn with their digits, without control sequences', async () => {
  const drawing = drawForTerminal(await usual, { ...canvas, look: 'characters' });
  expect(drawing).toMatch(/^[\x20-\x7e\n]+$/);
  expect(drawing).toMatch(/1+.*2+.*1/);
  // The marker is bright, and so is its middle.
  expect(drawing).toMatch(/2@+2/);
});

test.each([200, 120, 100, 72, 50, 36, 24, 10])('A drawing fits a terminal of %i columns', async (columns) => {
  for (const look of ['true colour', '256 colours', 'characters'] as const) {
    const screen = new Screen(columns);
    const drawing = drawForTerminal(await usual, { ...canvas, look, columns });
    screen.write(drawing.replaceAll('\n', '\r\n'));
    expect(screen.wrapped, look).toEqual([]);
    expect(drawing).toContain('axial'.slice(0, columns - 2));
  }
});

test('No picture is higher than the screen', async () => {
  const drawing = drawForTerminal(await usual, { ...canvas, columns: 400, rows: 30 });
  expect(drawing.split('\n').length).toBeLessThan(28);
});

test('A legend has blocks in the colours of the labels, or the characters that stand for them', async () => {
  const [, label] = (await usual).labels;
  if (!label) throw new Error('no label');
  expect(swatchOf(label, { look: 'characters' })).toBe('2');
  expect(swatchOf(label, { look: 'true colour' })).toBe(`${esc}[38;2;${label.colour.join(';')}m■${esc}[0m`);
  expect(swatchOf(label, { look: '256 colours' })).toMatch(/38;5;\d+m■/);
});

test('A volume of one slice has one picture, and an empty segmentation no border', async () => {
  const { scan } = phantom({ layout: layouts[0] ?? [], spacing: [2, 2, 64] });
  const view = await viewCase({ name: 'flat', scan, mask: null }, { slices: 1, maxPixels: 512 });
  for (const look of looks) {
    const drawing = drawForTerminal(view, { ...canvas, look });
    expect(drawing).toMatch(/axial/);
    expect(drawing).not.toMatch(/coronal|sagittal/);
  }
});
