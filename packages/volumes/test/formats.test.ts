import { rename } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import { openVolume, readVolume } from '../src/index.js';
import {
  bytesOf,
  counting,
  gzip,
  lines,
  mghHeader,
  niftiHeader,
  refusalOf,
  type Type,
  types,
  workspace,
  write,
  zlib,
} from './written.js';

const size = [3, 2, 4] as const;
const count = 24;
const all = Object.keys(types) as Type[];

/** Numbers that a type can hold, at both of its ends. */
const valuesOf = (type: Type): number[] => {
  const { bytes } = types[type];
  if (type.startsWith('float')) return counting(count).map((at) => at * 0.5 - 3);
  const bits = Math.min(8 * bytes, 40);
  const [low, high] = type.startsWith('u') ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
  return counting(count).map((at) => (at % 3 === 0 ? low : at % 3 === 1 ? high : at));
};
const cases = all.flatMap((type) => [false, true].map((isBig) => [type, isBig ? 'big' : 'little'] as const));

const nrrd = (...more: string[]) =>
  lines(
    'NRRD0004',
    '# A comment: of no meaning',
    'dimension: 3',
    'sizes: 3 2 4',
    'space: left-posterior-superior',
    'space directions: (2,0,0) (0,3,0) (0,0,4)',
    'space origin: (10,20,30)',
    ...more,
  );
const meta = (...more: string[]) =>
  lines(
    'ObjectType = Image',
    'NDims = 3',
    'DimSize = 3 2 4',
    'ElementSpacing = 2 3 4',
    'Offset = 10 20 30',
    'TransformMatrix = 1 0 0 0 1 0 0 0 1',
    ...more,
  );
/** Where both of these lie: to the left and to the back. */
const affine = straight([-2, -3, 4], [-10, -20, 30]);

describe.each(cases)('Values of %s, %s endian,', (type, endian) => {
  const values = valuesOf(type);
  const isBig = endian === 'big';
  const bytes = bytesOf(values, type, isBig);

  /** Reads the file at once, slice by slice, and a single slice. */
  async function expectValues(file: string) {
    const volume = await readVolume(file);
    expect(volume).toMatchObject({ size, components: 1, frames: 1 });
    expect(Array.from(volume.data)).toEqual(values);
    const opened = await openVolume(file);
    const slices: number[][] = [];
    for await (const slice of opened.slices()) slices[slice.k] = Array.from(slice.values);
    expect(slices.flat()).toEqual(values);
    for await (const slice of opened.slices({ only: [2] }))
      expect([slice.k, Array.from(slice.values)]).toEqual([2, values.slice(12, 18)]);
  }

  test.each([
    ['NIfTI-1', { isBig, type, size }],
    ['NIfTI-2', { isBig, type, size, isSecond: true }],
  ])('Values are read from %s, packed or not', async (_, given) => {
    const directory = await workspace();
    await expectValues(await write(directory, 'a.nii', niftiHeader(given), bytes));
    await expectValues(await write(directory, 'a.nii.gz', gzip(niftiHeader(given), bytes)));
  });

  test.each(['.hdr', '.img'])('Values are read from a pair that is opened by its %s', async (ending) => {
    const directory = await workspace();
    await write(directory, 'a.hdr', niftiHeader({ isBig, type, size, magic: 'ni1' }));
    await write(directory, 'a.img', bytes);
    await expectValues(path.join(directory, `a${ending}`));
  });

  test('Values are read from NRRD, attached or detached, packed or not', async () => {
    const directory = await workspace();
    const header = nrrd(`type: ${types[type].nrrd}`, `endian: ${endian}`);
    const raw = `${header}encoding: raw\n`;
    const packed = `${header}encoding: gzip\n`;
    await expectValues(await write(directory, 'a.nrrd', raw, '\n', bytes));
    await expectValues(await write(directory, 'b.nrrd', packed, '\n', gzip(bytes)));
    await write(directory, 'a.raw', bytes);
    await write(directory, 'b.raw.gz', gzip(bytes));
    await expectValues(await write(directory, 'a.nhdr', raw, 'data file: a.raw\n'));
    await expectValues(await write(directory, 'b.nhdr', packed, 'datafile: b.raw.gz\n'));
  });

  test('Values are read from MetaImage, local or not, packed or not', async () => {
    const directory = await workspace();
    const header = meta(
      `ElementType = ${types[type].meta}`,
      `BinaryDataByteOrderMSB = ${isBig ? 'True' : 'False'}`,
    );
    const packed = `${header}CompressedData = True\n`;
    await expectValues(await write(directory, 'a.mha', header, 'ElementDataFile = LOCAL\n', bytes));
    await expectValues(await write(directory, 'b.mha', packed, 'ElementDataFile = LOCAL\n', zlib(bytes)));
    await write(directory, 'a.raw', bytes);
    await write(directory, 'b.zraw', zlib(bytes));
    await expectValues(await write(directory, 'a.mhd', header, 'ElementDataFile = a.raw\n'));
    await expectValues(await write(directory, 'b.mhd', packed, 'ElementDataFile = b.zraw\n'));
  });
});

test.each([
  ['uint8', 0],
  ['int32', 1],
  ['float32', 3],
  ['int16', 4],
  ['uint16', 10],
] as const)('Values of %s are read from MGH and MGZ', async (type, code) => {
  const directory = await workspace();
  const values = valuesOf(type);
  const header = mghHeader({ size: [...size, 1], code });
  const footer = Buffer.alloc(20, 1);
  for (const [name, ...parts] of [
    ['a.mgh', header, bytesOf(values, type, true), footer],
    ['a.mgz', gzip(header, bytesOf(values, type, true), footer)],
  ] as [string, ...Buffer[]][]) {
    const volume = await readVolume(await write(directory, name, ...parts));
    expect(volume).toMatchObject({ format: 'FreeSurfer', size, frames: 1, hasOrientation: false });
    expect(Array.from(volume.data)).toEqual(values);
  }
});

test('A format is recognised by content, whatever the name of the file', async () => {
  const directory = await workspace();
  const bytes = bytesOf(counting(count), 'int16');
  const files = {
    NIfTI: [niftiHeader({ size }), bytes],
    NRRD: [nrrd('type: short', 'endian: little', 'encoding: raw'), '\n', bytes],
    MetaImage: [meta('ElementType = MET_SHORT', 'ElementDataFile = LOCAL'), bytes],
  };
  for (const [format, parts] of Object.entries(files))
    expect(await openVolume(await write(directory, `${format}.bin`, ...parts))).toMatchObject({
      format,
      size,
    });
});

describe('A NIfTI volume', () => {
  const sform = [0, 0, 3, -1, -2, 0, 0, 4, 0, 5, 0, 7];
  const [half] = [Math.SQRT1_2];
  // A turn of 90 degrees about the axis upwards.
  const qform = [0, 0, half, 11, 12, 13];
  const pixelSizes = [1, 2, 3, 4];
  const open = async (given: Parameters<typeof niftiHeader>[0]) => {
    const bytes = bytesOf(counting(count), 'int16', given.isBig);
    return openVolume(await write(await workspace(), 'a.nii', niftiHeader(given), bytes));
  };
  const rounded = (rows: readonly (readonly number[])[]) =>
    rows.map((row) => row.map((value) => Math.round(value * 1e5) / 1e5 + 0));

  test.each([false, true])('A NIfTI volume is placed by its sform (NIfTI-2: %s)', async (isSecond) => {
    const { affine, hasOrientation } = await open({ size, isSecond, pixelSizes, sform, qform });
    expect(affine).toEqual([sform.slice(0, 4), sform.slice(4, 8), sform.slice(8)]);
    expect(hasOrientation).toBe(true);
  });

  test('A NIfTI volume without an sform is placed by its qform, which may be mirrored', async () => {
    expect(rounded((await open({ size, pixelSizes, qform })).affine)).toEqual([
      [0, -3, 0, 11],
      [2, 0, 0, 12],
      [0, 0, 4, 13],
    ]);
    const mirrored = await open({ size, pixelSizes: [-1, 2, 3, 4], qform });
    expect(rounded(mirrored.affine)[2]).toEqual([0, 0, -4, 13]);
  });

  test('A NIfTI volume with an sform of zeros is placed by its qform', async () => {
    const { affine } = await open({ size, pixelSizes, qform, sform: new Array(12).fill(0) });
    expect(rounded(affine)[0]).toEqual([0, -3, 0, 11]);
  });

  test('A NIfTI volume with neither an sform nor a qform is centred and has no orientation', async () => {
    const { affine, hasOrientation } = await open({ size, pixelSizes });
    expect(affine).toEqual(straight([-2, 3, 4], [2, -1.5, -6]));
    expect(hasOrientation).toBe(false);
  });

  test.each([
    [1, 1000],
    [3, 0.001],
    [0, 1],
  ])('The affine of a NIfTI volume is in millimetres if its unit is %i', async (units, factor) => {
    const { affine } = await open({ size, sform: [1, 0, 0, 2, 0, 1, 0, 3, 0, 0, 1, 4], units: units | 8 });
    expect(rounded(affine)[0]).toEqual([factor, 0, 0, 2 * factor]);
  });
});

test('ANALYZE is read as a pair without orientation', async () => {
  const directory = await workspace();
  await write(directory, 'old.hdr', niftiHeader({ size, magic: '', pixelSizes: [0, 2, 2, 2] }));
  await write(directory, 'old.img', bytesOf(counting(count), 'int16'));
  expect(await readVolume(path.join(directory, 'old.hdr'))).toMatchObject({
    format: 'ANALYZE',
    hasOrientation: false,
    data: Int16Array.from(counting(count)),
  });
});

test('The voxels of a pair may be packed while its header is not', async () => {
  const directory = await workspace();
  await write(directory, 'a.hdr', niftiHeader({ size, magic: 'ni1' }));
  await write(directory, 'a.img.gz', gzip(bytesOf(counting(count), 'int16')));
  expect((await readVolume(path.join(directory, 'a.hdr'))).data).toEqual(Int16Array.from(counting(count)));
});

test.each([
  ['int16', 2, -1024, Float32Array],
  ['int32', 0.5, 0, Float64Array],
  ['uint8', 1, 3, Float32Array],
  ['float64', 2, 0, Float64Array],
] as const)('Values of %s are scaled by %d, and %d is added', async (type, slope, intercept, array) => {
  const header = niftiHeader({ size, type, slope, intercept });
  const file = await write(await workspace(), 'a.nii', header, bytesOf(counting(count), type));
  expect((await readVolume(file)).data).toEqual(
    array.from(counting(count).map((each) => each * slope + intercept)),
  );
});

test.each([
  [0, 5],
  [Number.NaN, 0],
  [1, Number.NaN],
])('A slope of %d with an intercept of %d leaves the values unscaled', async (slope, intercept) => {
  const header = niftiHeader({ size, slope, intercept });
  const file = await write(await workspace(), 'a.nii', header, bytesOf(counting(count), 'int16'));
  expect((await readVolume(file)).data).toEqual(Int16Array.from(counting(count)));
});

test('A scale that programs read differently is refused', async () => {
  const nan = niftiHeader({ size, slope: 2, intercept: Number.NaN });
  const spm = niftiHeader({ size, magic: '' });
  spm.writeFloatLE(0.5, 112);
  const of = async (name: string, header: Buffer) => {
    const directory = await workspace();
    await write(directory, 'a.img', bytesOf(counting(count), 'int16'));
    return readVolume(await write(directory, name, header, bytesOf(counting(count), 'int16')));
  };
  await expect(of('a.nii', nan)).rejects.toThrow(
    'a.nii scales its values by 2 in a way that programs read differently (its intercept is no number): write it again as NIfTI.',
  );
  await expect(of('a.hdr', spm)).rejects.toThrow(/by 0\.5 .* \(the scale of SPM in ANALYZE\)/);
});

test.each([
  [128, 3],
  [2304, 4],
] as const)('NIfTI colours of the type %i have %i components', async (code, components) => {
  const values = counting(count * components);
  const file = await write(await workspace(), 'a.nii', niftiHeader({ size, code }), Buffer.from(values));
  expect(await readVolume(file)).toMatchObject({ components, frames: 1, data: Uint8Array.from(values) });
});

describe('Several volumes in a file', () => {
  const frames = 3;
  const planar = counting(count * frames);
  /** The same voxels, with the values of all frames of each voxel together. */
  const interleaved = counting(count * frames).map((at) => (at % frames) * count + Math.floor(at / frames));
  const bytes = bytesOf(planar, 'int16');
  const mixed = bytesOf(interleaved, 'int16');
  const fourth = 'NRRD0004\ntype: short\ndimension: 4\nendian: little\nspace: RAS\n';
  const directions = '(1,0,0) (0,1,0) (0,0,1)';
  const layouts: Record<string, [string, ...(string | Buffer)[]]> = {
    'NIfTI in time': ['a.nii', niftiHeader({ size: [...size, frames] }), bytes],
    'NIfTI vectors': ['a.nii', niftiHeader({ size: [...size, 1, frames] }), bytes],
    'NIfTI with seven axes, packed': [
      'a.nii.gz',
      gzip(niftiHeader({ size: [...size, 1, 1, 0, frames] }), bytes),
    ],
    MGH: ['a.mgh', mghHeader({ size: [...size, frames], code: 4 }), bytesOf(planar, 'int16', true)],
    'MetaImage channels': [
      'a.mha',
      meta('ElementType = MET_SHORT', 'ElementNumberOfChannels = 3', 'ElementDataFile = LOCAL'),
      mixed,
    ],
    'MetaImage channels, packed': [
      'a.mha',
      meta('ElementType = MET_SHORT', 'ElementNumberOfChannels = 3', 'CompressedData = True'),
      'ElementDataFile = LOCAL\n',
      zlib(mixed),
    ],
    'MetaImage with four axes': [
      'a.mha',
      lines(
        'NDims = 4',
        'DimSize = 3 2 4 3',
        'TransformMatrix = 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1',
        'ElementSpacing = 1 1 1 1',
        'ElementType = MET_SHORT',
        'ElementDataFile = LOCAL',
      ),
      bytes,
    ],
    'NRRD with a first axis of vectors': [
      'a.nrrd',
      fourth,
      `sizes: 3 3 2 4\nkinds: vector domain domain domain\nspace directions: none ${directions}\nencoding: raw\n\n`,
      mixed,
    ],
    'NRRD with a last axis of a list': [
      'a.nrrd',
      fourth,
      `sizes: 3 2 4 3\nkinds: domain domain domain list\nspace directions: ${directions} none\nencoding: gz\n\n`,
      gzip(bytes),
    ],
    'NRRD with kinds, and no directions': [
      'a.nrrd',
      'NRRD0004\ntype: short\ndimension: 4\nendian: little\nsizes: 3 3 2 4\nkinds: list domain domain domain\nencoding: raw\n\n',
      mixed,
    ],
  };

  test.each(Object.keys(layouts))(
    'Volumes of one file are read separately or together (%s)',
    async (layout) => {
      const [name, ...parts] = layouts[layout] as [string, ...Buffer[]];
      const file = await write(await workspace(), name, ...parts);
      const volume = await openVolume(file);
      expect(volume).toMatchObject({ size, components: 1, frames });
      expect((await readVolume(file)).data).toEqual(Int16Array.from(planar));
      for (const frame of counting(frames)) {
        const one = await readVolume(file, { frame });
        expect([one.frames, one.data]).toEqual([
          1,
          Int16Array.from(planar.slice(frame * count, (frame + 1) * count)),
        ]);
      }
      for await (const { values } of volume.slices({ frame: 1, only: [3] }))
        expect(Array.from(values)).toEqual(planar.slice(count + 18, count + 24));
      const refusal = await refusalOf(readVolume(file, { frame: 3 }));
      expect(refusal).toBe(`${name} holds 3 volumes: there is no volume 4.`);
    },
  );
});

test.each([
  [
    'MetaImage',
    'a.mha',
    meta('ElementType = MET_UCHAR', 'ElementNumberOfChannels = 3', 'ElementDataFile = LOCAL'),
  ],
  [
    'NRRD',
    'a.nrrd',
    'NRRD0004\ntype: uchar\ndimension: 4\nsizes: 3 3 2 4\nkinds: RGB-color domain domain domain\nencoding: raw\n\n',
  ],
])('Three channels of bytes in %s are a colour', async (_, name, header) => {
  const values = counting(3 * count);
  const file = await write(await workspace(), name, header, Buffer.from(values));
  expect(await readVolume(file)).toMatchObject({
    size,
    components: 3,
    frames: 1,
    data: Uint8Array.from(values),
  });
});

test.each([
  ['RAS', [1, 1, 1]],
  ['right-anterior-superior', [1, 1, 1]],
  ['left-anterior-superior', [-1, 1, 1]],
  ['LPS', [-1, -1, 1]],
  ['left-posterior-superior', [-1, -1, 1]],
])('NRRD in the space %s is placed correctly', async (space, [x = 1, y = 1, z = 1]) => {
  const header = nrrd('type: short', 'endian: little', 'encoding: raw').replace(
    'left-posterior-superior',
    space,
  );
  const file = await write(await workspace(), 'a.nrrd', header, '\n', bytesOf(counting(count), 'int16'));
  expect(await openVolume(file)).toMatchObject({
    hasOrientation: true,
    affine: straight([2 * x, 3 * y, 4 * z], [10 * x, 20 * y, 30 * z]).map((row) =>
      row.map((value) => expect.closeTo(value, 9)),
    ),
  });
});

test('NRRD in the space of the scanner, or with spacings only, has no orientation', async () => {
  const directory = await workspace();
  const bytes = bytesOf(counting(count), 'int16');
  const header = nrrd('type: short', 'endian: little', 'encoding: raw');
  const scanner = header.replace('left-posterior-superior', 'scanner-xyz');
  expect((await openVolume(await write(directory, 'a.nrrd', scanner, '\n', bytes))).hasOrientation).toBe(
    false,
  );
  const spaced =
    'NRRD0001\ntype: short\ndimension: 3\nsizes: 3 2 4\nspacings: 2 3 4\nendian: little\nencoding: raw\n\n';
  expect(await openVolume(await write(directory, 'b.nrrd', spaced, bytes))).toMatchObject({
    hasOrientation: false,
    affine: affine.map((row) => [...row.slice(0, 3), 0].map((value) => expect.closeTo(value, 9))),
  });
});

test('A plane of NRRD becomes a volume of one slice', async () => {
  const header =
    'NRRD0004\ntype: short\ndimension: 2\nsizes: 6 4\nspace: RAS\nspace directions: (0,2,0) (0,0,2)\nspace origin: (1,2,3)\nendian: little\nencoding: raw\n\n';
  const file = await write(await workspace(), 'a.nrrd', header, bytesOf(counting(count), 'int16'));
  expect(await openVolume(file)).toMatchObject({
    size: [6, 4, 1],
    affine: [
      [0, 0, 1, 1],
      [2, 0, 0, 2],
      [0, 2, 0, 3],
    ],
  });
});

test('The matrix of an oblique MetaImage has the axes one after another, in LPS+', async () => {
  const header = meta('ElementType = MET_SHORT', 'ElementDataFile = LOCAL').replace(
    'TransformMatrix = 1 0 0 0 1 0 0 0 1',
    'TransformMatrix = 0.8 0.6 0 -0.6 0.8 0 0 0 1',
  );
  const file = await write(await workspace(), 'a.mha', header, bytesOf(counting(count), 'int16'));
  expect(await openVolume(file)).toMatchObject({
    format: 'MetaImage',
    affine: [
      [-1.6, 1.8, 0, -10],
      [-1.2, -2.4, 0, -20],
      [0, 0, 4, 30],
    ].map((row) => row.map((value) => expect.closeTo(value, 9))),
  });
});

test('An MGH volume is placed by its centre', async () => {
  const axes = [-1, 0, 0, 0, 0, -1, 0, 1, 0];
  const header = mghHeader({ size: [3, 2, 4, 1], code: 4, spacing: [2, 3, 4], axes, centre: [5, 6, 7] });
  const file = await write(await workspace(), 'a.mgh', header, bytesOf(counting(count), 'int16', true));
  expect(await openVolume(file)).toMatchObject({
    hasOrientation: true,
    affine: [
      [-2, 0, 0, 8],
      [0, 0, 4, -2],
      [0, -3, 0, 10],
    ].map((row) => row.map((value) => expect.closeTo(value, 6))),
  });
});

describe('Voxels in several files', () => {
  const bytes = bytesOf(counting(count), 'int16');
  const values = Int16Array.from(counting(count));
  const slices = counting(4).map((k) => bytes.subarray(k * 12, (k + 1) * 12));
  const inNrrd = nrrd('type: short', 'endian: little', 'encoding: raw');
  const inMeta = meta('ElementType = MET_SHORT');
  test.each([
    ['list.nhdr', `${inNrrd}data file: LIST\n`, ['b.bin', 'a.bin', 'd d.bin', 'c.bin'], true],
    [
      'pattern.nhdr',
      `${inNrrd}data file: z%02d.bin 8 11 1\n`,
      ['z08.bin', 'z09.bin', 'z10.bin', 'z11.bin'],
      false,
    ],
    ['back.nhdr', `${inNrrd}data file: z%d.bin 3 0 -1\n`, ['z3.bin', 'z2.bin', 'z1.bin', 'z0.bin'], false],
    [
      'below.nhdr',
      `${inNrrd}data file: slices/%d.bin 1 4 1\n`,
      counting(4).map((k) => `slices/${k + 1}.bin`),
      false,
    ],
    ['umlauts.nhdr', `${inNrrd}data file: ä%d.bin 1 4\n`, ['ä1.bin', 'ä2.bin', 'ä3.bin', 'ä4.bin'], false],
    ['umlauts.mhd', `${inMeta}ElementDataFile = LIST\n`, ['ü.raw', 'ö.raw', 'ä.raw', 'ß.raw'], true],
    ['list.mhd', `${inMeta}ElementDataFile = LIST\n`, ['b.raw', 'a.raw', 'd.raw', 'c.raw'], true],
    [
      'pattern.mhd',
      `${inMeta}ElementDataFile = z%03d.raw 7 10 1\n`,
      counting(4).map((k) => `z${String(k + 7).padStart(3, '0')}.raw`),
      false,
    ],
  ])('Voxels in several files are in the order that %s gives', async (name, header, names, isListed) => {
    const directory = await workspace();
    for (const [k, each] of names.entries()) await write(directory, each, slices[k] as Buffer);
    const file = await write(directory, name, header, isListed ? lines(...names) : '');
    expect((await readVolume(file)).data).toEqual(values);
    for await (const slice of (await openVolume(file)).slices({ only: [1, 3] }))
      expect(Array.from(slice.values)).toEqual(counting(6).map((at) => slice.k * 6 + at));
  });

  test('Bytes before the voxels of a data file are skipped', async () => {
    const directory = await workspace();
    await write(directory, 'a.raw', Buffer.alloc(7, 1), bytes);
    await write(directory, 'a.raw.gz', gzip(Buffer.alloc(7, 1), bytes));
    for (const [name, text] of [
      ['a.nhdr', `${inNrrd}byte skip: 7\ndata file: a.raw\n`],
      ['b.nhdr', `${inNrrd}byte skip: -1\ndata file: a.raw\n`],
      ['c.nhdr', `${inNrrd.replace('raw', 'gzip')}byte skip: 7\ndata file: a.raw.gz\n`],
      ['a.mhd', `${inMeta}HeaderSize = 7\nElementDataFile = a.raw\n`],
      ['b.mhd', `${inMeta}HeaderSize = -1\nElementDataFile = a.raw\n`],
    ] as const)
      expect((await readVolume(await write(directory, name, text))).data).toEqual(values);
  });

  test('Data files are found next to their header after the directory is moved', async () => {
    const directory = await workspace();
    await write(directory, 'old/a.raw', bytes);
    await write(directory, 'old/a.mhd', inMeta, 'ElementDataFile = a.raw\n');
    await rename(path.join(directory, 'old'), path.join(directory, 'new'));
    expect((await readVolume(path.join(directory, 'new/a.mhd'))).data).toEqual(values);
  });
});
