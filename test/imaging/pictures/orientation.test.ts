import { decode } from 'fast-png';
import { describe, expect, test } from 'vitest';
import { drawSlice } from '../../../src/imaging/pictures/draw.js';
import type { CaseView, Picture, PlaneView, SliceView } from '../../../src/imaging/pictures/picture.js';
import { sheetOf } from '../../../src/imaging/pictures/sheet.js';
import {
  coarser,
  drawnCase,
  type Layout,
  layoutName,
  layouts,
  phantom,
  type Sampling,
  viewOf as viewCase,
} from './phantom.js';

const samplings = [
  { title: 'isotropic', spacing: [2, 2, 2] },
  { title: 'anisotropic', spacing: [1, 2, 4] },
  { title: 'oblique', spacing: [2, 1, 4], turned: 20 },
] as const;

const options = { slices: 5, maxPixels: 128 };
const empty = new Uint8Array();

/** The plane's slice with most of the marker: the labels weigh the same, and the ellipsoid is spread over all slices. */
const bestOf = (plane: PlaneView) => {
  const slice = plane.slices[plane.best];
  if (!slice) throw new Error('no slice');
  return slice;
};

/** The middle of the pixels for which a test holds, as parts of the width and the height. */
function middleOf({ width, height, pixels }: Picture, isMeant: (rgb: Uint8Array) => boolean) {
  let [x, y, count] = [0, 0, 0];
  for (let at = 0; at < width * height; at += 1) {
    if (!isMeant(pixels.subarray(at * 3, at * 3 + 3))) continue;
    x += (at % width) + 0.5;
    y += Math.floor(at / width) + 0.5;
    count += 1;
  }
  return { x: x / count / width, y: y / count / height, count };
}

const isWhite = ([red = 0, green = 0, blue = 0]: Uint8Array) => red > 250 && green > 250 && blue > 250;
const isColour =
  (colour: readonly number[] = []) =>
  (rgb: Uint8Array) =>
    colour.every((part, at) => part === rgb[at]);

const pictureOf = (view: CaseView, plane: PlaneView): Picture =>
  drawSlice(view, plane, bestOf(plane), { width: 256, height: 256, hasMarks: false });

describe.each(samplings)('a phantom with $title voxels', ({ title, ...sampling }) => {
  const viewOf = (sampled: Omit<Sampling, 'layout'>, layout: Layout = layouts[0] ?? []) =>
    viewCase({ name: 'phantom', ...phantom({ ...sampled, layout }) }, options);

  const usual = viewOf(coarser(sampling));

  test(`A phantom with ${title} voxels has its marker at the upper right front, as seen from the feet and the front`, async () => {
    const view = await viewOf(sampling);
    const [axial, coronal, sagittal] = view.planes.map((plane) => middleOf(pictureOf(view, plane), isWhite));
    // 14 of 80 mm to the right, 16 of 96 mm to the front, 8 of 64 mm upwards.
    const [right, front, up] = [0.5 - 14 / 80, 0.5 - 16 / 96, 0.5 - 8 / 64];
    for (const [middle, x, y] of [
      [axial, right, front],
      [coronal, right, up],
      [sagittal, front, up],
    ] as const) {
      expect(middle?.x).toBeCloseTo(x, 1.5);
      expect(middle?.y).toBeCloseTo(y, 1.5);
      expect(middle?.count).toBeGreaterThan(50);
    }
    expect(view.planes.map(({ marks }) => Object.values(marks).join(''))).toEqual(['RLAP', 'RLSI', 'APSI']);
    const drawn = pictureOf(view, view.planes[0]);
    const contour = middleOf(drawn, isColour(view.labels[1]?.colour));
    expect(contour.count).toBeGreaterThan(20);
    expect(contour.x).toBeCloseTo(axial?.x ?? 0, 2);
    expect(contour.y).toBeCloseTo(axial?.y ?? 0, 2);
  });

  test.each(layouts.map((layout) => [layoutName(layout), layout] as const))(
    // All that a drawing is made of.
    `A phantom with ${title} voxels has the same slices when it is stored as %s`,
    async (_name, layout) => {
      const [{ planes, ...view }, { planes: expected, ...other }] = [
        await viewOf(coarser(sampling), layout),
        await usual,
      ];
      expect(view).toEqual(other);
      planes.forEach((plane, at) => {
        const { slices, ...same } = expected[at] as PlaneView;
        expect(plane).toEqual({ ...same, slices: expect.any(Array) });
        expect(plane.slices).toHaveLength(slices.length);
        plane.slices.forEach((slice, index) => {
          const { position, pixels, labels, ...more } = slices[index] as SliceView;
          expect(slice).toMatchObject({ ...more, position: expect.closeTo(position) });
          expect(Buffer.compare(slice.pixels, pixels)).toBe(0);
          expect(Buffer.compare(slice.labels ?? empty, labels ?? empty)).toBe(0);
        });
      });
    },
  );
});

test('Letters on the sheet are on the sides that they name', async () => {
  const { scan } = phantom({ layout: layouts[0] ?? [], spacing: [2, 2, 2] });
  const view = await viewCase({ name: 'p', scan, mask: null }, { slices: 1, maxPixels: 128 });
  const plane = view.planes[0];
  const [plain, marked] = [false, true].map((hasMarks) =>
    drawSlice(view, plane, bestOf(plane), { width: 200, height: 200, hasMarks }),
  );
  // The difference is the letters: the left half of the middle row must be an R, the right half an L.
  const differs = (x: number, y: number) =>
    plain !== undefined && marked !== undefined
      ? isWhite(marked.pixels.subarray((y * marked.width + x) * 3, (y * marked.width + x) * 3 + 3)) &&
        !isWhite(plain.pixels.subarray((y * plain.width + x) * 3, (y * plain.width + x) * 3 + 3))
      : false;
  const letterAt = (left: number, top: number) =>
    Array.from({ length: 16 }, (_, y) =>
      Array.from({ length: 8 }, (_, x) => (differs(left + x, top + y) ? '#' : '.')).join(''),
    );
  const { width = 0, height = 0 } = marked ?? {};
  const middle = (height - 16) >> 1;
  const right = letterAt(2, middle).filter((row) => row.includes('#'));
  const left = letterAt(width - 10, middle).filter((row) => row.includes('#'));
  // An R has a bow at its top, an L nothing but its stem.
  expect(right[0]).toMatch(/####/);
  expect(left[0]).toMatch(/^\.?##\.+$/);
  expect(left.at(-1)).toMatch(/####/);
});

test('The sheet is a PNG, with the same bytes each time', async () => {
  const { scan, mask } = phantom({ layout: layouts[0] ?? [], spacing: [2, 2, 2] });
  const view = await viewCase({ name: 'phantom', scan, mask }, options);
  const cases = [view, view].map((each) => drawnCase(each.name, each));
  const [first, second] = [sheetOf(cases), sheetOf(cases)];
  expect(Buffer.compare(first, second)).toBe(0);
  const { width, height, data, channels } = decode(first);
  expect(channels).toBe(3);
  expect(width).toBeGreaterThanOrEqual(640);
  const marker = middleOf({ width, height, pixels: Uint8Array.from(data) }, isColour(view.labels[1]?.colour));
  expect(marker.count).toBeGreaterThan(500);
});

test.each([2, 5, 26])('A sheet of %i cases is about as wide as it is high', async (count) => {
  const { scan, mask } = phantom({ layout: layouts[0] ?? [], spacing: [8, 8, 8] });
  const view = await viewCase({ name: 'phantom', scan, mask }, { slices: 2, maxPixels: 64 });
  const drawn = Array.from({ length: count - 1 }, (_, at) => ({ ...drawnCase(`case ${at}`, view) }));
  const failed = { ...drawnCase('failed'), notes: ['It failed: no head'] };
  // What a PNG says of itself first.
  const png = Buffer.from(sheetOf([...drawn, failed]));
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  expect(Math.abs(Math.log2(width / height))).toBeLessThanOrEqual(1);
});
