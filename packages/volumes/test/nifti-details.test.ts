import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import { dicomFile, element } from '../../../test/support/dicom-files.js';
import { guessesOnNifti } from '../src/headers/index.js';
import { openVolume, readVolume, type VolumeFile, type WritableVolume, writeNifti } from '../src/index.js';
import { bytesOf, counting, gzip, mghHeader, niftiHeader, refusalOf, workspace, write } from './written.js';

const size = [3, 2, 4] as const;
const bytes = bytesOf(counting(24), 'int16');

async function opened(name: string, ...parts: (string | Buffer)[]): Promise<VolumeFile> {
  return openVolume(await write(await workspace(), name, ...parts));
}
const refusal = async (name: string, ...parts: (string | Buffer)[]) => refusalOf(opened(name, ...parts));

describe('NIfTI and FreeSurfer', () => {
  test.each<[string, Buffer, string]>([
    ['a.nii', niftiHeader({ size, isSecond: true }).subarray(0, 539), 'a.nii is cut short in its header.'],
    ['a.nii', niftiHeader({ size, code: 1 }), 'a.nii holds single bits: convert it to float32 or int16.'],
    [
      'a.nii',
      niftiHeader({ size: [] }),
      'a.nii is damaged: its header says 0 dimensions. Copy it again from the original.',
    ],
    [
      'a.nii',
      niftiHeader({ size: counting(8) }),
      'a.nii is damaged: its header says 8 dimensions. Copy it again from the original.',
    ],
    [
      'a.nii',
      niftiHeader({ size: [3, -2] }),
      'a.nii is damaged: its header says 3 x -2 voxels. Copy it again from the original.',
    ],
    [
      'a.nii',
      niftiHeader({ size: [3, 2, 0, 1] }),
      'a.nii is damaged: its header says 3 x 2 x 0 x 1 voxels. Copy it again from the original.',
    ],
    ['a.mgh', mghHeader({ size: [3, 2, 4, 1], code: 2 }), 'a.mgh holds values of an unknown type (2).'],
  ])('%s is refused with the reason (%#)', async (name, header, sentence) => {
    expect(await refusal(name, header, sentence.includes('cut short') ? '' : bytes)).toBe(sentence);
  });

  test('The voxels of NIfTI begin where the header says, but never within it', async () => {
    const read = async (...parts: Buffer[]) => [
      ...(await readVolume(await write(await workspace(), 'a.nii', ...parts))).data,
    ];
    expect(await read(niftiHeader({ size, start: 360 }), Buffer.alloc(8), bytes)).toEqual(counting(24));
    for (const start of [0, 100, Number.NaN])
      expect(await read(niftiHeader({ size, start }), bytes)).toEqual(counting(24));
    expect(await read(niftiHeader({ size, isSecond: true, start: 0 }), bytes)).toEqual(counting(24));
  });

  test('A quaternion of a half turn is read exactly, even if it was rounded', async () => {
    const affineOf = async (qform: number[]) =>
      (await opened('a.nii', niftiHeader({ size, qform, pixelSizes: [0, 2, 3, 4] }), bytes)).affine;
    const turned = straight([-2, 3, -4], [1, 2, 3]).map((row) =>
      row.map((value) => expect.closeTo(value, 6)),
    );
    expect(await affineOf([0, 1, 0, 1, 2, 3])).toEqual(turned);
    expect(await affineOf([0, 1.00001, 0, 1, 2, 3])).toEqual(turned);
    const diagonal = [
      [0, 3, 0, 1],
      [2, 0, 0, 2],
      [0, 0, -4, 3],
    ].map((row) => row.map((value) => expect.closeTo(value, 6)));
    expect(await affineOf([Math.SQRT1_2, Math.SQRT1_2, 0, 1, 2, 3])).toEqual(diagonal);
  });

  test('A voxel size of 0 becomes one millimetre, and colours are not scaled', async () => {
    const { affine } = await opened('a.nii', niftiHeader({ size, pixelSizes: [1, -2, 0, 4] }), bytes);
    expect(affine).toEqual(straight([-2, 1, 4], [2, -0.5, -6]));
    const header = niftiHeader({ size: [1, 1, 2], code: 128, slope: 2, intercept: 1 });
    const file = await write(await workspace(), 'a.nii', header, Buffer.from(counting(6)));
    expect((await readVolume(file)).data).toEqual(Uint8Array.from(counting(6)));
  });

  test('The voxels of a pair may be in a file whose name is that of the header plus .img, and a missing file is named', async () => {
    const directory = await workspace();
    const header = await write(directory, 'a', niftiHeader({ size, magic: 'ni1' }));
    expect(await refusalOf(openVolume(header))).toBe(
      'a has its voxels in a.img, which is missing: keep both files together.',
    );
    await write(directory, 'a.img', bytes);
    expect((await openVolume(header)).dataFiles).toEqual([path.join(directory, 'a.img')]);
    await mkdir(path.join(directory, 'b.img'));
    const other = await write(directory, 'b.hdr', niftiHeader({ size, magic: 'ni1' }));
    expect(await refusalOf(openVolume(other))).toContain('which is missing');
    const packed = await write(directory, 'b.img.gz', gzip(bytes));
    expect((await openVolume(other)).dataFiles).toEqual([packed]);
  });

  test('FreeSurfer is recognised by its name and a whole header', async () => {
    const header = mghHeader({ size: [3, 2, 4, 1], code: 4 });
    expect((await opened('a.mgh.gz', gzip(header, bytesOf(counting(24), 'int16', true)))).format).toBe(
      'FreeSurfer',
    );
    for (const [name, content] of [
      ['a.dat', header],
      ['a.mgh', header.subarray(0, 283)],
    ] as const)
      expect(await refusal(name, content)).toContain('cannot be read as a volume');
  });
});

test('A FreeSurfer volume without a position is coronal, whatever else its header says', async () => {
  const axes = [1, 0, 0, 0, 1, 0, 0, 0, 1];
  const header = mghHeader({ size: [2, 2, 4, 1], code: 4, spacing: [2, 3, 4], axes, centre: [5, 6, 7] });
  header.writeInt16BE(0, 28);
  const { affine, hasOrientation } = await opened('a.mgh', header, bytesOf(counting(16), 'int16', true));
  expect(hasOrientation).toBe(false);
  expect(affine).toEqual([
    [-1, 0, 0, 1],
    [0, 0, 1, -2],
    [0, -1, 0, 1],
  ]);
});

test('A volume in memory keeps its unit and whether it is inverted', async () => {
  const more = (photometric: string, modality: string) => [
    ...[element(0x00280004, 'CS', photometric), element(0x00080060, 'CS', modality)],
    element(0x00180050, 'DS', '1'),
  ];
  const read = async (photometric: string, modality: string) => {
    const slice = {
      pixels: new Int16Array(4),
      size: [2, 2] as const,
      position: [0, 0, 0],
      more: more(photometric, modality),
    };
    return readVolume(await write(await workspace(), 'a.dcm', dicomFile(slice)));
  };
  expect(await read('MONOCHROME1', 'CT')).toMatchObject({ isInverted: true, unit: 'HU', modality: 'CT' });
  const plain = await read('MONOCHROME2', 'MR');
  expect('isInverted' in plain || 'unit' in plain).toBe(false);
});

test('A left-right conflict between sform and qform is reported, and the sform is used', async () => {
  const sform = [-1, 0, 0, 5, 0, 1, 0, 0, 0, 0, 1, 0];
  const read = async (qform: readonly number[], rows = sform) => {
    const header = niftiHeader({ size: [3, 2, 4], sform: rows, qform });
    return openVolume(await write(await workspace(), 'a.nii', header, Buffer.alloc(48)));
  };
  const contradictory = await read([0, 0, 0, 5, 0, 0]);
  expect(contradictory.hasContradictorySides).toBe(true);
  expect(contradictory.affine[0]).toEqual([-1, 0, 0, 5]);
  // A half turn around the second axis has the first axis to the left as well.
  expect((await read([0, 1, 0, 5, 0, 0])).hasContradictorySides).toBeUndefined();
  // A sform of zeros does not count.
  expect(
    (
      await read(
        [0, 0, 0, 5, 0, 0],
        sform.map(() => 0),
      )
    ).hasContradictorySides,
  ).toBeUndefined();
});

test('A volume whose qform differs from its sform is written with both and their codes', async () => {
  const directory = await workspace();
  const sform = [-1, 0, 0, 5, 0, 1, 0, 0, 0, 0, 1, 0];
  // A quarter turn around the third axis, at another place.
  const quarter = [0, 0, Math.SQRT1_2, 1, 2, 3];
  for (const [name, qform, isContradictory] of [
    ['turned', quarter, false],
    ['mirrored', [0, 0, 0, 5, 0, 0], true],
  ] as const) {
    const header = niftiHeader({ size: [3, 2, 4], sform, qform });
    const scan = await readVolume(await write(directory, `${name}.nii`, header, Buffer.alloc(48)));
    expect([scan.hasContradictorySides ?? false, scan.qform === undefined]).toEqual([isContradictory, false]);
    const file = path.join(directory, `${name}_mask.nii`);
    await writeNifti(file, { ...scan, data: new Uint8Array(24) });
    const mask = await readVolume(file);
    expect(mask.affine).toEqual(scan.affine);
    expect(mask.qform?.affine.flat().map((each) => Math.round(each * 1e5) / 1e5 + 0)).toEqual(
      scan.qform?.affine.flat().map((each) => Math.round(each * 1e5) / 1e5 + 0),
    );
    expect([mask.qform?.qformCode, mask.qform?.sformCode]).toEqual([
      scan.qform?.qformCode,
      scan.qform?.sformCode,
    ]);
  }
});

test('A time series is written into the fourth dimension with its seconds, and vectors into the fifth', async () => {
  const directory = await workspace();
  const volume = { ...{ size: [3, 2, 4] as const, frames: 5 }, data: new Int16Array(120) };
  const affine = straight();
  const written = async (name: string, more: Partial<WritableVolume>) => {
    const file = path.join(directory, name);
    await writeNifti(file, { ...volume, affine, ...more });
    const header = readFileSync(file);
    const dim = Array.from({ length: 6 }, (_, at) => header.readInt16LE(40 + 2 * at));
    return [dim, header.readInt16LE(68), header.readFloatLE(92), await readVolume(file)] as const;
  };
  const [dim, intent, step, series] = await written('t.nii', { isTimeSeries: true, secondsPerFrame: 2.5 });
  expect([dim, intent, step]).toEqual([[4, 3, 2, 4, 5, 1], 0, 2.5]);
  expect([series.frames, series.secondsPerFrame, series.hasVectors]).toEqual([5, 2.5, undefined]);
  const [vectorDim, vectorIntent, , vectors] = await written('v.nii', {});
  expect([vectorDim, vectorIntent, vectors.hasVectors]).toEqual([[5, 3, 2, 4, 1, 5], 1007, true]);
});

test('Facts that readers of a NIfTI file have to guess are detected from its first bytes', () => {
  const sform = [-1, 0, 0, 5, 0, 1, 0, 0, 0, 0, 1, 0];
  expect(guessesOnNifti(niftiHeader({ size, sform }))).toEqual([]);
  expect(guessesOnNifti(gzip(niftiHeader({ size, sform, units: 8 })))).toEqual([
    'does not say its unit of length: millimetres are a guess',
  ]);
  expect(guessesOnNifti(niftiHeader({ size }))).toEqual([
    'has no orientation, so that left and right are a guess',
  ]);
  expect(guessesOnNifti(niftiHeader({ size, sform, qform: [0, 0, 0, 5, 0, 0] }))).toEqual([
    'has an sform and a qform that contradict each other in left and right',
  ]);
  expect(guessesOnNifti(Buffer.from('no NIfTI'))).toEqual([]);
});
