import { truncate } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { openVolume, readVolume } from '../src/index.js';
import {
  bytesOf,
  counting,
  gzip,
  lines,
  mghHeader,
  type NiftiHeader,
  niftiHeader,
  refusalOf,
  workspace,
  write,
  zlib,
} from './written.js';

const size = [3, 2, 4] as const;
const bytes = bytesOf(counting(24), 'int16');
const again = 'Copy it again from the original.';
const nrrd = (sizes: string, ...more: string[]) =>
  lines('NRRD0004', 'type: short', 'endian: little', 'dimension: 3', `sizes: ${sizes}`, ...more);
const meta = (dimensions: string, ...more: string[]) =>
  lines('NDims = 3', `DimSize = ${dimensions}`, 'ElementType = MET_SHORT', ...more);
const local = 'ElementDataFile = LOCAL';

/** What a file is refused with, whether its header is opened or all of it read. */
async function refusalOfFile(name: string, ...parts: (string | Buffer)[]): Promise<string> {
  const file = await write(await workspace(), name, ...parts);
  return refusalOf(readVolume(file));
}
const refusalOfNifti = (given: Partial<NiftiHeader>, voxels = bytes) =>
  refusalOfFile('a.nii', niftiHeader({ size, ...given }), voxels);

test.each<[string, ...(string | Buffer)[]]>([
  ['a.nii', niftiHeader({ size }), bytes],
  ['a.mgh', mghHeader({ size: [...size, 1], code: 4 }), bytes],
  ['a.nrrd', nrrd('3 2 4', 'encoding: raw', ''), bytes],
  ['a.mha', meta('3 2 4', local), bytes],
])('%s of which the last bytes are missing is refused when it is opened.', async (name, ...parts) => {
  const file = await write(await workspace(), name, ...parts);
  await openVolume(file);
  await truncate(file, Buffer.concat(parts.map((part) => Buffer.from(part))).length - 5);
  expect(await refusalOf(openVolume(file))).toBe(
    `${name} is cut short: its header says 48 bytes of voxels, and 43 are there. ${again}`,
  );
});

test.each<[string, (voxels: Buffer) => Buffer]>([
  ['a.nii.gz', (voxels) => gzip(niftiHeader({ size }), voxels)],
  ['a.mgz', (voxels) => gzip(mghHeader({ size: [...size, 1], code: 4 }), voxels)],
  ['a.nrrd', (voxels) => Buffer.concat([Buffer.from(nrrd('3 2 4', 'encoding: gzip', '')), gzip(voxels)])],
  [
    'a.mha',
    (voxels) => Buffer.concat([Buffer.from(meta('3 2 4', 'CompressedData = True', local)), zlib(voxels)]),
  ],
])('Packed data of %s that end early, are changed, or are too few, are refused.', async (name, packed) => {
  const whole = packed(bytes);
  const damaged = `${name} is damaged or cut short: its packed data cannot be unpacked`;
  expect(await refusalOfFile(name, whole.subarray(0, -6))).toBe(
    `${damaged} (unexpected end of file). ${again}`,
  );
  // The checksum is followed by the length in gzip data; zlib data end with it.
  const changed = Buffer.from(whole);
  const at = whole.length - (name === 'a.mha' ? 2 : 6);
  changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
  expect(await refusalOfFile(name, changed)).toBe(`${damaged} (incorrect data check). ${again}`);
  expect(await refusalOfFile(name, packed(bytes.subarray(0, -8)))).toBe(
    `${name} is cut short: its header says 48 bytes of voxels, and 40 are there. ${again}`,
  );
});

test('A slice before the damaged place of a packed file can be read.', async () => {
  const voxels = Buffer.alloc(4 * 512 * 512, 3);
  const whole = gzip(niftiHeader({ size: [512, 512, 4], type: 'uint8' }), voxels);
  const file = await write(await workspace(), 'a.nii.gz', whole.subarray(0, -20));
  for await (const { values } of (await openVolume(file)).slices({ only: [0] })) expect(values[0]).toBe(3);
  expect(await refusalOf(readVolume(file))).toContain('damaged or cut short');
});

describe('a header that lies is refused before memory is taken:', () => {
  const huge = [30_000, 30_000, 30_000];
  test.each<[string, ...(string | Buffer)[]]>([
    ['a.nii', niftiHeader({ size: huge }), bytes],
    ['a.nii.gz', gzip(niftiHeader({ size: huge }), bytes)],
    ['b.nii.gz', gzip(niftiHeader({ size: [...huge, 30_000, 30_000, 30_000, 30_000] }), bytes)],
    ['c.nii.gz', gzip(niftiHeader({ size: [1, 1, 2 ** 40], isSecond: true }), bytes)],
    ['d.nii.gz', gzip(niftiHeader({ size: [2 ** 62, 2, 2], isSecond: true }), bytes)],
    ['a.mgz', gzip(mghHeader({ size: [30_000, 30_000, 30_000, 1], code: 4 }), bytes)],
    ['a.nrrd', nrrd('30000 30000 30000', 'encoding: raw', ''), bytes],
    ['b.nrrd', nrrd('30000 30000 30000', 'encoding: gzip', ''), gzip(bytes)],
    ['a.mha', meta('30000 30000 30000', local), bytes],
    ['b.mha', meta('30000 30000 30000', 'CompressedData = True', local), zlib(bytes)],
  ])('%s', async (name, ...parts) => {
    const file = await write(await workspace(), name, ...parts);
    expect(await refusalOf(openVolume(file))).toMatch(
      /^\w\.\w+(\.gz)? is (damaged|cut short): its header says \d/,
    );
  });

  test.each([[[-3, 2, 4]], [[3, 2, 0]], [[3, 2, 4, -2]], [[]], [counting(9)]])(
    'NIfTI of sizes %j',
    async (wrong) => {
      expect(await refusalOfNifti({ size: wrong })).toContain('a.nii is damaged: its header says');
    },
  );

  test.each(['-3 2 4', '3 2 0', '3 2 x', '3 2.5 4'])('NRRD and MetaImage of sizes %s', async (sizes) => {
    expect(await refusalOfFile('a.nrrd', nrrd(sizes, 'encoding: raw', ''), bytes)).toContain(
      'a.nrrd is damaged',
    );
    expect(await refusalOfFile('a.mha', meta(sizes, local), bytes)).toContain('a.mha is damaged');
  });

  test('A header that lies is refused before memory is taken: voxels that begin nowhere', async () => {
    expect(await refusalOfNifti({ start: 1e30 })).toContain('a.nii is damaged');
    expect(
      await refusalOfFile('a.nrrd', nrrd('3 2 4', 'encoding: raw', 'byte skip: x', ''), bytes),
    ).toContain('a.nrrd is damaged');
  });

  test('A header that lies is refused before memory is taken: axes that have no direction', async () => {
    const flat = new Array(12).fill(0);
    const sentence = 'is damaged: its axes have no direction or no length.';
    expect(await refusalOfNifti({ sform: flat })).toContain(`a.nii ${sentence}`);
    expect(await refusalOfNifti({ sform: [Number.NaN, ...flat.slice(1)] })).toContain(`a.nii ${sentence}`);
    expect(await refusalOfNifti({ qform: [0, 0, 0, 0, 0, 0], pixelSizes: [1, 0, 1, 1] })).toContain(sentence);
    expect(await refusalOfFile('a.mha', meta('3 2 4', 'TransformMatrix = 1 0 0', local), bytes)).toContain(
      sentence,
    );
    const directions = 'space directions: (1,0,0) (1,0,0) (0,0,1)';
    expect(await refusalOfFile('a.nrrd', nrrd('3 2 4', directions, 'encoding: raw', ''), bytes)).toContain(
      sentence,
    );
  });

  test('A pattern of more files than there can be, or of none', async () => {
    const sentence = 'names no file with its voxels: write it again as one file.';
    for (const range of ['1 999999999 1', '1 5 0', '5 1 1'])
      expect(await refusalOfFile('a.mhd', meta('3 2 4', `ElementDataFile = %d.raw ${range}`))).toContain(
        sentence,
      );
    expect(await refusalOfFile('a.mhd', meta('3 2 4', 'ElementDataFile = LIST'))).toContain(sentence);
    expect(await refusalOfFile('a.mhd', meta('3 2 4', 'ElementDataFile = %999999999d.raw 1 4 1'))).toContain(
      'which is not there',
    );
  });
});

test('A data file that is missing, short, or outside the folder of its header is named.', async () => {
  const header = meta('3 2 4', 'ElementDataFile = a.raw');
  expect(await refusalOfFile('a.mhd', header)).toBe(
    'a.mhd has its voxels in a.raw, which is not there: keep both together.',
  );
  for (const name of ['../a.raw', '/etc/passwd', 'b/../../a.raw', '..\\a.raw'])
    expect(await refusalOfFile('a.mhd', header.replace('a.raw', name))).toBe(
      `a.mhd names a data file outside its own folder (${name}): write its name without folders.`,
    );
  const directory = await workspace();
  await write(directory, 'a.hdr', niftiHeader({ size, magic: 'ni1' }));
  expect(await refusalOf(openVolume(path.join(directory, 'a.hdr')))).toContain('has its voxels in a.img');
  await write(directory, 'a.img', bytes.subarray(0, 40));
  expect(await refusalOf(openVolume(path.join(directory, 'a.hdr')))).toContain('and 40 are there');
});

test('What is not read says what it is, and what to do.', async () => {
  expect(await refusalOfNifti({ code: 32 })).toContain('a.nii holds complex numbers: convert it');
  expect(await refusalOfNifti({ code: 1536 })).toContain('holds numbers of 128 bits: convert it');
  expect(await refusalOfNifti({ code: 9999 })).toContain('values of an unknown type (9999)');
  for (const encoding of ['ascii', 'hex', 'bzip2'])
    expect(await refusalOfFile('a.nrrd', nrrd('3 2 4', `encoding: ${encoding}`, ''), bytes)).toBe(
      `a.nrrd is encoded as ${encoding}: write it again as raw or gzip.`,
    );
  const block = nrrd('3 2 4', 'encoding: raw', '').replace('short', 'block');
  expect(await refusalOfFile('a.nrrd', block, bytes)).toContain('holds values of the type block');
  expect(await refusalOfFile('a.mha', meta('3 2 4', 'BinaryData = False', local), '1 2 3')).toContain(
    'a.mha holds its voxels as text',
  );
  expect(await refusalOfFile('a.mha', meta('3 2 4'))).toContain('its header has no end (ElementDataFile)');
  const middle = lines('NRRD0004', 'type: short', 'dimension: 4', 'sizes: 3 2 2 4', 'endian: little');
  const kinds = lines('kinds: domain list domain domain', 'encoding: raw', '');
  expect(await refusalOfFile('a.nrrd', middle, kinds, bytes)).toContain(
    'axes that are not those of a volume',
  );
});

test('What is no volume is said to be none.', async () => {
  const advice =
    'cannot be read as a volume: give a NIfTI, NRRD, MetaImage, FreeSurfer or DICOM file, or a directory with a DICOM series.';
  for (const [name, content] of [
    ['a.nii', ''],
    ['a.nii.gz', 'hello'],
    ['a.nii', niftiHeader({ size }).subarray(0, 300)],
    ['a.mgz', gzipSync('hello')],
    ['a.img', bytes],
  ] as const)
    expect(await refusalOfFile(name, content)).toBe(`${name} ${advice}`);
  expect(await refusalOf(openVolume(path.join(await workspace(), 'gone.nii')))).toBe(
    'gone.nii does not exist.',
  );
});

test('A slice that a volume does not have is refused by its number.', async () => {
  const volume = await openVolume(await write(await workspace(), 'a.nii', niftiHeader({ size }), bytes));
  expect(await refusalOf(volume.slices({ only: [4] }).next())).toBe(
    'a.nii has 4 slices: there is no number 5.',
  );
});

test('Whoever stops after a slice leaves no file open.', async () => {
  const directory = await workspace();
  const voxels = Buffer.alloc(8 * 1024 * 1024, 1);
  const header = niftiHeader({ size: [1024, 1024, 8], type: 'uint8' });
  for (const [name, ...parts] of [
    ['a.nii', header, voxels],
    ['a.nii.gz', gzip(header, voxels)],
  ] as [string, ...Buffer[]][]) {
    const volume = await openVolume(await write(directory, name, ...parts));
    const slices = volume.slices();
    expect((await slices.next()).value?.k).toBe(0);
    await slices.return();
    expect(await slices.next()).toEqual({ done: true, value: undefined });
  }
});
