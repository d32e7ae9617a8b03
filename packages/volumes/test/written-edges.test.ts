import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import { type Affine, openVolume, writeNifti, writeVolume } from '../src/index.js';
import { counting, refusalOf, workspace } from './written.js';

const affine: Affine = straight([-2, -3, 4], [10, 20, 30]);
const size = [2, 1, 2] as const;

describe('A written header', () => {
  const written = async (name: string, given: Parameters<typeof writeVolume>[1]) => {
    const file = path.join(await workspace(), name);
    await writeVolume(file, given);
    const bytes = await readFile(file);
    return bytes.toString('latin1');
  };
  const data = Int16Array.of(1, 2, 3, 4);
  test('A written MetaImage header has the position of the voxels and their packed size', async () => {
    const text = await written('a.mha', { size, affine, data });
    const end = 'ElementDataFile = LOCAL\n';
    const at = text.indexOf(end) + end.length;
    expect(text.slice(0, at).split('\n')).toEqual([
      ...[
        'ObjectType = Image',
        'NDims = 3',
        'BinaryData = True',
        'BinaryDataByteOrderMSB = False',
        'CompressedData = True',
      ],
      ...[
        `CompressedDataSize = ${String(text.length - at).padEnd(15)}`,
        'TransformMatrix = 1 0 0 0 1 0 0 0 1',
      ],
      ...['Offset = -10 -20 30', 'CenterOfRotation = 0 0 0', 'ElementSpacing = 2 3 4', 'DimSize = 2 1 2'],
      ...['ElementType = MET_SHORT', 'ElementDataFile = LOCAL', ''],
    ]);
    const colours = await written('a.MHA', {
      size,
      affine,
      data: Uint8Array.from(counting(12)),
      components: 3,
    });
    expect(colours).toContain('DimSize = 2 1 2\nElementNumberOfChannels = 3\nElementType = MET_UCHAR\n');
  });

  test('A written NRRD header has the position and the type of the voxels', async () => {
    const text = await written('a.nrrd', { size, affine, data: Float64Array.of(1, 2, 3, 4) });
    expect(text.slice(0, text.indexOf('\n\n')).split('\n')).toEqual([
      ...['NRRD0004', 'type: double', 'dimension: 3', 'space: left-posterior-superior', 'sizes: 2 1 2'],
      ...[
        'space directions: (2,0,0) (0,3,0) (0,0,4)',
        'kinds: domain domain domain',
        'endian: little',
        'encoding: gzip',
      ],
      'space origin: (-10,-20,30)',
    ]);
    const colours = await written('a.nrrd', {
      size,
      affine,
      data: Uint8Array.from(counting(16)),
      components: 4,
    });
    expect(colours).toContain('dimension: 4\nspace: left-posterior-superior\nsizes: 4 2 1 2\n');
    expect(colours).toContain(
      'space directions: none (2,0,0) (0,3,0) (0,0,4)\nkinds: RGBA-color domain domain domain\n',
    );
  });

  test('A written NIfTI header has all its codes, and colours need 8 bits', async () => {
    const bytes = Buffer.from(await written('a.nii', { size, affine, data }), 'latin1');
    const [shorts, floats] = [
      [40, 42, 44, 46, 48, 50, 68, 70, 72, 252, 254].map((at) => bytes.readInt16LE(at)),
      [76, 80, 84, 88, 92, 108, 112, 116, 280, 292, 300, 304, 316, 320, 324].map((at) =>
        bytes.readFloatLE(at),
      ),
    ];
    expect([
      bytes.length,
      bytes.readInt32LE(0),
      bytes.readUInt8(123),
      bytes.toString('latin1', 344, 348),
    ]).toEqual([360, 348, 10, 'n+1\0']);
    expect(shorts).toEqual([3, 2, 1, 2, 1, 1, 0, 4, 16, 1, 1]);
    expect(floats).toEqual([1, 2, 3, 4, 0, 352, 1, 0, -2, 10, -3, 0, 0, 4, 30]);
    expect([292, 308].map((at) => bytes.readFloatLE(at))).toEqual([10, 20]);
    const file = path.join(await workspace(), 'a.nii');
    const colours = { size, affine, data: Int16Array.from(counting(12)), components: 3 as const };
    expect(await refusalOf(writeNifti(file, colours))).toBe(
      'a.nii cannot be written: colours need values of 8 bits.',
    );
    const long = { size: [1, 1, 1] as const, affine, data: new Uint8Array(32_768), frames: 32_768 };
    expect(await refusalOf(writeNifti(file, long))).toBe(
      'a.nii cannot be written: NIfTI-1 holds at most 32767 voxels along an axis.',
    );
    await writeNifti(file, { ...long, data: new Uint8Array(32_767), frames: 32_767 });
    expect((await openVolume(file)).frames).toBe(32_767);
  });
});
