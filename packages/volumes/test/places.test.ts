import { describe, expect, test } from 'vitest';
import { gridOf, type Place } from '../src/dicom-places.js';
import { evenStep, isEvenRounded, isOnLine, normalStep, roundingOf } from '../src/dicom-steps.js';
import { stackOf, usualStep } from '../src/headers/index.js';
import { VolumeError } from '../src/index.js';

const axial = [1, 0, 0, 0, 1, 0];
const half = Math.SQRT1_2;
const oblique = [1, 0, 0, 0, half, half];

const place = (given: Partial<Place> = {}): Place => ({
  ...{ name: 'a', size: [4, 3], position: [0, 0, 0], orientation: axial, pixelSpacing: [2, 1.5] },
  ...{ thickness: null, between: null, decimals: null },
  ...given,
});
const near = (values: readonly number[]) => values.map((value) => expect.closeTo(value, 9));
/** Images at these heights. */
const stack = (depths: readonly number[], given: Partial<Place> = {}): Place[] =>
  depths.map((z, at) => place({ name: `s${at}`, position: [0, 0, z], ...given }));
const depthOf = ({ position }: Place) => position?.[2] ?? Number.NaN;

describe('Axes that images share', () => {
  test('place columns, rows and slices to the right, to the front and upwards', () => {
    const image = place({ position: [10, -20, 30], orientation: oblique });
    const { affineOf, depthOf: depth } = gridOf([image]);
    expect(affineOf([image], [0, -3, 4])).toEqual([
      [-1.5, 0, 0, -10],
      [0, -2 * half, 3, 20],
      [0, 2 * half, 4, 30],
    ]);
    // Along the normal, which runs to the front and upwards.
    expect(depth(image)).toBeCloseTo(50 * half, 9);
  });

  const sentences = {
    position: 'position (Image Position Patient)',
    orientation: 'orientation (Image Orientation Patient)',
    pixelSpacing: 'pixel spacing',
  };
  test.each<[keyof typeof sentences, number[] | null]>([
    ['position', null],
    ['position', [0, 0]],
    ['orientation', null],
    ['orientation', [1, 0, 0, 0, 1]],
    ['orientation', [1.02, 0, 0, 0, 1, 0]],
    ['orientation', [1, 0, 0, 0, 0.98, 0]],
    ['orientation', [1, 0, 0, 0.03, 1, 0]],
    ['pixelSpacing', null],
    ['pixelSpacing', [2]],
    ['pixelSpacing', [2, 0]],
    ['pixelSpacing', [-1, 1]],
  ])('are refused without a right %s: %j', (field, value) => {
    expect(() => gridOf([place(), place({ name: 'b', [field]: value })])).toThrow(
      new VolumeError(
        `b has no ${sentences[field]}, so that the slices have no certain order and size: export the series again with it, or convert it to NIfTI.`,
      ),
    );
  });

  test.each([[[1.009, 0, 0, 0, 1, 0]], [[1, 0, 0, 0.019, 1, 0]]])(
    'may have directions that are rounded: %j',
    (orientation) => {
      gridOf([place({ orientation })]);
    },
  );

  test.each<[Partial<Place>, string | null]>([
    [{ size: [4, 4] }, 'rows or columns (4 3 against 4 4)'],
    [{ orientation: [1, 0, 0, 0, 1, 0.0011] }, 'orientation (1 0 0 0 1 0 against 1 0 0 0 1 0.0011)'],
    [{ orientation: [1, 0, 0, 0, 1, 0.0009] }, null],
    [{ pixelSpacing: [2.0011, 1.5] }, 'pixel spacing (2 1.5 against 2.0011 1.5)'],
    [{ pixelSpacing: [2, 1.4989] }, 'pixel spacing (2 1.5 against 2 1.4989)'],
    [{ pixelSpacing: [2.0009, 1.5] }, null],
  ])('are refused of images that differ: %j', (given, differ) => {
    const read = () => gridOf([place(), place(), place({ name: 'b', ...given })]);
    if (differ === null) read();
    else
      expect(read).toThrow(
        new VolumeError(
          `a and b differ in ${differ}: give each series its own directory, without localizers.`,
        ),
      );
  });
});

test('images of one place are less than a hundredth of a millimetre apart, and lie from the first to the last', () => {
  expect(stackOf([3, 0.0099, 0, 0.0101, -1], (depth) => depth)).toEqual([
    { depth: -1, images: [-1] },
    { depth: 0, images: [0, 0.0099] },
    { depth: 0.0101, images: [0.0101] },
    { depth: 3, images: [3] },
  ]);
  expect([[3, 1, 2], [10, 2, 2, 9], [], [5]].map(usualStep)).toEqual([2, 9, 0, 5]);
});

describe('The rounding of positions', () => {
  const at = (position: number[], decimals: number[] | null, orientation = axial) =>
    place({ position, decimals, orientation });
  test.each<[string, Place[], number, number]>([
    ['the last decimal that any has', [at([0, 0, 0], [0, 0, 0]), at([0, 0, 0.6], [0, 0, 1])], 0.1, 0],
    ['whole numbers', [at([0, 0, 0], [0, 0, 0]), at([0, 0, 1], [0, 0, 0])], 1, 0],
    ['none where they are the same', [at([1, 2, 3], [0, 0, 0]), at([1, 2, 3], [0, 0, 0])], 0, 0],
    ['none where it was computed', [at([0, 0, 0], null), at([0, 0, 1], null)], 0, 0],
    ['across the normal', [at([0, 0, 0], [2, 1, 0]), at([1, 1, 0], [2, 1, 0])], 0, Math.hypot(0.01, 0.1)],
    [
      'of oblique images',
      [at([0, 0, 0], [1, 1, 2], oblique), at([0, 1, 1], [1, 1, 2], oblique)],
      0.11 * half,
      Math.hypot(0.1, 0.01) * half,
    ],
  ])('is %s', (_, places, along, across) => {
    const found = roundingOf(places);
    expect(near([found.along, found.across])).toEqual([along, across]);
  });
});

describe('Slices are even but for their rounding', () => {
  test.each<[readonly number[], number, Partial<Place>, boolean]>([
    [[0, 0.6, 1.3, 1.9], 0.1, {}, true],
    [[0, 0.6, 1.3, 1.9], 0.05, {}, false],
    // At most 0.6 of a decimal from the line.
    [[0, 1.05, 1.95, 3], 0.1, {}, true],
    [[0, 1.1, 1.9, 3], 0.1, {}, false],
    // Less than a fifth of their distance from it, or than a half where the file says the distance.
    [[0, 1.3, 1.7, 3], 1, {}, false],
    [[0, 1.3, 1.7, 3], 1, { between: 0.98 }, true],
    [[0, 1.3, 1.7, 3], 1, { between: 0.99 }, false],
    [[0, 1.3, 1.7, 3], 1, { between: -0.9 }, true],
    [[0, 1.3, 1.7, 3], 1, { thickness: 0.9 }, true],
    [[0, 1.3, 1.7, 3], 1, { thickness: 0.8 }, false],
    [[0, 2, 3, 4], 1, { between: 1.3 }, true],
    [[0, 2, 3, 4, 5], 0.1, { between: 1 }, false],
  ])('%j with a decimal of %d mm, %j: %s', (depths, rounding, given, isEven) => {
    expect(isEvenRounded(depths, place(given), rounding)).toBe(isEven);
  });
});

describe('The way from slice to slice', () => {
  test('is the thickness of a single one, which it must have', () => {
    expect(evenStep(stack([7], { thickness: 2.5, orientation: oblique }), depthOf)).toEqual(
      near([0, -2.5 * half, 2.5 * half]),
    );
    for (const thickness of [null, 0, -1])
      expect(() => evenStep(stack([7], { thickness }), depthOf)).toThrow(
        new VolumeError('s0 is a single slice and has no thickness: give the whole series.'),
      );
    expect(evenStep([], depthOf)).toEqual([]);
    expect(normalStep(place({ orientation: oblique }), -2)).toEqual(near([0, 2 * half, -2 * half]));
  });

  test('is the same part of all of it, straight or slanted', () => {
    const images = [0, 1, 2].map((k) => place({ position: [k, 0, 2 * k] }));
    expect(evenStep(images, depthOf)).toEqual([1, 0, 2]);
  });

  test.each([
    [[0, 2, 4.1, 6.1], null],
    [
      [0, 2, 4.2, 6.2],
      ['s1', 's2', '2.20', '2.00'],
    ],
    [
      [0, 2, 3.8, 5.8],
      ['s1', 's2', '1.80', '2.00'],
    ],
    [
      [0, 4, 6, 8],
      ['s0', 's1', '4.00', '2.00'],
    ],
  ])('is refused where distances are uneven: %j', (depths, named) => {
    const read = () => evenStep(stack(depths), depthOf);
    if (!named) return expect(read()[2]).toBeCloseTo((depths.at(-1) ?? 0) / 3, 9);
    const [from, to, length, usual] = named;
    return expect(read).toThrow(
      new VolumeError(
        `Between ${from} and ${to} are ${length} mm, between other slices ${usual} mm: a slice is missing or belongs elsewhere. Send the whole series, of even distances.`,
      ),
    );
  });

  test('is refused where a slice lies beside the line, by more than a twentieth of the distance', () => {
    const images = (aside: number) => [
      ...stack([0, 2]),
      place({ name: 's2', position: [aside, 0, 4] }),
      place({ name: 's3', position: [0, 0, 6] }),
    ];
    expect(evenStep(images(0.1), depthOf)).toEqual([0, 0, 2]);
    expect(() => evenStep(images(0.11), depthOf)).toThrow(
      new VolumeError(
        's2 lies beside the line from s0 to s3, on which the slices of a volume lie: these are shifted against each other. Give each stack of slices its own directory, or resample the series.',
      ),
    );
  });

  test.each([
    [[3, 0.1, 6], 0, true],
    [[3, 0.11, 6], 0, false],
    [[3, 0.11, 6], 0.02, true],
    // How far along it lies is not asked.
    [[3, 0, 9], 0, true],
  ])('has %j on it with a rounding of %d: %s', (position, rounding, isOn) => {
    const line = { first: place(), way: [1, 0, 2], step: 2, rounding };
    expect(isOnLine(line, place({ position }), 3)).toBe(isOn);
  });
});
