import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { decode } from 'fast-png';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/client/errors.js';
import { readTerminology } from '../../../src/imaging/matching/index.js';
import { areTogether, rankOf } from '../../../src/imaging/matching/match.js';
import { glyphOf } from '../../../src/imaging/pictures/font.js';
import {
  type Canvas,
  type CaseView,
  drawForTerminal,
  sheetOf,
  swatchOf,
} from '../../../src/imaging/pictures/index.js';
import type { Colour, PlaneView, ShownLabel, SliceView } from '../../../src/imaging/pictures/picture.js';
import { millilitresText, placeText, windowText } from '../../../src/imaging/pictures/sheet.js';
import { WholeLabels } from '../../../src/imaging/pictures/whole-labels.js';
import { temporary } from '../../support/temporary.js';

const named = (stem: string, ...folders: string[]) => ({ stem, folders });

test('Names of results fit those of scans, the better the more they share', () => {
  const rank = (result: string, scan: string, only?: 'extends') => rankOf(named(result), named(scan), only);
  expect([rank('case1', 'case1'), rank('case1_seg', 'case1'), rank('case12', 'case1')]).toEqual([
    4000, 3005, 0,
  ]);
  expect([rank('seg_c1-x', 'c1'), rank('seg_c1-x', 'c1', 'extends'), rank('segc1', 'c1')]).toEqual([
    2000, 0, 0,
  ]);
  expect([rank('s-1_dseg', 's-1_t1w'), rank('s-1', 's-1_0000'), rank('s-12', 's-1_0000')]).toEqual([
    1003, 1003, 0,
  ]);
  expect([rank('case1', 'case1', 'extends'), rank('case1.x', 'case1', 'extends')]).toEqual([4000, 3005]);
  expect([
    areTogether([]),
    areTogether([named('x', 'a', 'b'), named('y', 'a', 'b')]),
    areTogether([named('x', 'a', 'b'), named('y', 'a')]),
  ]).toEqual([true, true, false]);
});

test('Places, volumes and windows are written as a person reads them', () => {
  expect([0, 0.4, -0.4, 12.4, -3, 2.5].map((each) => placeText({ name: 'axial' }, each))).toEqual([
    ...['0 mm', '0 mm', '0 mm', 'S 12 mm', 'I 3 mm', 'S 3 mm'],
  ]);
  expect([3, -3].map((each) => placeText({ name: 'sagittal' }, each))).toEqual(['R 3 mm', 'L 3 mm']);
  expect([3, -3].map((each) => placeText({ name: 'coronal' }, each))).toEqual(['A 3 mm', 'P 3 mm']);
  expect([0, 0.01234, 12.345, 99.4, 99.96, 100, 100.5, 1956.4].map(millilitresText)).toEqual([
    ...['0 ml', '0.0123 ml', '12.3 ml', '99.4 ml', '100 ml', '100 ml', '101 ml', '1956 ml'],
  ]);
  const window = { low: 1.23456, high: 33_333.3, unit: null };
  expect([
    windowText({ window: null }),
    windowText({ window }),
    windowText({ window: { ...window, unit: 'HU', isInverted: true } }),
  ]).toEqual(['', 'black 1.235, white 33330', 'black 33330, white 1.235 HU']);
});

test('Letters have their pixels, and what has none is a question mark', () => {
  const rows = (character: string) => Array.from(glyphOf(character));
  expect(rows('é')).toEqual([0, 12, 24, 48, 0, 126, 198, 198, 254, 192, 192, 126, 0, 0, 0, 0]);
  expect(rows('ÿ')).toEqual([0, 0, 108, 108, 0, 198, 198, 198, 198, 198, 198, 126, 6, 6, 252, 0]);
  expect(rows('~')).toEqual([0, 0, 0, 0, 0, 0, 50, 126, 76, 0, 0, 0, 0, 0, 0, 0]);
  expect([rows('\u00a0'), rows(' ')]).toEqual([Array(16).fill(0), Array(16).fill(0)]);
  const mark = [0, 0, 124, 198, 6, 12, 24, 48, 48, 0, 48, 48, 0, 0, 0, 0];
  expect(['?', '\u0100', '\u007f', '\u009f', '\n', '😀'].map(rows)).toEqual(Array(6).fill(mark));
});

test('Texts of a sheet are broken at spaces, where they are longer than it is wide', () => {
  const sheet = (...notes: readonly string[]) => Buffer.from(sheetOf([{ name: 'a', views: [], notes }]));
  const [x, y] = ['x'.repeat(78), 'y'.repeat(50)];
  expect(sheet(`${x} y`)).toEqual(sheet(x, 'y'));
  expect(sheet(`${x}${y}`)).toEqual(sheet(x, y));
  expect(sheet(`${y} a ${y} b`)).toEqual(sheet(`${y} a`, `${y} b`));
  expect(decode(sheet(x)).height).toBe(2 * 6 + 2 * 18);
  // A character of two code units has the place of one.
  expect(sheet('😀'.repeat(78))).toEqual(sheet('?'.repeat(78)));
  // Names are brighter than what is said of them.
  expect(new Set(decode(sheet(x)).data)).toEqual(new Set([0, 235, 160]));
  const long = sheetOf([{ name: `${x} y`, views: [], notes: [] }]);
  expect(decode(long).height).toBe(2 * 6 + 2 * 18);
});

test('A label is what a value nearly is, and the same wherever it is', () => {
  const labels = new WholeLabels();
  expect([labels.of(0), labels.hasAny, labels.isScaled]).toEqual([0, false, false]);
  expect([labels.of(2), labels.of(2), labels.of(2.01), labels.of(3.05), labels.of(4.06)]).toEqual([
    2,
    2,
    null,
    3,
    null,
  ]);
  expect([labels.hasAny, labels.isScaled, new WholeLabels().of(Number.NaN)]).toEqual([true, true, null]);
});

describe('the names of labels', () => {
  test('The names of labels are those of an app, or of a list', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'labels.json');
    const read = (document: unknown) => {
      writeFileSync(file, typeof document === 'string' ? document : JSON.stringify(document));
      return readTerminology(file);
    };
    const liver = { name: 'liver', color: '#f00', snomed: { code: '1', meaning: 'Liver' } };
    expect(read({ '1': 'liver', '-2': liver })).toEqual({ '1': { name: 'liver' }, '-2': liver });
    expect(read({ terminology: { '1': liver }, more: 1 })).toEqual({ '1': liver });
    expect(read({})).toEqual({});
    const isNone = `'${file}' does not name labels: give an app.json with a terminology, or an object such as {"1": "liver"}`;
    for (const document of [
      [],
      3,
      { liver: '1' },
      { '1': 3 },
      { '1': 'x'.repeat(201) },
      { '12345678901': 'x' },
    ])
      expect(() => read(document)).toThrow(isNone);
    expect(() => read('{')).toThrow(`Cannot read the names of labels in '${file}': it is not JSON`);
    expect(() => readTerminology(`${file}x`)).toThrow(UsageError);
    expect(() => readTerminology(`${file}x`)).toThrow(
      /^Cannot read the names of labels in '.*x': (?!it is not JSON)/,
    );
  });
});

const flat = (...lines: readonly string[]) => Uint8Array.from(lines.join(''), Number);
const plane = (name: PlaneView['name'], slices: readonly SliceView[]): PlaneView => ({
  ...{ name, slices, best: 0, marks: { left: 'R', right: 'L', top: 'A', bottom: 'P' } },
});
const viewOf = (slice: SliceView): CaseView => ({
  ...{ name: 'sub-01', pixel: 1, notes: [], window: null },
  planes: [plane('axial', [slice]), plane('coronal', []), plane('sagittal', [])],
  labels: [],
});

describe('a terminal', () => {
  const esc = '\u001b';

  test('A terminal has a legend in its colours, or in characters', () => {
    const swatch = (index: number, colour: Colour, look: Canvas['look']) =>
      swatchOf({ index, colour } as ShownLabel, { look });
    expect(
      [1, 9, 10, 35, 36, 61, 62, 255].map((index) => swatch(index, [0, 0, 0], 'characters')).join(''),
    ).toBe('19azAZ&&');
    expect(swatch(1, [1, 2, 3], 'true colour')).toBe(`${esc}[38;2;1;2;3m■${esc}[0m`);
    const number = (...colour: [number, number, number]) =>
      Number(/;5;(\d+)m/.exec(swatch(1, colour, '256 colours'))?.[1]);
    expect([
      number(255, 0, 0),
      number(95, 135, 175),
      number(0, 0, 0),
      number(115, 0, 0),
      number(116, 0, 0),
    ]).toEqual([...[196, 67, 16, 52, 88]]);
    expect([8, 100, 128, 238, 250, 255].map((grey) => number(grey, grey, grey))).toEqual([
      232, 241, 244, 255, 231, 231,
    ]);
  });

  test('A terminal shows a slice in characters, with its place, its sides and the borders of labels', () => {
    const slice: SliceView = {
      ...{ position: -12.5, width: 8, height: 6, isColour: false },
      pixels: Uint8Array.from({ length: 48 }, (_, at) => (at % 8) * 36),
      labels: flat('00000000', '01111000', '01111000', '01111000', '01111020', '00000000'),
    };
    const drawn = drawForTerminal(viewOf(slice), { look: 'characters', columns: 36, rows: 16 });
    expect(drawn.split('\n')).toEqual([
      'axial I 12 mm',
      '            A',
      '     ..::--==++*##%%@@@',
      '     1111111111*##%%@@@',
      '     1.::--==+1*##%%@@@',
      'R    1.::--==+1*##%%@@@ L',
      '     1.::--==+1*##%%@@@',
      '     1.::--==+1*##22@@@',
      '     1111111111*##22@@@',
      '     ..::--==++*##%%@@@',
      '            P',
      '',
    ]);
  });

  test('A terminal shows two rows of pixels in a line, and a colour only where it changes', () => {
    const pixels = flat('000', '000', '000', '000', '000', '000').map(
      (_, at) => [9, 9, 9, 5, 0, 0][at % 6] ?? 0,
    );
    const slice = { ...{ position: 0, width: 2, height: 3, isColour: true, labels: null }, pixels };
    const drawn = drawForTerminal(viewOf(slice), { look: 'true colour', columns: 9, rows: 1 });
    const ink = (of: number, colour: string) => `${esc}[${of};2;${colour}m`;
    const [grey, red, none] = ['9;9;9', '5;0;0', '0;0;0'];
    const line = (lower: readonly [string, string]) =>
      `${ink(38, grey)}${ink(48, lower[0])}▀${ink(38, red)}${lower[0] === lower[1] ? '' : ink(48, lower[1])}▀${esc}[0m`;
    expect(drawn.split('\n')).toEqual([
      ...['axial 0', '  A', `R ${line([grey, red])} L`, `  ${line([none, none])}`, '  P', ''],
    ]);
  });
});
