import { truncate } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { dicomFile, element, type Slice } from '../../../test/support/dicom-files.js';
import { readStart } from '../src/headers/index.js';
import { faultOfVolume } from '../src/index.js';
import { bytesOf, counting, gzip, lines, mghHeader, niftiHeader, workspace, write, zlib } from './written.js';

const size = [30, 20, 4] as const;
const voxels = bytesOf(counting(2400), 'int16');
const nrrd = (...more: string[]) =>
  lines('NRRD0004', 'type: short', 'endian: little', 'dimension: 3', 'sizes: 30 20 4', ...more, '');
const meta = (...more: string[]) =>
  lines('NDims = 3', 'DimSize = 30 20 4', 'ElementType = MET_SHORT', ...more, 'ElementDataFile = LOCAL');
const mgh = mghHeader({ size: [...size, 1], code: 4 });
const slice: Slice = { pixels: new Int16Array(600), size: [30, 20], position: [0, 0, 0] };
const more = [element(0x00180050, 'DS', '2')];
const whole: readonly (readonly [string, Buffer, RegExp])[] = [
  ['a.nii', Buffer.concat([niftiHeader({ size }), voxels]), /^is cut short: its header says 4800 bytes/],
  ['a.nii.gz', gzip(niftiHeader({ size }), voxels), /^is damaged or cut short: its packed data/],
  // Several members, and bytes after the voxels: the size at the end of the file is another.
  ['b.nii.gz', Buffer.concat([gzip(niftiHeader({ size })), gzip(voxels)]), /^is damaged or cut short/],
  ['c.nii.gz', gzip(niftiHeader({ size }), voxels, 'more'), /^is damaged or cut short/],
  ['a.mgh', Buffer.concat([mgh, voxels]), /^is cut short/],
  ['a.mgz', gzip(mgh, voxels, Buffer.alloc(99)), /^is damaged or cut short/],
  ['a.nrrd', Buffer.concat([Buffer.from(nrrd('encoding: raw')), voxels]), /^is cut short/],
  ['b.nrrd', Buffer.concat([Buffer.from(nrrd('encoding: gzip')), gzip(voxels)]), /^is damaged or cut short/],
  ['a.mha', Buffer.concat([Buffer.from(meta()), voxels]), /^is cut short/],
  ['b.mha', Buffer.concat([Buffer.from(meta('CompressedData = True')), zlib(voxels)]), /^is damaged or cut/],
  [
    'c.mha',
    Buffer.concat([
      Buffer.from(meta('CompressedData = True', `CompressedDataSize = ${zlib(voxels).length}`)),
      zlib(voxels),
    ]),
    /^is cut short: its header says \d+ packed bytes/,
  ],
  ['a.dcm', dicomFile({ ...slice, more }), /^is cut short or damaged/],
  ['b.dcm', dicomFile({ ...slice, more }, { isDeflated: true }), /^is cut short or damaged/],
  ['a.nrrd.gz', gzip(nrrd('encoding: raw'), voxels), /^is damaged or cut short/],
  ['a.mnc.gz', gzip('CDF\u0001', voxels), /^is damaged or cut short/],
];

test.each(whole)('%s is accepted as complete, and a missing end is reported', async (name, bytes, fault) => {
  const file = await write(await workspace(), name, bytes);
  expect(await faultOfVolume(file)).toBeNull();
  for (const missing of [10, Math.floor(bytes.length / 3)]) {
    await truncate(file, bytes.length - missing);
    expect(await faultOfVolume(file)).toMatch(fault);
  }
});

test.each<[string, string, string | Buffer, string]>([
  ['NIfTI', 'a.nii', niftiHeader({ size }).subarray(0, 300), 'is cut short in its header'],
  [
    'MetaImage',
    'a.mha',
    meta().slice(0, 40),
    'is damaged: its header has no end (ElementDataFile). Copy it again from the original',
  ],
  [
    'NRRD',
    'a.nrrd',
    nrrd('encoding: raw').slice(0, -9),
    'is damaged: its header has no end. Copy it again from the original',
  ],
  [
    'gzip in gzip',
    'a.nii.gz',
    gzip(gzip(niftiHeader({ size }), voxels)),
    'is damaged: it is packed with gzip twice, unpack it once',
  ],
])('A file is a fault whose header cannot be read: %s', async (_, name, bytes, fault) => {
  expect(await faultOfVolume(await write(await workspace(), name, bytes))).toBe(fault);
});

test('Voxels missing from complete gzip data are reported as a fault', async () => {
  const file = await write(await workspace(), 'a.nii.gz', gzip(niftiHeader({ size }), voxels.subarray(8)));
  expect(await faultOfVolume(file)).toBe(
    'is cut short: its header says 4800 bytes of voxels, and 4792 are there. Copy it again from the original',
  );
  // Layers of a segmentation of 3D Slicer.
  const header = lines(
    ...['NRRD0004', 'type: uchar', 'dimension: 4', 'sizes: 2 30 20 4', 'kinds: list domain domain domain'],
    ...['encoding: gzip', 'Segment0_Name:=a', 'Segment0_Layer:=0', 'Segment1_Name:=b', ''],
  );
  const layers = await write(await workspace(), 'a.seg.nrrd', header, gzip(Buffer.alloc(4799)));
  expect(await faultOfVolume(layers)).toContain('is cut short: its header says 4800 bytes of voxels');
});

test.each([
  ['a.nii.gz', Buffer.concat([niftiHeader({ size }), voxels]), 'is not packed with gzip, as its name says'],
  ['a.mgz', Buffer.concat([mgh, voxels]), 'is not packed with gzip, as its name says'],
  ['a.nii', gzip(niftiHeader({ size }), voxels), 'is packed with gzip, which its name does not say'],
  ['a.mgh', gzip(mgh, voxels), 'is packed with gzip, which its name does not say'],
  ['a.nrrd', gzip(nrrd('encoding: raw'), voxels), 'is packed with gzip, which its name does not say'],
  ['a.dcm', gzip(dicomFile(slice)), 'is packed with gzip, which its name does not say'],
])('%s is reported as faulty if its compression does not match its name', async (name, bytes, fault) => {
  expect(await faultOfVolume(await write(await workspace(), name, bytes))).toContain(fault);
});

test('A volume is not reported as faulty if its format is not read or something else is wrong with it', async () => {
  const directory = await workspace();
  for (const [name, ...parts] of [
    ['a.txt', 'text'],
    ['complex.nii', niftiHeader({ size, code: 32 }), voxels],
    ['flat.nii', niftiHeader({ size, sform: new Array(12).fill(0) }), voxels],
    ['single.dcm', dicomFile(slice)],
  ] as const)
    expect(await faultOfVolume(await write(directory, name, ...parts))).toBeNull();
});

test('The first bytes of a DICOM image show whether its pixels are all there', async () => {
  const isWhole = async (bytes: Buffer) =>
    (await readStart(await write(await workspace(), 'a', bytes))).isWhole;
  for (const encoding of [{}, { isImplicit: true }, { isBig: true }, { hasPreamble: false }]) {
    const bytes = dicomFile(slice, encoding);
    expect([await isWhole(bytes), await isWhole(bytes.subarray(0, -2))]).toEqual([true, false]);
  }
  const short = dicomFile({ ...slice, pixels: new Int16Array(599) });
  const packed = { syntax: '1.2.840.10008.1.2.5', fragments: [Buffer.alloc(8)] };
  const compressed = dicomFile(slice, { packed });
  expect([
    await isWhole(short),
    await isWhole(compressed),
    await isWhole(compressed.subarray(0, -4)),
  ]).toEqual([...[false, true, false]]);
  // A header may go on after the first bytes. Packed files need a closer look.
  const long = dicomFile({ ...slice, more: [element(0x00190010, 'OB', Buffer.alloc(20_000))] });
  expect([await isWhole(long), await isWhole(gzipSync(dicomFile(slice)))]).toEqual([true, false]);
});
