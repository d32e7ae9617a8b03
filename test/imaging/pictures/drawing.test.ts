import { decode } from 'fast-png';
import { expect, test } from 'vitest';
import { contoursOf, enlargedLabels } from '../../../src/imaging/pictures/contours.js';
import { blank, drawSlice, fill, place, textWidth, write } from '../../../src/imaging/pictures/draw.js';
import type { CaseView, Picture, PlaneView, SliceView } from '../../../src/imaging/pictures/picture.js';
import { brightnessOf, cut, labelsOf, pixelsOf } from '../../../src/imaging/pictures/planar.js';
import { orientationOf, positionOf } from '../../../src/imaging/pictures/planes.js';
import { sheetOf } from '../../../src/imaging/pictures/sheet.js';

const rows = (values: ArrayLike<number>, width: number): string[] =>
  Array.from({ length: values.length / width }, (_, y) =>
    Array.from({ length: width }, (_, x) => values[y * width + x]).join(''),
  );

/** A picture as text: `#` for white, `.` for black, the first letter of others. */
const asText = ({ pixels, width }: Picture, letters: Readonly<Record<string, string>> = {}): string[] =>
  rows(
    Array.from({ length: pixels.length / 3 }, (_, at) => {
      const colour = pixels.subarray(at * 3, at * 3 + 3).join();
      return { '0,0,0': '.', '255,255,255': '#', ...letters }[colour] ?? '?';
    }) as unknown as number[],
    width,
  );

const flat = (...lines: readonly string[]) => Uint8Array.from(lines.join(''), Number);

test('Borders of labels are drawn within them, and are open where the picture ends', () => {
  const labels = flat('11100', '11122', '11122', '00000', '03330', '03330', '03330');
  expect(rows(contoursOf(labels, 5, 7), 5)).toEqual([
    ...['00100', '00122', '11122', '00000', '03330', '03030', '03030'],
  ]);
});

test('A picture of labels is made larger or smaller by the middles of its pixels', () => {
  expect(rows(enlargedLabels(flat('12', '34'), [2, 2], [4, 3]), 4)).toEqual(['1122', '3344', '3344']);
  expect(rows(enlargedLabels(flat('1234', '5678'), [4, 2], [2, 1]), 2)).toEqual(['68']);
});

const axis = (of: 0 | 1 | 2, count: number, spacing = 1, isReversed = false) => ({
  of,
  count,
  spacing,
  isReversed,
});

test('Pixels are square, and take the label of their middle and the brightness of what is around it', () => {
  expect([pixelsOf(axis(0, 4, 2), 1), pixelsOf(axis(0, 4, 2), 4), pixelsOf(axis(0, 1, 0.1), 4)]).toEqual([
    8, 2, 1,
  ]);
  const labels = flat('1234', '5678');
  const raster = { across: axis(0, 4), down: axis(1, 2, 2), pixel: 1 };
  expect(rows(labelsOf(labels, raster), 4)).toEqual(['1234', '1234', '5678', '5678']);
  const turned = { across: axis(1, 2, 1, true), down: axis(0, 4, 1, true), pixel: 1 };
  expect(rows(labelsOf(labels, turned), 2)).toEqual(['84', '73', '62', '51']);
  const values = Uint8Array.of(0, 100, 200, 40);
  const line = (pixel: number, isReversed = false) =>
    Array.from(brightnessOf(values, { across: axis(0, 4, 1, isReversed), down: axis(1, 1), pixel }, 1));
  expect([line(1), line(1, true)]).toEqual([
    [0, 100, 200, 40],
    [40, 200, 100, 0],
  ]);
  expect(line(0.5).slice(0, 8)).toEqual([0, 25, 75, 125, 175, 160, 80, 40]);
  // Half as many pixels, each of all that it covers.
  expect(line(2).slice(0, 2)).toEqual([71, 117]);
  const colours = Uint8Array.of(10, 20, 30, 40, 50, 60);
  expect(
    Array.from(brightnessOf(colours, { across: axis(0, 2, 1, true), down: axis(1, 1), pixel: 1 }, 3)),
  ).toEqual([...[40, 50, 60, 10, 20, 30]]);
});

test('Slices of all three axes are cut out in one pass, of one volume of the file', async () => {
  const chosen: unknown[] = [];
  const source = (components: 1 | 3) => ({
    ...{ size: [2, 3, 2] as const, components },
    async *slices(choice: object = {}) {
      chosen.push(choice);
      for (const k of [0, 1])
        yield { k, values: Uint8Array.from({ length: 6 * components }, (_, at) => at + 100 * k) };
    },
  });
  const [i, j, k] = await cut(source(1), [[1], [2], [1, 0]], 3);
  expect([...i]).toEqual([[1, Uint8Array.of(1, 3, 5, 101, 103, 105)]]);
  expect([...j]).toEqual([[2, Uint8Array.of(4, 5, 104, 105)]]);
  expect([...k.keys()].sort()).toEqual([0, 1]);
  expect(k.get(1)).toEqual(Uint8Array.of(100, 101, 102, 103, 104, 105));
  await cut(source(1), [[], [], [1, 0]], 3);
  expect(chosen).toEqual([{ frame: 3 }, { frame: 3, only: [0, 1] }]);
  const [colours, rows] = await cut(source(3), [[1], [2], []], 0);
  expect(rows.get(2)).toEqual(Uint8Array.of(12, 13, 14, 15, 16, 17, 112, 113, 114, 115, 116, 117));
  expect(colours.get(1)?.subarray(0, 6)).toEqual(Uint8Array.of(3, 4, 5, 9, 10, 11));
  const huge = { ...source(1), size: [2 ** 31, 2, 2] as const };
  await expect(cut(huge, [[], [1], []], 0)).rejects.toThrow(
    'The slices of a volume of 2147483648 x 2 x 2 voxels are too large to be drawn: reduce it first.',
  );
});

test('Planes are those that the axes of a volume are closest to, with places in millimetres', () => {
  // The first axis runs downwards, the second to the left, the third to the front.
  const affine = [
    [0, -3, 0, 30],
    [0, 0, 4, 40],
    [-2, 0, 0, 50],
  ] as const;
  const { planes, angle } = orientationOf({ size: [5, 7, 9], affine });
  expect(angle).toBeNull();
  const [down, left, front] = [
    { of: 0, count: 5, spacing: 2 },
    { of: 1, count: 7, spacing: 3 },
    { of: 2, count: 9, spacing: 4 },
  ];
  expect(planes).toEqual([
    {
      name: 'axial',
      marks: { left: 'R', right: 'L', top: 'A', bottom: 'P' },
      across: { ...left, isReversed: false },
      down: { ...front, isReversed: true },
      through: { ...down, isReversed: true },
    },
    {
      name: 'coronal',
      marks: { left: 'R', right: 'L', top: 'S', bottom: 'I' },
      across: { ...left, isReversed: false },
      down: { ...down, isReversed: false },
      through: { ...front, isReversed: false },
    },
    {
      name: 'sagittal',
      marks: { left: 'A', right: 'P', top: 'S', bottom: 'I' },
      across: { ...front, isReversed: true },
      down: { ...down, isReversed: false },
      through: { ...left, isReversed: true },
    },
  ]);
  const geometry = { size: [5, 7, 9], affine } as const;
  expect(planes.map((plane) => positionOf(geometry, plane, 1))).toEqual([48, 44, 27]);
  const turned = (degrees: number) => {
    const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
    return orientationOf({
      size: [5, 5, 5],
      affine: [
        [c, -s, 0, 0],
        [s, c, 0, 0],
        [0, 0, 1, 0],
      ],
    }).angle;
  };
  expect([turned(1.9), turned(10)]).toEqual([null, expect.closeTo(10, 6)]);
});

test('Rectangles, pictures and texts go where they belong', () => {
  const picture = blank(6, 4);
  fill(picture, [-1, -1, 3, 3], [255, 255, 255]);
  fill(picture, [5, 3, 9, 9], [255, 255, 255]);
  const small = blank(2, 1);
  fill(small, [0, 0, 2, 1], [1, 2, 3]);
  place(picture, small, 3, 2);
  expect(asText(picture, { '1,2,3': 'o' })).toEqual(['##....', '##....', '...oo.', '.....#']);
  const text = blank(textWidth('R1') + 1, 16);
  write(text, 'R1', 1, 0, [255, 255, 255]);
  expect(textWidth('R1')).toBe(16);
  expect(asText(text).map((row) => row.trimEnd())).toEqual([
    '.................',
    '.................',
    '.######.....##...',
    '.##...##...###...',
    '.##...##..####...',
    '.##...##..#.##...',
    '.######.....##...',
    '.##...##....##...',
    '.##...##....##...',
    '.##...##....##...',
    '.##...##....##...',
    '.##...##..######.',
    '.................',
    '.................',
    '.................',
    '.................',
  ]);
});

const slice: SliceView = {
  ...{ position: -12.5, width: 8, height: 6, isColour: false },
  pixels: new Uint8Array(48).fill(100),
  labels: flat('00000000', '01111000', '01111000', '01111000', '01111020', '00000000'),
};
const plane = (name: PlaneView['name'], slices: readonly SliceView[]): PlaneView => ({
  ...{ name, slices, best: 0, marks: { left: 'R', right: 'L', top: 'A', bottom: 'P' } },
});
const view: CaseView = {
  ...{ name: 'sub-01', pixel: 1, notes: ['another grid'], window: { low: -160, high: 240, unit: 'HU' } },
  planes: [plane('axial', [slice, slice]), plane('coronal', [slice]), plane('sagittal', [])],
  labels: [
    {
      index: 1,
      value: 1,
      name: 'liver, by a name of half a row',
      colour: [250, 0, 1],
      voxels: 16,
      millilitres: 1.6,
    },
    { index: 2, value: 2, name: 'cyst', colour: [0, 250, 2], voxels: 1, millilitres: 0.1 },
  ],
};

test('A slice has the contours of its labels in their colours, as large as fits', () => {
  const letters = { '100,100,100': 'g', '250,0,1': 'l', '0,250,2': 'c' };
  const drawn = drawSlice(view, plane('axial', [slice]), slice, { width: 8, height: 99, hasMarks: false });
  expect(asText(drawn, letters)).toEqual([
    ...['gggggggg', 'gllllggg', 'glgglggg', 'glgglggg', 'gllllgcg', 'gggggggg'],
  ]);
  const large = drawSlice(view, plane('axial', [slice]), slice, { width: 80, height: 60 });
  expect([large.width, large.height]).toEqual([80, 60]);
  const sizeIn = (width: number, height: number) => {
    const drawn = drawSlice(view, plane('axial', [slice]), slice, { width, height });
    return [drawn.width, drawn.height];
  };
  expect([sizeIn(80, 12), sizeIn(12, 60), sizeIn(80, 0.1)]).toEqual([
    [16, 12],
    [12, 9],
    [1, 1],
  ]);
  // The letters on its sides: white, with a dark rim.
  const text = asText(large, letters);
  const isAt = (x: number, y: number) =>
    text.slice(y, y + 16).some((row) => row.slice(x, x + 8).includes('#'));
  expect([isAt(2, 22), isAt(70, 22), isAt(36, 2), isAt(36, 42), isAt(16, 22)]).toEqual([
    ...[true, true, true, true, false],
  ]);
});

test('A sheet has the name, the window, the notes, each slice with its place, and a legend', () => {
  const sheet = decode(sheetOf([{ name: 'sub-01', views: [view], notes: ['found by its name'] }]));
  const counts = new Map<number, number>();
  const columns = new Map<number, Set<number>>();
  for (let at = 0; at < sheet.data.length; at += 3) {
    const [red = 0, green = 0, blue = 0] = sheet.data.subarray(at, at + 3);
    const colour = red * 1e6 + green * 1e3 + blue;
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
    if (at / 3 >= sheet.width * (sheet.height - 45))
      columns.set(colour, (columns.get(colour) ?? new Set()).add((at / 3) % sheet.width));
  }
  expect([sheet.width, sheet.height]).toEqual([640, 456]);
  // How many pixels have each colour: names and the legend, what is said below them, grey, and the labels with their swatches.
  expect(
    [235_235_235, 160_160_160, 100_100_100, 250_000_001, 250_002].map((each) => counts.get(each)),
  ).toEqual([...[1185, 1833, 80_586, 1240, 376]]);
  // The swatches are below each other.
  expect([250_000_001, 250_002].map((each) => columns.get(each)?.has(8))).toEqual([true, true]);
  // A case without pictures has its name and why.
  const none = decode(sheetOf([{ name: 'sub-02', views: [], notes: ['It failed: no memory'] }]));
  expect([none.width, none.height, none.data.filter((value) => value > 0).length]).toEqual([640, 48, 1959]);
  // About as wide as high.
  const many = decode(sheetOf(Array.from({ length: 30 }, () => ({ name: 'a', views: [], notes: ['b'] }))));
  expect([many.width, many.height]).toEqual([2 * 640, 15 * 48]);
});
