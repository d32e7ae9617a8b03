import { describe, expect, test } from 'vitest';
import { beginsAsFreeSurfer, freeSurferStart } from '../../../src/imaging/deidentify/free-surfer.js';
import { metaImageStart } from '../../../src/imaging/deidentify/meta-image.js';
import { niftiStart } from '../../../src/imaging/deidentify/nifti.js';
import { nrrdStart } from '../../../src/imaging/deidentify/nrrd.js';
import type { VolumeStart } from '../../../src/imaging/deidentify/volume-start.js';
import * as canary from '../../support/canary-volumes.js';

/** All of a start but its functions. */
const factsOf = ({ encode: _encode, behind: _behind, ...facts }: VolumeStart) => facts;

describe('a header of NIfTI', () => {
  /** The ranges of a header in which all bytes were filled and stay, first and last. */
  const filledIn = (bytes: Buffer): number[][] => {
    const ranges: number[][] = [];
    for (const [at, byte] of bytes.entries()) {
      if (byte !== 0xab) continue;
      const last = ranges.at(-1);
      if (last?.[1] === at - 1) last[1] = at;
      else ranges.push([at, at]);
    }
    return ranges;
  };

  /** A header full of bytes, but for what tells how it is to be read. */
  function filled(second: boolean, end = second ? 540 : 348): Buffer {
    const bytes = Buffer.alloc(end + 4, 0xab);
    const given = canary.niftiHeader('', { second });
    const needed = second
      ? [
          [0, 10],
          [12, 16],
          [16, 80],
          [168, 176],
        ]
      : [
          [0, 4],
          [40, 56],
          [70, 74],
          [108, 112],
          [344, 348],
        ];
    for (const [from = 0, to = 0] of needed) given.copy(bytes, from, from, to);
    return bytes;
  }

  test('A header of NIfTI keeps the bytes of its numbers, and none of the others', () => {
    const first = niftiStart('a.nii', filled(false));
    expect(filledIn(first.encode([], null))).toEqual([
      ...[
        [39, 39],
        [56, 69],
        [74, 107],
        [112, 139],
        [252, 327],
      ],
    ]);
    expect(first.encode([], null).toString('latin1', 38, 39)).toBe('r');
    const second = niftiStart('a.nii', filled(true));
    expect(filledIn(second.encode([], null))).toEqual([
      ...[
        [10, 11],
        [80, 167],
        [176, 239],
        [344, 507],
        [524, 524],
      ],
    ]);
    const texts = ['descrip', 'aux_file', 'intent_name'];
    expect([first.removed, second.removed]).toEqual([
      ['data_type', 'db_name', 'extents, session_error', 'glmax, glmin', ...texts, 'extensions'],
      [...texts, 'unused_str', 'extensions'],
    ]);
    expect([first.encode([], null).length, second.encode([], null).length]).toEqual([352, 544]);
  });

  test.each([
    [{}, 352],
    [{ isBig: true }, 352],
    [{ second: true }, 544],
    [{ second: true, isBig: true }, 544],
    [{ isPair: true }, 0],
  ])('A header of NIfTI says where its voxels are now: %j', (parts, offset) => {
    const start = canary.niftiHeader('x', parts);
    const { second = false, isBig = false, isPair = false } = parts as Record<string, boolean>;
    const { encode, ...facts } = niftiStart('a.nii', start);
    const bytes = encode([], null);
    const said = second
      ? Number(isBig ? bytes.readBigInt64BE(168) : bytes.readBigInt64LE(168))
      : isBig
        ? bytes.readFloatBE(108)
        : bytes.readFloatLE(108);
    expect(said).toBe(offset);
    const length = second ? 540 : 348;
    expect(facts).toMatchObject({
      ...{ isPair, dataFiles: isPair ? [] : null, from: 0, voxels: 48, packing: null },
      before: isPair ? 0 : length + 64,
    });
    expect(bytes.subarray(length)).toEqual(Buffer.alloc(4));
    const magic = bytes.toString('latin1', ...((second ? [4, 12] : [344, 348]) as [number, number]));
    expect(magic).toBe(second ? 'n+2\0\r\n\u001a\n' : `n${isPair ? 'i' : '+'}1\0`);
  });

  test('A header of NIfTI has extensions only where it says so', () => {
    const start = canary.niftiHeader('', {}).subarray(0, 352);
    start[348] = 0;
    expect(niftiStart('a.nii', start).removed).toEqual([]);
    expect(niftiStart('a.nii', start.subarray(0, 348)).removed).toEqual([]);
    start[348] = 1;
    expect(niftiStart('a.nii', start).removed).toEqual(['extensions']);
  });

  test('A header of NIfTI is refused with the reason where it is not understood', () => {
    const start = canary.niftiHeader('', {});
    expect(() => niftiStart('a.nii', start.subarray(0, 347))).toThrow('its header is cut short. Give');
    const sizeless = Buffer.from(start);
    sizeless.fill(0, 40, 56);
    expect(() => niftiStart('a.nii', sizeless)).toThrow('its header has no sizes. Give');
    const analyze = Buffer.from(start);
    analyze.fill(0, 344, 348);
    expect(() => niftiStart('a.nii', analyze)).toThrow('its header is one of ANALYZE 7.5. Give');
  });
});

describe('a header of MGH', () => {
  const header = (change: (bytes: Buffer) => void = () => {}): Buffer => {
    const bytes = canary.freeSurfer('').subarray(0, 284);
    bytes.fill(0, 90);
    change(bytes);
    return bytes;
  };

  test.each<[string, Buffer, boolean]>([
    ['as it is', header(), true],
    ['of version 2', header((bytes) => bytes.writeInt32BE(2, 0)), false],
    ...[4, 8, 12].flatMap((at): [string, Buffer, boolean][] => [
      [`with nothing at ${at}`, header((bytes) => bytes.writeUInt32BE(0, at)), false],
      [`with the most at ${at}`, header((bytes) => bytes.writeUInt32BE(0xffff, at)), true],
      [`with too much at ${at}`, header((bytes) => bytes.writeUInt32BE(0x1_0000, at)), false],
    ]),
    ['of an unknown type', header((bytes) => bytes.writeInt32BE(2, 20)), false],
    ['that is cut short', header().subarray(0, 283), false],
  ])('A header of MGH is known %s: %#', (_, bytes, isKnown) => {
    expect(beginsAsFreeSurfer(bytes)).toBe(isKnown);
  });

  test.each([
    [0, 24],
    [1, 96],
    [3, 96],
    [4, 48],
    [10, 48],
  ])('A header of MGH of type %i has %i bytes of voxels', (type, voxels) => {
    const start = header((bytes) => bytes.writeInt32BE(type, 20));
    const { encode, ...facts } = freeSurferStart('a.mgh', start);
    expect(factsOf({ encode, ...facts })).toEqual({
      ...{ kept: ['sizes', 'type', 'geometry', 'acquisition parameters'], removed: [], dataFiles: null },
      ...{ isPair: false, from: 0, before: 284, voxels, packing: null },
    });
    expect(encode([], null)).toEqual(start);
  });

  test('A header of MGH keeps its first 90 bytes, and says that others were filled', () => {
    const full = header((bytes) => bytes.fill(1, 90));
    const { removed, encode } = freeSurferStart('a.mgh', full);
    expect([removed, encode([], null)]).toEqual([['unused bytes of the header'], header()]);
    const last = header((bytes) => bytes.writeUInt8(1, 283));
    expect(freeSurferStart('a.mgh', last).removed).toHaveLength(1);
    const frameless = header((bytes) => bytes.writeInt32BE(0, 16));
    expect(() => freeSurferStart('a.mgh', frameless)).toThrow('its header has no sizes. Give');
  });

  test('A header of MGH keeps acquisition parameters as numbers of the usual size, rounded', () => {
    const { behind } = freeSurferStart('a.mgh', header());
    const numbers = (...values: number[]) => {
      const bytes = Buffer.alloc(4 * values.length);
      for (const [at, value] of values.entries()) bytes.writeFloatBE(value, 4 * at);
      const left = behind?.encode(bytes) ?? Buffer.alloc(0);
      return values.map((_, at) => Number(left.readFloatBE(4 * at).toPrecision(7)));
    };
    expect(behind?.bytes).toBe(20);
    expect(numbers(2300.00049, 0.1234567, 2.9804, 900, 256)).toEqual([2300, 0.123457, 2.98, 900, 256]);
    expect(numbers(1e6, 7, -1, 999_999, 0)).toEqual([0, 0, 0, 999_999, 0]);
    expect(numbers(Number.NaN, 6.9)).toEqual([0, 6.9]);
    expect(behind?.encode(Buffer.alloc(11, 1))).toHaveLength(8);
  });
});

describe('a header of MetaImage', () => {
  const good = {
    ...{ ObjectType: 'Image', NDims: '3', BinaryData: 'True', BinaryDataByteOrderMSB: 'False' },
    ...{
      ElementByteOrderMSB: 'False',
      TransformMatrix: '1 0 0 0 1 0 0 0 1',
      Rotation: '1 0',
      Orientation: '1',
    },
    ...{ Offset: '1 2 3', Position: '1 2 3', Origin: '1 2 3', CenterOfRotation: '0 0 0' },
    ...{ AnatomicalOrientation: 'RAI', DistanceUnits: 'mm', ElementSpacing: '2 2 3', ElementSize: '1 1 1' },
    ...{ DimSize: '4 3 2', Modality: 'MET_MOD_CT', SequenceID: '1 2', ElementMin: '-7', ElementMax: '16' },
    ...{ ElementToIntensityFunctionSlope: '1', ElementToIntensityFunctionOffset: '0' },
    ...{ ElementNumberOfChannels: '1', ElementType: 'MET_SHORT' },
  };
  const textOf = (fields: object, data = 'LOCAL') =>
    `${Object.entries(fields)
      .map(([key, value]) => `${key} = ${value}\n`)
      .join('')}ElementDataFile = ${data}\n`;

  test('A header of MetaImage keeps each of its keys that is of the usual kind', () => {
    const { encode, ...facts } = metaImageStart('a.mha', Buffer.from(textOf(good)));
    expect(encode([], null).toString()).toBe(textOf(good));
    expect(facts).toEqual({
      ...{ kept: Object.keys(good), removed: [], dataFiles: null, isPair: false },
      ...{ from: textOf(good).length, before: 0, voxels: 48, packing: null },
    });
    expect(encode(['a.raw'], null).toString()).toBe(textOf(good, 'a.raw'));
    expect(encode(['a.raw', 'b.raw'], 7).toString()).toBe(
      `${textOf({ ...good, CompressedDataSize: '7' }, 'LIST')}a.raw\nb.raw\n`,
    );
  });

  test.each([
    ['ObjectType', 'Ada'],
    ['ElementMin', 'Ada'],
    ['AnatomicalOrientation', 'ADA'],
    ['AnatomicalOrientation', 'RAIRA'],
    ['DistanceUnits', 'miles'],
    ['Modality', 'MET_MOD_ADA'],
    ['SequenceID', 'A1'],
    ['Comment', '1'],
    ['toString', '1'],
  ])('A header of MetaImage loses %s of %s', (key, value) => {
    const { encode, kept, removed } = metaImageStart('a.mha', Buffer.from(textOf({ ...good, [key]: value })));
    const { [key as 'Offset']: _lost, ...left } = good;
    expect([encode([], null).toString(), kept, removed]).toEqual([textOf(left), Object.keys(left), [key]]);
  });

  test('A header of MetaImage says of packed voxels how many bytes they are, and is refused where it is not understood', () => {
    const packed = textOf({ ...good, HeaderSize: '0', CompressedData: 'True', CompressedDataSize: '40' });
    const { encode, removed, packing } = metaImageStart('a.mha', Buffer.from(packed));
    expect([removed, packing]).toEqual([[], 'zlib']);
    const left = { ...good, CompressedData: 'True', CompressedDataSize: '99' };
    expect(encode([], 99).toString()).toBe(textOf(left));
    const refused = (fields: object) => () => metaImageStart('a.mha', Buffer.from(textOf(fields)));
    expect(refused({ ...good, BinaryData: 'False' })).toThrow('it holds its voxels as text. Give');
    expect(refused({ ...good, ElementType: 'MET_ADA' })).toThrow('its header is not complete. Give');
    expect(() => metaImageStart('a.mha', Buffer.from('NDims = 3\n'))).toThrow('its header is not complete');
  });
});

describe('a header of NRRD', () => {
  const good = {
    ...{
      type: 'short',
      dimension: '3',
      'block size': '2',
      encoding: 'raw',
      endian: 'little',
      sizes: '4 3 2',
    },
    ...{ spacings: '1 1 nan', thicknesses: '1 1 1', 'axis mins': '0 0 0', 'axis maxs': '1 1 1' },
    ...{ centers: 'cell cell node', centerings: 'cell none ???', kinds: 'domain space RGB-color' },
    ...{ units: '"mm" "mm" ""', min: '-7', max: '16', 'old min': '0', 'old max': '1' },
    ...{ space: 'left-posterior-superior', 'space dimension': '3', 'space units': '"mm" "mm" "mm"' },
    ...{ 'space origin': '(1,2,3)', 'space directions': '(2,0,0) (0,2,0) none' },
    ...{ 'measurement frame': '(1,0,0) (0,1,0) (0,0,1)', 'sample units': 'HU' },
  };
  const textOf = (fields: object) =>
    `NRRD0005\n${Object.entries(fields)
      .map(([key, value]) => `${key}: ${value}\n`)
      .join('')}`;
  const startOf = (fields: object, more = '') =>
    nrrdStart('a.nrrd', Buffer.from(`${textOf(fields)}${more}\n`));

  test('A header of NRRD keeps each of its fields that is of the usual kind', () => {
    const { encode, ...facts } = startOf(good);
    expect(encode([], null).toString()).toBe(`${textOf(good)}\n`);
    expect(facts).toEqual({
      ...{ kept: Object.keys(good), removed: [], dataFiles: null, isPair: false },
      ...{ from: textOf(good).length + 1, before: 0, voxels: 48, packing: null },
    });
    expect(encode(['a.raw'], null).toString()).toBe(`${textOf({ ...good, 'data file': 'a.raw' })}\n`);
    expect(encode(['a.raw', 'b.raw'], null).toString()).toBe(
      `${textOf({ ...good, 'data file': 'LIST' })}a.raw\nb.raw\n`,
    );
  });

  test.each([
    ['kinds', 'domain Ada domain'],
    ['units', '"mm" "Ada" "mm"'],
    ['space', 'Ada'],
    ['min', 'Ada'],
    ['sample units', 'Ada'],
    ['content', 'Ada'],
    ['number', '1'],
  ])('A header of NRRD loses %s of %s', (key, value) => {
    const { encode, kept, removed } = startOf({ ...good, [key]: value });
    const { [key as 'min']: _lost, ...left } = good;
    expect([encode([], null).toString(), kept, removed]).toEqual([
      ...[`${textOf(left)}\n`, Object.keys(left), [key]],
    ]);
  });

  test('A header of NRRD loses keys of programs and comments, and what says where voxels are is written anew', () => {
    const more = '# by Ada\nbyte skip: 8\nline skip: 0\ndata file: ada.raw\npatient:=Ada\n';
    const { encode, removed, dataFiles, from, before } = startOf(good, more);
    expect([removed, dataFiles, from, before]).toEqual([['patient', 'comments'], ['ada.raw'], 0, 8]);
    expect(encode(['x.raw'], null).toString()).toBe(`${textOf({ ...good, 'data file': 'x.raw' })}\n`);
    expect(startOf({ ...good, encoding: 'gzip' }).packing).toBe('gzip');
    // Voxels are no comment, whatever their bytes are.
    expect(nrrdStart('a.nrrd', Buffer.from(`${textOf(good)}\n\n#voxels`)).removed).toEqual([]);
    expect(() => startOf({ ...good, encoding: 'bzip2' })).toThrow(
      'its header is not complete, or its voxels',
    );
    expect(() => nrrdStart('a.nrrd', Buffer.from(textOf(good)))).toThrow('its header is not complete');
    expect(nrrdStart('a.nhdr', Buffer.from(textOf({ ...good, 'data file': 'a.raw' }))).dataFiles).toEqual([
      'a.raw',
    ]);
  });
});
