import { expect, test } from 'vitest';
import { type Element, element } from '../../../test/support/dicom-files.js';
import { openVolume, VolumeError } from '../src/index.js';
import { where, write } from './segmentation-files.js';

/** The groups of all frames: what they say of the distance of slices, and of their thickness. */
const measures = (between?: string, thickness?: string): Element =>
  element(0x52009229, 'SQ', [
    [
      element(0x00209116, 'SQ', [[element(0x00200037, 'DS', '1\\0\\0\\0\\1\\0')]]),
      element(0x00289110, 'SQ', [
        [
          element(0x00280030, 'DS', '2\\1.5'),
          ...(between === undefined ? [] : [element(0x00180088, 'DS', between)]),
          ...(thickness === undefined ? [] : [element(0x00180050, 'DS', thickness)]),
        ],
      ]),
    ],
  ]);

test.each<[string, number[], Element, number, number]>([
  ['the file gives', [0, 9], measures('3'), 4, 3],
  ['the file gives, without its sign', [0, 9], measures('-3'), 4, 3],
  ['the file gives for a single slice', [5], measures('4', '2'), 1, 4],
  ['the thickness of a single slice is', [5], measures('0', '2'), 1, 2],
  ['frames show that lie closer than the file says', [0, 3, 6], measures('6'), 3, 3],
  ['frames show if the distance in the file does not fit', [0, 4, 8], measures('3'), 3, 4],
  ['half of the smallest distance is', [0.125, 2.125, 5.125], measures(), 6, 1],
  ['a third of the smallest distance is', [0.125, 3.125, 7.125], measures(), 8, 1],
  ['a quarter of the smallest distance is', [0.125, 4.125, 9.125], measures(), 10, 1],
  ['the whole way gives if positions are rounded', [0, 0.6, 1.3, 1.9], measures(), 4, 1.9 / 3],
  ['the whole way gives if a position is slightly off', [0, 1, 2.02], measures(), 3, 1.01],
])('The distance between slices is what %s', async (_, positions, shared, slices, step) => {
  const frames = positions.map((z) => ({ z, segment: 1, values: where(1) }));
  const { size, affine } = await openVolume(await write(frames, { more: [shared] }));
  expect(size[2]).toBe(slices);
  expect(affine[2]).toEqual([0, 0, expect.closeTo(step, 9), positions[0]]);
});

test('A single slice without a thickness is refused', async () => {
  const file = await write([{ z: 5, segment: 1, values: where(1) }], { more: [measures()] });
  await expect(openVolume(file)).rejects.toThrow(
    new VolumeError('seg.dcm has a single slice and no thickness: convert it to NIfTI.'),
  );
});

test('The slices of a tilted segmentation lie on a slanted line', async () => {
  const frames = [0, 1, 3].map((k) => ({ z: 2 * k, x: 10 + k, segment: 1, values: where(k) }));
  const file = await write(frames);
  expect((await openVolume(file)).affine.map((row) => row.slice(2))).toEqual([
    [-1, -10],
    [0, -20],
    [2, 0],
  ]);
});
