import { describe, expect, test } from 'vitest';
import { decodeFrame, type Frame, requireDecoder } from '../src/dicom-codecs.js';
import { VolumeError } from '../src/index.js';

const syntax = (last: string) => `1.2.840.10008.1.2.${last}`;
const rle = syntax('5');
const frame = (given: Partial<Frame> = {}): Frame => ({
  ...{
    name: 'f',
    syntax: rle,
    rows: 1,
    columns: 4,
    samples: 1,
    bitsAllocated: 8,
    photometric: 'MONOCHROME2',
  },
  ...given,
});
/** RLE of segments that are packed already. */
function segments(...packed: readonly (readonly number[])[]): Buffer {
  const head = Buffer.alloc(64);
  head.writeUInt32LE(packed.length, 0);
  let at = 64;
  for (const [index, each] of packed.entries()) {
    head.writeUInt32LE(at, 4 + 4 * index);
    at += each.length;
  }
  return Buffer.concat([head, Buffer.from(packed.flat())]);
}
const damaged = new VolumeError('The compressed pixels of f are damaged: copy it again from the original.');
const unreadable = (compression: string) =>
  new VolumeError(
    `The pixels of f are compressed in a way that cannot be read here (${compression}): decompress it, for example with gdcmconv --raw.`,
  );

const bytesOf = (hex: string) => Buffer.from(hex, 'hex');

/** Four values of 12 bits as JPEG-LS. */
const grey = 'ffd8fff7000b0c0002000201011100ffda0008010100000000a0002c50ffd9';

describe('RLE', () => {
  test.each<[string, Partial<Frame>, readonly number[][], object]>([
    ['literal values', {}, [[3, 1, 2, 3, 4]], Uint8Array.of(1, 2, 3, 4)],
    ['runs, and bytes without a meaning', {}, [[128, 254, 7, 128, 0, 9]], Uint8Array.of(7, 7, 7, 9)],
    ['no more values than there is room for', {}, [[253, 7, 253, 8]], Uint8Array.of(7, 7, 7, 7)],
    ['the longest run', { columns: 128 }, [[129, 7]], new Uint8Array(128).fill(7)],
    [
      'the high bytes before the low ones',
      { bitsAllocated: 16, columns: 2 },
      [
        [1, 1, 2],
        [1, 3, 4],
      ],
      Uint16Array.of(0x103, 0x204),
    ],
    [
      'four bytes',
      { bitsAllocated: 32, columns: 1 },
      [
        [0, 1],
        [0, 2],
        [0, 3],
        [0, 4],
      ],
      Uint32Array.of(0x1020304),
    ],
    [
      'colours sample by sample',
      { samples: 3, columns: 2 },
      [
        [1, 1, 2],
        [1, 3, 4],
        [1, 5, 6],
      ],
      Uint8Array.of(1, 3, 5, 2, 4, 6),
    ],
  ])('RLE decodes %s', async (_, given, packed, data) => {
    const of = frame(given);
    expect(await decodeFrame(segments(...packed), of)).toEqual({ data, bits: of.bitsAllocated });
  });

  test.each<[string, Buffer]>([
    ['fewer values', segments([2, 1, 2, 3])],
    ['values that are cut', segments([3, 1, 2, 3])],
    ['another number of segments', segments([3, 1, 2, 3, 4], [3, 1, 2, 3, 4])],
    ['no whole head', Buffer.alloc(63)],
    ['nothing', Buffer.alloc(0)],
  ])('RLE with %s is refused as damaged', async (_, bytes) => {
    await expect(decodeFrame(bytes, frame())).rejects.toThrow(damaged);
  });

  test('RLE is refused as damaged if its bytes do not give the expected number of values', async () => {
    const bytes = segments([129, 7]);
    await expect(decodeFrame(bytes, frame({ columns: 66 * 64 + 1 }))).rejects.toThrow(damaged);
  });
});

describe('JPEG-LS', () => {
  const colour = frame({ syntax: syntax('4.80'), rows: 2, columns: 2, samples: 3, photometric: 'RGB' });
  // Red, green and blue of four pixels, as CharLS writes them: plane by plane, line by line, pixel by pixel.
  const start = 'ffd8fff70011080002000203011100021100031100ff';
  const ways = {
    planes: `${start}da0008010100000000070e004040ffda0008010200000000000001620e004040ffda0008010300000000000001b20e004040ffd9`,
    lines: `${start}da000c03010002000300000100070e000b0e066480101000851620ffd9`,
    pixels: `${start}da000c030100020003000002000200060340e1c90020010b021440ffd9`,
  };
  test.each(Object.entries(ways))('JPEG-LS stored by %s is returned pixel by pixel', async (_, hex) => {
    expect(await decodeFrame(bytesOf(hex), colour)).toEqual({
      data: Uint8Array.of(10, 50, 90, 20, 60, 100, 30, 70, 110, 40, 80, 120),
      bits: 8,
    });
  });

  test('12-bit JPEG-LS is returned as 16-bit values', async () => {
    const of = { ...colour, samples: 1 as const, syntax: syntax('4.81') };
    expect(await decodeFrame(bytesOf(grey), of)).toEqual({ data: Uint16Array.of(0, 4095, 300, 7), bits: 12 });
    // Whatever stands before the frame, and fill bytes.
    const more = bytesOf(grey.replace('ffd8', 'ffd8fffe0004abcdff'));
    expect((await decodeFrame(more, of)).bits).toBe(12);
  });

  test.each<[string, string, Partial<Frame>]>([
    ['with other rows', grey, { rows: 3 }],
    ['with other columns', grey, { columns: 3 }],
    ['with other samples', grey, { samples: 3 }],
    ['that does not begin as one', grey.slice(4), {}],
    ['that is cut', grey.slice(0, -12), {}],
    ['that is cut in its last values', grey.slice(0, -8), {}],
    ['without a frame', grey.replace('fff7', 'fff0'), {}],
    ['without bytes', '', {}],
    ['with invalid bits', grey.replace('0000a0002c50', 'ffffffffffff'), {}],
  ])(
    'JPEG-LS %s is refused as damaged',
    async (_, hex, given) => {
      const of: Frame = { ...colour, samples: 1, ...given };
      await expect(decodeFrame(bytesOf(hex), of)).rejects.toThrow(damaged);
      expect((await decodeFrame(bytesOf(grey), { ...colour, samples: 1 })).bits).toBe(12);
    },
    // Half a minute is what the decoder itself needs for one of these.
    20_000,
  );

  test('JPEG-LS with the transfer syntax of another compression is refused', async () => {
    const of = (last: string) => decodeFrame(bytesOf(grey), { ...colour, samples: 1, syntax: syntax(last) });
    await expect(of('4.70')).rejects.toThrow(damaged);
    await expect(of('4.50')).rejects.toThrow(unreadable('JPEG of 12 bits'));
    await expect(of('4.90')).rejects.toThrow(damaged);
    // Lossless JPEG under the name of the usual one.
    const lossless = bytesOf('ffd8ffc3000b080001000401011100ffd9');
    await expect(decodeFrame(lossless, frame({ syntax: syntax('4.50') }))).rejects.toThrow(
      unreadable('JPEG of 8 bits'),
    );
  });
});

describe('JPEG 2000', () => {
  /** A beginning that says a size, and where the image lies in it. */
  const started = (right: number, bottom: number, left: number, top: number, samples: number) => {
    const bytes = Buffer.alloc(60);
    bytes.writeUInt32BE(0xff4f_ff51, 4);
    for (const [at, value] of [right, bottom, left, top].entries()) bytes.writeUInt32BE(value, 12 + 4 * at);
    bytes.writeUInt16BE(samples, 44);
    return bytes;
  };
  // Losslessly, as OpenJPEG writes four values.
  const stream =
    'ff4fff51002900000000000400000001000000000000000000000004000000010000000000000000000107' +
    '0101ff52000c00000001000004040001ff5c00044040ff90000a0000000000160001ff93cfb41409081e7627ffd9';
  const boxes =
    '0000000c6a5020200d0a870a00000014667479706a703220000000006a7032200000002d6a703268' +
    '000000166968647200000001000000040001070700000000000f636f6c72010000000000110000005f6a703263';
  test.each([
    ['by itself', stream],
    ['in a JP2 file', boxes + stream],
  ])('JPEG 2000 %s is read', async (_, hex) => {
    expect(await decodeFrame(bytesOf(hex), frame({ syntax: syntax('4.90') }))).toEqual({
      data: Uint8Array.of(10, 20, 30, 40),
      bits: 8,
      isRgb: true,
    });
  });

  test('High-throughput JPEG 2000 (HTJ2K) is read as OpenJPH writes it', async () => {
    const bytes = bytesOf(
      'ff4fff5100294000000000100000000c0000000000000000000000100000000c000000000000000000010b0101ff500008000200000006' +
        'ff52000c00020001000504044001ff5c00132068707070707070707070707070686868ff64001700014f70656e4a504820566572' +
        '20302e33312e302eff90000a0000000000bf0001ff93c00250ab0187740000c00134001340012896fe0207740012f803077400fb' +
        '00477400c001340015100046380801827400f2d13dfe00e23400113300c001530005ab000548649efda0088c215600feed5fff7e' +
        '800fcddccc6636f1007ee64200cf58007ffcfba0108ca25600c002d08005d3400270088244b5874448f0e780288470827800ff7f' +
        'ff7fff7fff7fff7fefbfff75494f7ad2939ef4a4273df9e84b2cae98c04bf66301ecbd00feeff980c23500ffd9',
    );
    const of = frame({ syntax: syntax('4.201'), rows: 12, columns: 16, bitsAllocated: 16 });
    const values = Uint16Array.from({ length: 16 * 12 }, (_, at) => (at * 37) % 4096);
    expect(await decodeFrame(bytes, of)).toEqual({ data: values, bits: 12, isRgb: true });
  });

  test.each([
    ['with other columns', started(5, 1, 0, 0, 1)],
    ['with other rows', started(4, 2, 0, 0, 1)],
    ['with other samples', started(4, 1, 0, 0, 3)],
    ['that is cut', started(4, 1, 0, 0, 1).subarray(0, 45)],
    ['with nothing behind its size', started(5, 2, 1, 1, 1)],
    ['without bytes', Buffer.alloc(0)],
  ])('JPEG 2000 %s is refused as damaged', async (_, bytes) => {
    await expect(decodeFrame(bytes, frame({ syntax: syntax('4.90') }))).rejects.toThrow(damaged);
  });
});

test.each([
  [syntax('4.100'), 'MPEG'],
  [syntax('4.110'), 'JPEG XL'],
  [syntax('4.204'), 'HTJ2K as a stream (JPIP)'],
  [syntax('4.92'), 'JPEG 2000 part 2, JPIP'],
  [syntax('4.53'), `transfer syntax ${syntax('4.53')}`],
])('The unsupported transfer syntax %s is refused by name', (unknown, name) => {
  expect(() => requireDecoder('f', unknown)).toThrow(unreadable(name));
});
