import { expect, test } from 'vitest';
import { Random } from '../../../test/faults/support/random.mjs';
import { type Contour, ContourFinder, partsOfPixel } from '../src/contours.js';
import type { SourceSeries } from '../src/index.js';
import { contourText } from '../src/rt-struct.js';
import { filled } from './polygons.js';

/** A mask as it is drawn: a character for each pixel, a dot for background. */
function drawn(...rows: string[]) {
  const [width, height] = [rows[0]?.length ?? 0, rows.length];
  return {
    width,
    height,
    values: Uint8Array.from([...rows.join('')], (each) => Number(each.replace('.', '0'))),
  };
}

interface Mask {
  readonly width: number;
  readonly height: number;
  readonly values: Uint8Array;
}

const contoursOf = ({ width, height, values }: Mask): Contour[] =>
  new ContourFinder(width, height).find(values);

const pixelsOf = ({ points }: Contour): [number, number][] =>
  Array.from({ length: points.length / 2 }, (_, at) => [
    (points[2 * at] as number) / partsOfPixel,
    (points[2 * at + 1] as number) / partsOfPixel,
  ]);

/** The mask that the contours make: those of a value by the even-odd rule, together and each by itself. */
function expectSame(mask: Mask, title = ''): void {
  const { width, height, values } = mask;
  const contours = contoursOf(mask);
  for (const value of new Set(values)) {
    if (value === 0) continue;
    const lines = contours.filter((each) => each.value === value).map(pixelsOf);
    const expected = values.map((each) => Number(each === value));
    expect(filled(lines, width, height), `${title} ${value}`).toEqual(expected);
    const united = new Uint8Array(values.length);
    for (const line of lines)
      for (const [at, each] of filled([line], width, height).entries()) if (each === 1) united[at] = 1;
    expect(united, `${title} ${value}, each by itself`).toEqual(expected);
  }
}

const shapes: Readonly<Record<string, Mask>> = {
  'one pixel': drawn('...', '.1.', '...'),
  'a whole slice': drawn('111', '111'),
  'a slice of one pixel': drawn('1'),
  'a border': drawn('1111', '1..1', '1..1', '1111'),
  corners: drawn('1..1', '....', '1..1'),
  diagonals: drawn('1...', '.1..', '..1.', '.1.1', '1...'),
  'a hole whose pixels touch by corners': drawn('11111', '11.11', '1.1.1', '11.11', '11111'),
  'a hole that touches the outside by a corner': drawn('111.', '1.11', '1111'),
  'two holes in a row': drawn('1111111', '1.111.1', '1111111'),
  'a hole under a hole': drawn('11111', '11.11', '11111', '1.111', '11111'),
  'a hole to the left that begins above': drawn('1111111', '1..1111', '1..1..1', '1111111'),
  'an edge that goes down beside a hole': drawn('..11111', '..11.11', '1111111'),
  'an edge that goes up beside a hole': drawn('1111111', '..11.11', '..11111'),
  'islands in holes in islands': drawn(
    '111111111',
    '1.......1',
    '1.11111.1',
    '1.1...1.1',
    '1.1.1.1.1',
    '1.1...1.1',
    '1.11111.1',
    '1.......1',
    '111111111',
  ),
  'values beside each other': drawn('112233', '142333', '114433'),
};

test.each(Object.entries(shapes))('The contours of %s enclose exactly its mask', (title, mask) => {
  expectSame(mask, title);
});

test('A ring and the island in its hole have one contour each', () => {
  const contours = contoursOf(drawn('11111', '1...1', '1.1.1', '1...1', '11111'));
  expect(contours.map((each) => pixelsOf(each).length)).toEqual([16 + 3, 4]);
});

test('A straight edge has points only at its ends', () => {
  const [square] = contoursOf(drawn('1111', '1111', '1111', '1111'));
  expect(square && pixelsOf(square)).toHaveLength(8);
});

test('A contour stays a third of a pixel away from the centres of pixels', () => {
  for (const mask of Object.values(shapes))
    for (const line of contoursOf(mask).map(pixelsOf))
      for (const [at, [fromX, fromY]] of line.entries()) {
        const [toX, toY] = line[(at + 1) % line.length] as [number, number];
        // Along the line, in steps that are much shorter.
        for (let part = 0; part <= 1; part += 1 / 64) {
          const [x, y] = [fromX + part * (toX - fromX), fromY + part * (toY - fromY)];
          expect(Math.hypot(x - Math.round(x), y - Math.round(y))).toBeGreaterThan(1 / 3);
        }
      }
});

test('The contours of random masks, sparse and dense, enclose exactly the masks', () => {
  const random = new Random('contours');
  for (let round = 0; round < 150; round += 1) {
    const [width, height] = [random.integer(1, 24), random.integer(1, 24)];
    const share = random.next();
    const kinds = random.integer(1, 3);
    const values = Uint8Array.from({ length: width * height }, () =>
      random.chance(share) ? random.integer(1, kinds) : 0,
    );
    expectSame({ width, height, values }, `round ${round}`);
  }
});

test('A contour lies just under half a pixel around its pixels, with decimals that match the size of pixels', () => {
  const [contour] = new ContourFinder(3, 3).find(Uint8Array.of(0, 0, 0, 0, 7, 0, 0, 0, 0));
  expect(contour).toEqual({ value: 7, points: Int32Array.of(100, 51, 149, 100, 100, 149, 51, 100) });
  expect(
    new ContourFinder(90, 90).find(
      Uint8Array.from({ length: 8100 }, (_, at) => Number(at % 2 === Math.floor(at / 90) % 2)),
    ).length,
  ).toBe(4050);
  const source = (orientation: readonly number[], spacing: number) =>
    ({ orientation, pixelSpacing: [spacing, 2 * spacing], size: [100, 100, 1] }) as unknown as SourceSeries;
  const text = contourText(source([1, 0, 0, 0, 1, 0], 1));
  expect(text({ position: [-10, 20, 1 / 3] }, Int32Array.of(100, 50, 149, 50))).toBe(
    '-8\\20.5\\0.33333333333333\\-7.02\\20.5\\0.33333333333333',
  );
  expect(text({ position: [0, 20, 5] }, Int32Array.of(100, 50))).toBe('2\\20.5\\5');
  const turned = contourText(source([0.6, 0.8, 0, -0.8, 0.6, 0], 1));
  expect(turned({ position: [0, 0, 0] }, Int32Array.of(100, 33))).toBe('0.936\\1.798\\0');
  const tiny = contourText(source([1, 0, 0, 0, 1, 0], 0.001));
  expect(tiny({ position: [0, 0, 0] }, Int32Array.of(33, 77))).toBe('0.00066\\0.00077\\0');
});
