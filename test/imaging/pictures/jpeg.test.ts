import { expect, test } from 'vitest';
import { openJpegEncoder } from '../../../src/imaging/pictures/jpeg.js';
import { readJpeg } from '../../support/jpeg.js';

/** What a decoder reads, without the opacity. */
async function decoded(bytes: Buffer) {
  const { width, height, data } = await readJpeg(bytes);
  return { width, height, rgb: [...data].filter((_, at) => at % 4 !== 3) };
}

/** Slow waves with noise, which differ from colour to colour. */
const valueAt = (x: number, y: number, part: number): number =>
  Math.round(128 + 90 * Math.sin(x / 20 + part) * Math.cos(y / 13) + ((x * 7919 + y * 104_729) % 31));

test.each([
  [64, 40, false],
  [61, 47, false],
  [61, 47, true],
  [1, 1, false],
  [300, 9, true],
])('A picture of %i x %i pixels (in colour: %s) is what was drawn', async (width, height, isColour) => {
  const pixels = Uint8Array.from({ length: width * height * (isColour ? 3 : 1) }, (_, at) => {
    const pixel = isColour ? Math.floor(at / 3) : at;
    return valueAt(pixel % width, Math.floor(pixel / width), isColour ? at % 3 : 0);
  });
  const raster = { width, height, pixels, isColour };
  const fine = await (await openJpegEncoder(95))(raster);
  const read = await decoded(fine);
  expect([read.width, read.height]).toEqual([width, height]);
  const off = read.rgb.map((value, at) =>
    Math.abs(value - (pixels[isColour ? at : Math.floor(at / 3)] ?? 0)),
  );
  expect(Math.max(...off)).toBeLessThan(16);
  expect(off.reduce((sum, each) => sum + each, 0) / off.length).toBeLessThan(3);
  // The smallest picture is nothing but its header.
  if (width > 1) expect((await (await openJpegEncoder(40))(raster)).length).toBeLessThan(fine.length);
});

test('Hard edges and flat areas have the values that they had', async () => {
  const pixels = Uint8Array.from({ length: 64 * 64 }, (_, at) => (at % 64 < 24 ? 0 : 255));
  const { rgb } = await decoded(
    await (await openJpegEncoder(75))({ width: 64, height: 64, pixels, isColour: false }),
  );
  expect(
    rgb.map((value, at) => Math.abs(value - (pixels[Math.floor(at / 3)] ?? 0))).filter((each) => each > 2),
  ).toEqual([]);
});
