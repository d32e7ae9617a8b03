import { describe, expect, test } from 'vitest';
import { arrayFor } from '../src/dicom-pixels.js';
import { explicitLittleEndian } from '../src/dicom-write.js';
import { VolumeError } from '../src/index.js';
import {
  bigEndian,
  bits,
  type Changes,
  colours,
  formatOf,
  type Given,
  size,
  uncompressed,
} from './image-elements.js';

describe('How pixels are stored', () => {
  test('is said by the elements of a file', () => {
    expect(formatOf({})).toEqual({
      ...{ name: 'f', syntax: explicitLittleEndian, rows: 2, columns: 3, frames: 1, samples: 1 },
      ...{ components: 1, photometric: 'MONOCHROME2', isPlanar: false, bitsAllocated: 16, bitsStored: 16 },
      ...{ highBit: 15, isSigned: true, isFloat: false, isBigEndian: false, palette: null },
      data: uncompressed,
    });
    expect(formatOf(size(3, 2, 4), { syntax: bigEndian })).toMatchObject({ frames: 4, isBigEndian: true });
  });

  test.each<[Changes, object]>([
    [
      { '00280002': null, '00280004': null },
      { samples: 1, photometric: 'MONOCHROME2' },
    ],
    [
      { ...colours(null), ...bits(8) },
      { samples: 3, components: 3, photometric: 'RGB', isPlanar: false },
    ],
    [
      { ...colours('RGB', 1), ...bits(8, 8, 7, 1) },
      { isPlanar: true, isSigned: false },
    ],
    [{ '00280006': ['00280006', 'US', 1] }, { isPlanar: false }],
    [
      { '00280101': null, '00280102': null },
      { bitsStored: 16, highBit: 15 },
    ],
    [bits(16, 12, 11), { bitsStored: 12, highBit: 11, isSigned: false }],
    [
      { ...bits(16, 12), '00280102': null },
      { bitsStored: 12, highBit: 11 },
    ],
    [bits(16, 12, 15), { bitsStored: 12, highBit: 15 }],
    // What makes no sense is not taken into account.
    [bits(16, 12, 10), { bitsStored: 16, highBit: 15 }],
    [bits(16, 12, 16), { bitsStored: 16, highBit: 15 }],
    [bits(16, 0, 15), { bitsStored: 16, highBit: 15 }],
    [bits(1, 1, 0, 1), { bitsAllocated: 1, isSigned: false }],
    [{ ...bits(32), '7fe00008': ['7fe00008', 'OF', new Uint8Array(4)] }, { isFloat: true }],
    [{ ...bits(64), '7fe00009': ['7fe00009', 'OD', new Uint8Array(8)] }, { isFloat: true }],
  ])('is what is usual where they say nothing, or nothing that is possible: %j', (changes, found) => {
    expect(formatOf(changes)).toMatchObject(found);
  });

  const noImage = 'f holds no image or is cut short: take it out, or copy it again from the original.';
  const unreadable = (what: string) => `f has ${what}, which cannot be read here: convert it to NIfTI.`;
  test.each<[string, Changes, Given, string]>([
    ['no pixels', {}, { pixels: null }, noImage],
    ['no rows', size(3, 0), {}, noImage],
    ['no bits', { '00280100': null }, {}, noImage],
    ['no frames', size(3, 2, 0), {}, noImage],
    [
      'fewer parts than frames',
      size(3, 2, 2),
      { pixels: { fragments: [{ start: 0, offset: 0, length: 9 }] } },
      noImage,
    ],
    [
      'half a frame',
      { '00280008': ['00280008', 'IS', '1.5'] },
      {},
      'f says that it has 1.5 frames, more than are read: it is damaged.',
    ],
    [
      'too many frames',
      { ...size(1, 1, 100_001), ...bits(1) },
      { pixels: { length: 100_001 } },
      'f says that it has 100001 frames, more than are read: it is damaged.',
    ],
    ['two values', colours('RGB', 0, 2), {}, unreadable('2 values in a pixel (RGB)')],
    ['unknown colours', { ...colours('HSV'), ...bits(8) }, {}, unreadable('3 values in a pixel (HSV)')],
    ['bits of no type', bits(12), {}, unreadable('12 bits in a value')],
    ['integers of 64 bits', bits(64), {}, unreadable('64 bits in a value')],
    ['YBR of 16 bits', colours('YBR_FULL'), {}, unreadable('colours (YBR_FULL) of 16 bits')],
    ['YBR in pairs of 16 bits', colours('YBR_FULL_422'), {}, unreadable('colours (YBR_FULL_422) of 16 bits')],
    ['colours of one bit', { ...colours('RGB'), ...bits(1) }, {}, unreadable('colours of one bit')],
    [
      'a palette of one bit',
      { ...colours('PALETTE COLOR', 0, 1), ...bits(1) },
      {},
      unreadable('colours of one bit'),
    ],
    [
      'compressed pixels of a plain syntax',
      {},
      { pixels: { fragments: [{ start: 0, offset: 0, length: 9 }] } },
      unreadable('compressed pixels that do not say how they are compressed'),
    ],
    [
      'too few bytes',
      size(3, 2, 2),
      { pixels: { length: 23 } },
      'f is cut short: its header says 24 bytes of pixels, and it has 23. Copy it again from the original.',
    ],
    [
      'too many values',
      { ...size(11_586, 11_586), ...bits(8) },
      { pixels: { length: 2 ** 28 } },
      'f has 11586 x 11586 pixels of 8 bits in a frame, more than are read at once: reduce it.',
    ],
    [
      'too many values in colours',
      { ...size(6_700, 6_700), ...bits(8), ...colours('RGB') },
      { pixels: { length: 2 ** 28 } },
      'f has 6700 x 6700 pixels of 8 bits in a frame, more than are read at once: reduce it.',
    ],
    [
      'too many bytes',
      { ...size(10_000, 10_000), ...bits(64) },
      { pixels: { length: 2 ** 30 } },
      'f has 10000 x 10000 pixels of 64 bits in a frame, more than are read at once: reduce it.',
    ],
    [
      'no palette',
      { ...colours('PALETTE COLOR', 0, 1), ...bits(8) },
      {},
      'f has no complete palette: convert it to RGB.',
    ],
  ])('is refused with %s', (_, changes, given, sentence) => {
    expect(() => formatOf(changes, given)).toThrow(new VolumeError(sentence));
  });

  test.each<[string, Changes, Given]>([
    ['as many bytes as are needed', size(3, 2, 2), { pixels: { length: 24 } }],
    [
      'two pixels that share their colour',
      { ...colours('YBR_FULL_422'), ...bits(8), ...size(2, 2) },
      { pixels: { length: 8 } },
    ],
    [
      'a map of labels of one bit that has a palette',
      { ...colours('PALETTE COLOR', 0, 1), ...bits(1) },
      { isIndexed: true },
    ],
    ['as many frames as are read', { ...size(1, 1, 100_000), ...bits(1) }, { pixels: { length: 12_500 } }],
    ['RGB of 16 bits', colours('RGB'), {}],
  ])('is not refused with %s', (_, changes, given) => {
    expect(formatOf(changes, given).palette).toBeNull();
  });

  test.each<[Changes, object]>([
    [bits(1), Uint8Array],
    [bits(8), Uint8Array],
    [bits(8, 8, 7, 1), Int8Array],
    [bits(16), Uint16Array],
    [bits(16, 16, 15, 1), Int16Array],
    [bits(32), Uint32Array],
    [bits(32, 32, 31, 1), Int32Array],
    [{ ...bits(32), '7fe00008': ['7fe00008', 'OF', new Uint8Array(4)] }, Float32Array],
    [{ ...bits(64), '7fe00009': ['7fe00009', 'OD', new Uint8Array(8)] }, Float64Array],
  ])('is the type of their values: %j', (changes, type) => {
    const values = arrayFor(formatOf(changes), 3);
    expect([values.constructor, values.length]).toEqual([type, 3]);
  });
});
