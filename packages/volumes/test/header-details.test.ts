import { describe, expect, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import { openVolume, readVolume, type VolumeFile } from '../src/index.js';
import { bytesOf, counting, lines, refusalOf, workspace, write, zlib } from './written.js';

const bytes = bytesOf(counting(24), 'int16');

async function opened(name: string, ...parts: (string | Buffer)[]): Promise<VolumeFile> {
  return openVolume(await write(await workspace(), name, ...parts));
}
const refusal = async (name: string, ...parts: (string | Buffer)[]) => refusalOf(opened(name, ...parts));

test('The byte order of NRRD may be written in capitals', async () => {
  const header = lines(
    ...['NRRD0004', 'type: short', 'endian: BIG', 'encoding: raw', 'dimension: 3', 'sizes: 3 2 4', ''],
  );
  const file = await write(await workspace(), 'a.nrrd', header, bytesOf(counting(24), 'int16', true));
  expect([...(await readVolume(file)).data]).toEqual(counting(24));
});

describe('NRRD', () => {
  const nrrd = (...more: string[]) =>
    lines('NRRD0004', 'type: short', 'endian: little', 'encoding: raw', ...more, '');
  const three = ['dimension: 3', 'sizes: 3 2 4'];

  test.each<[string, string[], object]>([
    ['no space and no unit', three, { unit: null, hasOrientation: false, modality: null, format: 'NRRD' }],
    ['Hounsfield units', [...three, 'sample units: "HU"'], { unit: 'HU' }],
    ['Hounsfield units by name', [...three, 'sample units: Hounsfield'], { unit: 'HU' }],
    ['other units', [...three, 'sample units: mHU'], { unit: null }],
    ['four axes', ['dimension: 4', 'sizes: 3 2 2 2'], { size: [3, 2, 2], frames: 2 }],
    ['one axis', ['dimension: 1', 'sizes: 24'], { size: [24, 1, 1] }],
    [
      'a space of directions',
      [...three, 'space: LAS', 'space directions: (1,0,0) (0,1,0) (0,0,1)'],
      { hasOrientation: true },
    ],
    ['a space alone', [...three, 'space: RAS'], { hasOrientation: false }],
    [
      'a plane in a space',
      ['sizes: 6 4', 'space: RAS', 'space directions: (1,0,0) (0,1,0)'],
      { hasOrientation: false },
    ],
    [
      'a list of colours of words',
      ['sizes: 3 2 2 2', 'kinds: RGB-color domain domain domain'],
      { components: 1, frames: 3 },
    ],
    [
      'a last axis of colours',
      ['sizes: 2 2 2 3', 'kinds: domain domain domain RGB-color'],
      { components: 1, frames: 3 },
    ],
    [
      'a last axis of colours of bytes',
      ['type: uchar', 'sizes: 2 2 4 3', 'kinds: domain domain domain RGB-color'],
      { components: 1, frames: 3 },
    ],
  ])('NRRD with %s is read', async (_, more, found) => {
    expect(await opened('a.nrrd', nrrd(...more), bytes)).toMatchObject(found);
  });

  test.each([
    ['Int8Array', 1, 'signed char,int8,int8_t'],
    ['Uint8Array', 1, 'uchar,unsigned char,uint8,uint8_t'],
    ['Int16Array', 2, 'short,short int,signed short,signed short int,int16,int16_t'],
    ['Uint16Array', 2, 'ushort,unsigned short,unsigned short int,uint16,uint16_t'],
    ['Int32Array', 4, 'int,signed int,int32,int32_t'],
    ['Uint32Array', 4, 'uint,unsigned int,uint32,uint32_t'],
    [
      'Float64Array',
      8,
      'longlong,long long,long long int,signed long long,signed long long int,int64,int64_t',
    ],
    ['Float64Array', 8, 'ulonglong,unsigned long long,unsigned long long int,uint64,uint64_t,double'],
    ['Float32Array', 4, 'float,FLOAT'],
  ])('NRRD values become a %s under all names of their type', async (type, count, names) => {
    for (const name of names.split(',')) {
      const header = nrrd('sizes: 1 1 2').replace('short', name);
      const { data } = await readVolume(
        await write(await workspace(), 'a.nrrd', header, Buffer.alloc(2 * count)),
      );
      expect([name, data.constructor.name, data.length]).toEqual([name, type, 2]);
    }
  });

  test('NRRD is placed by its spacings, which may be in micrometres', async () => {
    const spaced = await opened(
      'a.nrrd',
      nrrd(...three, 'spacings: 2 NaN -1', 'space origin: (1,2,3)'),
      bytes,
    );
    expect(spaced.affine).toEqual([
      [-2, -0, -0, -1],
      [-0, -1, -0, -2],
      [0, 0, 1, 3],
    ]);
    const listed = nrrd('sizes: 2 3 2 2', 'kinds: vector domain domain domain', 'spacings: NaN 2 3 4');
    expect((await opened('a.nrrd', listed, bytes)).affine.map((row, axis) => row[axis])).toEqual([-2, -3, 4]);
    const micro = nrrd(
      ...[...three, 'space: RAS', 'space directions: (2,0,0) (0,3,0) (0,0,4)', 'space origin: (1000,0,0)'],
      'space units: "um" "um" "um"',
    );
    expect((await opened('a.nrrd', micro, bytes)).affine).toEqual(
      straight([0.002, 0.003, 0.004], [1, 0, 0]).map((row) => row.map((value) => expect.closeTo(value, 12))),
    );
    const line = await opened('a.nrrd', nrrd('sizes: 24', 'space: RAS', 'space directions: (2,0,0)'), bytes);
    expect(line.affine).toEqual([
      [2, 0, 0, 0],
      [0, 1, 0, 0],
      [0, 0, 2, 0].map((value, axis) => (axis === 2 ? 1 : value)),
    ]);
  });

  test.each<[string, string, string]>([
    [
      'a header without an end',
      `${nrrd(...three).trimEnd()}\n# ${'x'.repeat(1 << 20)}`,
      'a.nrrd is damaged: its header has no end. Copy it again from the original.',
    ],
    [
      'no type',
      nrrd(...three).replace('type: short\n', ''),
      'a.nrrd holds values of the type unknown, which is not read.',
    ],
    [
      'no encoding',
      nrrd(...three).replace('encoding: raw\n', ''),
      'a.nrrd is encoded as nothing: write it again as raw or gzip.',
    ],
    [
      'lines before its voxels',
      nrrd(...three, 'line skip: 2'),
      'a.nrrd has lines of text before its voxels: write it again without them.',
    ],
    [
      'two axes that are not spatial',
      nrrd('sizes: 3 2 2 2', 'kinds: list domain domain list'),
      'a.nrrd has axes that are not those of a volume (sizes 3 2 2 2, kinds list domain domain list): write it again with three axes of space, and at most one more.',
    ],
    [
      'five axes',
      nrrd('sizes: 3 2 2 2 1'),
      'a.nrrd has axes that are not those of a volume (sizes 3 2 2 2 1, kinds not given): write it again with three axes of space, and at most one more.',
    ],
    [
      '17 axes',
      nrrd(`sizes: ${'1 '.repeat(16)}1`),
      'a.nrrd is damaged: its header says 17 axes. Copy it again from the original.',
    ],
    [
      'packed voxels in two files',
      lines('NRRD0004', 'type: short', ...three, 'encoding: gzip', 'data file: LIST', 'a.raw', 'b.raw'),
      'a.nhdr has its voxels in 2 files, which are packed or do not hold whole slices: write it again as one file.',
    ],
    [
      'parts of slices in files',
      lines(
        'NRRD0004',
        'type: short',
        ...three,
        'encoding: raw',
        'data file: LIST',
        'a.raw',
        'b.raw',
        'c.raw',
      ),
      'a.nhdr has its voxels in 3 files, which are packed or do not hold whole slices: write it again as one file.',
    ],
  ])('NRRD with %s is refused', async (_, header, sentence) => {
    const name = sentence.split(' ')[0] as string;
    expect(await refusal(name, header, name === 'a.nrrd' && header.endsWith('\n\n') ? bytes : '')).toBe(
      sentence,
    );
  });
});

describe('MetaImage', () => {
  const meta = (...more: string[]) =>
    lines('NDims = 3', 'DimSize = 3 2 4', 'ElementType = MET_SHORT', ...more, 'ElementDataFile = LOCAL');
  const matrix = 'TransformMatrix = 1 0 0 0 1 0 0 0 1';
  const facts = async (...more: string[]) => {
    const { modality, unit, hasOrientation, format } = await opened('a.mha', meta(...more), bytes);
    return { modality, unit, hasOrientation, format };
  };
  test.each<[string[], object]>([
    [[], { modality: null, unit: null, hasOrientation: false, format: 'MetaImage' }],
    [
      ['Modality = MET_MOD_CT', matrix],
      { modality: 'CT', unit: 'HU', hasOrientation: true, format: 'MetaImage' },
    ],
    [
      ['Modality = MET_MOD_MR', matrix.replace('TransformMatrix', 'Rotation')],
      { modality: 'MR', unit: null, hasOrientation: true, format: 'MetaImage' },
    ],
    [
      ['Modality = MET_MOD_PET', matrix.replace('TransformMatrix', 'Orientation')],
      { modality: null, unit: null, hasOrientation: true, format: 'MetaImage' },
    ],
  ])('MetaImage with the fields %j is read', async (more, found) => {
    expect(await facts(...more)).toEqual(found);
  });

  test('MetaImage fields may have alternative names, and two axes make a plane without an orientation', async () => {
    const named = await opened(
      'a.mha',
      meta('ElementSize = 2 3 4', 'Origin = 1 2 3', 'ElementByteOrderMSB = true'),
      bytes,
    );
    expect(named.affine).toEqual([
      [-2, -0, -0, -1],
      [-0, -3, -0, -2],
      [0, 0, 4, 3],
    ]);
    for await (const { values } of named.slices({ only: [0] }))
      expect([...values]).toEqual([0, 256, 512, 768, 1024, 1280]);
    const plane = lines(
      'NDims = 2',
      'DimSize = 6 4',
      'ElementType = MET_SHORT',
      'TransformMatrix = 0 1 1 0',
      'Position = 5 6',
      'ElementDataFile = LOCAL',
    );
    expect(await opened('a.mha', plane, bytes)).toMatchObject({
      size: [6, 4, 1],
      hasOrientation: false,
      affine: [
        [-0, -1, -0, -5],
        [-1, -0, -0, -6],
        [0, 0, 1, 0],
      ],
    });
  });

  test.each<[string, string, string]>([
    [
      'no type',
      meta().replace('ElementType = MET_SHORT\n', ''),
      'a.mha holds values of the type unknown, which is not read: write them as MET_SHORT or MET_FLOAT.',
    ],
    [
      'another type',
      meta().replace('MET_SHORT', 'MET_STRING'),
      'a.mha holds values of the type MET_STRING, which is not read: write them as MET_SHORT or MET_FLOAT.',
    ],
    [
      'volumes of channels',
      meta('ElementNumberOfChannels = 2').replace('3 2 4', '3 2 2 2'),
      'a.mha holds 2 volumes of 2 channels: split it into volumes.',
    ],
    [
      'text',
      meta('BinaryData = False'),
      'a.mha holds its voxels as text, which is not read: write it again as binary data.',
    ],
  ])('MetaImage with %s is refused', async (_, header, sentence) => {
    expect(await refusal('a.mha', header, bytes)).toBe(sentence);
  });

  test('Bytes before the voxels of a MetaImage are skipped, before unpacking or after', async () => {
    const skip = Buffer.alloc(5, 9);
    const read = async (...parts: (string | Buffer)[]) => [
      ...(await readVolume(await write(await workspace(), 'a.mha', ...parts))).data,
    ];
    expect(await read(meta('HeaderSize = 5'), skip, bytes)).toEqual(counting(24));
    expect(await read(meta('HeaderSize = -1'), skip, bytes)).toEqual(counting(24));
    expect(
      await read(meta('HeaderSize = 5', 'CompressedData = True'), zlib(Buffer.concat([skip, bytes]))),
    ).toEqual(counting(24));
  });
});
