import { describe, expect, test } from 'vitest';
import { dicomFile, type Element, element, type Slice } from '../../../test/support/dicom-files.js';
import { placesOf } from '../src/dicom-places.js';
import { VolumeError } from '../src/index.js';
import { parse } from './study.js';

const axial = [1, 0, 0, 0, 1, 0];
const slice: Slice = { pixels: new Int16Array(4), size: [2, 2] };
const format = (frames: number) => ({ name: 'f', rows: 2, columns: 3, frames }) as never;
const placesIn = (given: Partial<Slice>, frames: number) =>
  placesOf(parse(dicomFile({ ...slice, ...given })), format(frames));

describe('A file', () => {
  test('of one image says where it lies, with as many decimals as it has', () => {
    const more = [
      element(0x00200032, 'DS', '1.50\\-2\\1.25e-1'),
      element(0x00180050, 'DS', '3'),
      element(0x00180088, 'DS', '-4'),
    ];
    expect(placesIn({ more, spacing: [2, 1.5] }, 1)).toEqual([
      {
        ...{ name: 'f', size: [3, 2], position: [1.5, -2, 0.125], orientation: axial },
        ...{ pixelSpacing: [2, 1.5], thickness: 3, between: -4, decimals: [2, 0, 3] },
      },
    ]);
  });

  test('of a dose has its frames along the normal, by their offsets', () => {
    const more = [element(0x3004000c, 'DS', '5\\8\\9')];
    const all = placesIn({ more, position: [1, 2, 3], orientation: [0, 1, 0, 0, 0, 1] }, 3);
    expect(all.map(({ name, position, decimals }) => [name, position, decimals])).toEqual([
      ['frame 1 of f', [1, 2, 3], null],
      ['frame 2 of f', [4, 2, 3], null],
      ['frame 3 of f', [5, 2, 3], null],
    ]);
  });

  test('of several frames that says one position has none of the others', () => {
    expect(placesIn({ position: [1, 2, 3] }, 2).map(({ position }) => position)).toEqual([null, null]);
    const [offset] = placesIn({ position: [1, 2, 3], more: [element(0x3004000c, 'DS', '5')] }, 2);
    expect(offset?.position).toEqual([1, 2, 3]);
  });

  test('has for each frame its own group, or that of all', () => {
    const own = (z: number, ...more: Element[]) => ({ position: [0, 0, z], more });
    const measures = element(0x00289110, 'SQ', [[element(0x00180050, 'DS', '9')]]);
    const all = placesIn({ frames: [own(1), own(2, measures)], spacing: [2, 1.5] }, 2);
    expect(
      all.map(({ name, position, thickness, pixelSpacing, decimals }) => [
        name,
        position,
        thickness,
        pixelSpacing,
        decimals,
      ]),
    ).toEqual([
      ['frame 1 of f', [0, 0, 1], 1, [2, 1.5], [0, 0, 0]],
      ['frame 2 of f', [0, 0, 2], 9, null, [0, 0, 0]],
    ]);
    expect(() => placesIn({ frames: [own(1)] }, 2)).toThrow(
      new VolumeError(
        'f describes 1 of its 2 frames: it is cut short or damaged. Copy it again from the original.',
      ),
    );
  });

  const shorts = (tag: number, ...values: number[]) => element(tag, 'US', values);
  const detector = (x: number, ...more: Element[]) => [element(0x00200032, 'DS', `${x}\\0\\0`), ...more];
  const spect = (frames: number, ...more: Element[]) =>
    placesIn(
      {
        more: [
          element(0x00080008, 'CS', 'ORIGINAL\\PRIMARY\\RECON TOMO'),
          element(0x00180088, 'DS', '3'),
          ...more,
        ],
      },
      frames,
    );
  test('of nuclear medicine has its frames where their detector is, by their slice', () => {
    const turned = element(0x00200037, 'DS', '0\\1\\0\\0\\0\\1');
    const detectors = element(0x00540022, 'SQ', [detector(1), detector(100, turned)]);
    const of = (frames: number, ...more: Element[]) =>
      spect(frames, detectors, ...more).map(({ position, orientation, decimals }) => [
        position,
        orientation,
        decimals,
      ]);
    expect(of(3)).toEqual([0, 3, 6].map((z) => [[1, 0, z], axial, null]));
    expect(of(3, shorts(0x00540080, 2, 1, 2), shorts(0x00540020, 1, 2, 2))).toEqual([
      [[1, 0, 3], axial, null],
      [[100, 0, 0], [0, 1, 0, 0, 0, 1], null],
      [[103, 0, 0], [0, 1, 0, 0, 0, 1], null],
    ]);
    // A detector that is not there is taken for the first one.
    expect(of(2, shorts(0x00540020, 9, 1)).map(([position]) => position)).toEqual([
      [1, 0, 0],
      [1, 0, 3],
    ]);
    expect(() => of(3, shorts(0x00540080, 2, 1))).toThrow(
      new VolumeError(
        'f does not say of each frame which slice it is (slice vector): export it again, or convert it to NIfTI.',
      ),
    );
    expect(() => of(2, element(0x00180088, 'DS', '0'))).toThrow(
      new VolumeError(
        'f has no spacing between slices, so that nobody knows which way they run: export it again with it, or convert it to NIfTI.',
      ),
    );
    const planar = element(0x00080008, 'CS', 'ORIGINAL\\PRIMARY\\STATIC');
    expect(of(2, planar).map(([position]) => position)).toEqual([null, null]);
  });

  test('of nuclear medicine without a place has none', () => {
    const positions = (...detector: Element[]) =>
      spect(2, element(0x00540022, 'SQ', [detector])).map(({ position }) => position);
    expect(positions()).toEqual([null, null]);
    const short = element(0x00200037, 'DS', '1\\0\\0');
    expect(positions(element(0x00200032, 'DS', '1\\2\\3'), short)).toEqual([null, null]);
    // What a detector does not say, the file may.
    const [first] = spect(2, element(0x00540022, 'SQ', [[]]), element(0x00200032, 'DS', '1\\2\\3'));
    expect([first?.position, first?.decimals]).toEqual([[1, 2, 3], null]);
  });
});
