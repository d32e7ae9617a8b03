import { describe, expect, test } from 'vitest';
import type { ByteSource } from '../src/dicom-elements.js';
import { readPixels } from '../src/dicom-pixels.js';
import { type DicomElement, explicitLittleEndian } from '../src/dicom-write.js';
import { VolumeError } from '../src/index.js';
import { bigEndian, bits, type Changes, colours, formatOf, type Given, size } from './image-elements.js';

/** Bytes in memory, each piece in memory of its own. */
const sourceOf = (bytes: Uint8Array): ByteSource => ({
  size: bytes.length,
  read: async (offset, length) => Buffer.from(bytes.slice(offset, offset + length).buffer),
  close: async () => {},
});
const little = (bytes: Uint16Array | Int16Array | Uint32Array | Float32Array | Float64Array) =>
  new Uint8Array(bytes.buffer);
const valuesIn = (bytes: Uint8Array, changes: Changes, frame = 0, given: Given = {}) =>
  readPixels(sourceOf(bytes), formatOf(changes, given), frame);

describe('The pixels of a frame', () => {
  test('of single bits may begin within a byte', async () => {
    const changes = { ...size(3, 1, 6), ...bits(1) };
    const frames = [0b101, 0b011, 0b110, 0b111, 0b000, 0b001];
    const all = frames.reduce((sum, frame, at) => sum | (frame << (3 * at)), 0);
    const bytes = Uint8Array.of(all & 255, (all >> 8) & 255, (all >> 16) & 255);
    for (const [at, frame] of frames.entries())
      expect(await valuesIn(bytes, changes, at)).toEqual(
        Uint8Array.of(frame & 1, (frame >> 1) & 1, frame >> 2),
      );
  });

  test.each<[Changes, number, readonly number[]]>([
    [bits(16, 4, 3, 1), 0xf7f8, [-8]],
    [bits(16, 4, 3, 0), 0xf7f8, [8]],
    [bits(16, 4, 7, 1), 0xf7f8, [-1]],
    [bits(16, 4, 7, 0), 0xf7f8, [15]],
    [bits(16, 12, 15, 1), 0xf7f8, [-129]],
    [bits(16, 16, 15, 1), 0xf7f8, [-2056]],
  ])('have the bits that are theirs, and their sign: %j', async (changes, stored, values) => {
    expect([...(await valuesIn(little(Uint16Array.of(stored)), { ...changes, ...size(1, 1) }))]).toEqual(
      values,
    );
  });

  test('of 32 bits have no others', async () => {
    const bytes = little(Uint32Array.of(0xffff_fffe, 0x0700_0001));
    const of = async (changes: Changes) => [...(await valuesIn(bytes, { ...changes, ...size(2, 1) }))];
    expect(await of(bits(32))).toEqual([0xffff_fffe, 0x0700_0001]);
    expect(await of(bits(32, 32, 31, 1))).toEqual([-2, 0x0700_0001]);
    expect(await of(bits(32, 24, 23, 1))).toEqual([-2, 1]);
    expect(await of(bits(32, 24, 23, 0))).toEqual([0xff_fffe, 1]);
  });

  test('of 8 bits in big-endian words change places in pairs, from frame to frame', async () => {
    const changes = { ...size(3, 1, 2), ...bits(8) };
    const bytes = Uint8Array.of(2, 1, 4, 3, 6, 5);
    const of = async (frame: number, vr: string, syntax: string) => [
      ...(await valuesIn(bytes, changes, frame, { syntax, pixels: { vr } })),
    ];
    expect([await of(0, 'OW', bigEndian), await of(1, 'OW', bigEndian)]).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    expect([await of(0, 'OB', bigEndian), await of(1, 'OB', bigEndian)]).toEqual([
      [2, 1, 4],
      [3, 6, 5],
    ]);
    expect(await of(1, 'OW', explicitLittleEndian)).toEqual([3, 6, 5]);
  });

  test('begin where the element does, and are all there', async () => {
    const bytes = little(Uint16Array.of(9, 1, 2, 3, 4));
    const changes = { ...size(2, 1, 2), ...bits(16) };
    const pixels = { offset: 2, length: 8 };
    expect([...(await valuesIn(bytes, changes, 1, { pixels }))]).toEqual([3, 4]);
    await expect(valuesIn(bytes.subarray(0, 9), changes, 1, { pixels })).rejects.toThrow(
      new VolumeError('f is cut short or damaged: copy it again from the original.'),
    );
  });

  test('of floating point are read in either order of bytes', async () => {
    const values = Float64Array.of(1.5, -2e300);
    const changes: Changes = {
      ...size(2, 1),
      ...bits(64),
      '7fe00009': ['7fe00009', 'OD', new Uint8Array(16)],
    };
    expect(await valuesIn(little(values), changes)).toEqual(values);
    const swapped = new Uint8Array(Buffer.from(little(values.slice())).swap64());
    expect(await valuesIn(swapped, changes, 0, { syntax: bigEndian })).toEqual(values);
  });

  test('in YBR become RGB within its bounds', async () => {
    const changes = { ...colours('YBR_FULL'), ...bits(8), ...size(2, 1) };
    expect([...(await valuesIn(Uint8Array.of(255, 255, 255, 0, 0, 0), changes))]).toEqual([
      255, 121, 255, 0, 135, 0,
    ]);
    expect([...(await valuesIn(Uint8Array.of(100, 128, 200, 100, 90, 128), changes))]).toEqual([
      201, 49, 100, 100, 113, 33,
    ]);
    const pairs = { ...changes, ...colours('YBR_FULL_422'), ...size(2, 1, 2) };
    expect([...(await valuesIn(Uint8Array.of(9, 9, 9, 9, 100, 10, 128, 200), pairs, 1))]).toEqual([
      201, 49, 100, 111, 0, 10,
    ]);
  });

  const table = (
    colour: number,
    count: number,
    first: number,
    depth: number,
    data: Uint8Array,
  ): DicomElement[] => [
    [`0028110${colour}`, 'US', [count, first & 0xffff, depth]],
    [`0028120${colour}`, 'OW', data],
  ];
  const palette = (
    count: number,
    first: number,
    depth: number,
    dataOf: (colour: number) => Uint8Array,
  ): Changes => ({
    ...colours('PALETTE COLOR', 0, 1),
    ...Object.fromEntries(
      [1, 2, 3]
        .flatMap((each) => table(each, count, first, depth, dataOf(each)))
        .map((each) => [each[0], each]),
    ),
  });
  test.each<[string, number, (colour: number) => Uint8Array]>([
    [
      '16 bits',
      16,
      (colour) => little(Uint16Array.of(colour << 8, (colour + 10) << 8, ((colour + 20) << 8) | 255)),
    ],
    ['8 bits in words', 8, (colour) => little(Uint16Array.of(colour, colour + 10, colour + 20))],
    ['8 bits', 8, (colour) => Uint8Array.of(colour, colour + 10, colour + 20)],
  ])(
    'of a palette of %s have its colours, of which the first and the last are for all beyond',
    async (_, depth, dataOf) => {
      const changes = { ...size(5, 1), ...bits(16, 16, 15, 1), ...palette(3, -1, depth, dataOf) };
      expect([...(await valuesIn(little(Int16Array.of(-9, -1, 0, 1, 9)), changes))]).toEqual([
        ...[1, 2, 3, 1, 2, 3, 11, 12, 13, 21, 22, 23, 21, 22, 23],
      ]);
      expect(formatOf(changes).components).toBe(3);
    },
  );

  test('of a palette of 65,536 colours, whose number is written as 0', () => {
    const { palette: found } = formatOf({
      ...bits(16),
      ...palette(0, 0, 16, () => new Uint8Array(0x2_0000)),
    });
    expect([found?.first, found?.colours.length]).toEqual([0, 3 * 0x1_0000]);
    expect(() => formatOf({ ...bits(16), ...palette(0, 0, 16, () => new Uint8Array(0xfffe)) })).toThrow(
      'no complete palette',
    );
  });
});
