import { rm, truncate } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { openVolume, readVolume, type VolumeFile } from '../src/index.js';
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
])('%s is refused when it is opened if its last bytes are missing', async (name, ...parts) => {
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
])('Packed data of %s are refused if they end early, are changed or are too few', async (name, packed) => {
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

test('A slice before the damaged place of a packed file can be read', async () => {
  const voxels = Buffer.alloc(4 * 512 * 512, 3);
  const whole = gzip(niftiHeader({ size: [512, 512, 4], type: 'uint8' }), voxels);
  const file = await write(await workspace(), 'a.nii.gz', whole.subarray(0, -20));
  for await (const { values } of (await openVolume(file)).slices({ only: [0] })) expect(values[0]).toBe(3);
  expect(await refusalOf(readVolume(file))).toContain('damaged or cut short');
});

describe('A header with impossible sizes', () => {
  const huge = [30_000, 30_000, 30_000];
  test.each<[string, string, ...(string | Buffer)[]]>([
    ['a.nii', '1 x 1 x 65537', niftiHeader({ size: [1, 1, 65_537], type: 'uint8', isSecond: true })],
    ['a.nii', '11586 x 11586 x 1', niftiHeader({ size: [11_586, 11_586, 1], type: 'uint8' })],
    ['a.nii', '1 x 1 x 1', niftiHeader({ size: [1, 1, 1, 1_000_001], type: 'uint8', isSecond: true })],
    ['a.nii.gz', '10000 x 10000 x 400', gzip(niftiHeader({ size: [10_000, 10_000, 400] }))],
    ['a.mha', '11000 x 11000 x 1', meta('11000 11000 1', 'ElementNumberOfChannels = 5', local)],
  ])('%s of %s voxels is refused, because no scan is that large', async (name, words, ...parts) => {
    expect(await refusalOfFile(name, ...parts)).toContain(
      `${name} is damaged: its header says ${words} voxels`,
    );
  });

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
  ])('%s is refused before memory is allocated for its voxels', async (name, ...parts) => {
    const file = await write(await workspace(), name, ...parts);
    expect(await refusalOf(openVolume(file))).toMatch(
      /^\w\.\w+(\.gz)? is (damaged|cut short): its header says \d/,
    );
  });

  test.each([[[-3, 2, 4]], [[3, 2, 0]], [[3, 2, 4, -2]], [[]], [counting(9)]])(
    'A NIfTI file of the sizes %j is refused',
    async (wrong) => {
      expect(await refusalOfNifti({ size: wrong })).toContain('a.nii is damaged: its header says');
    },
  );

  test.each(['-3 2 4', '3 2 0', '3 2 x', '3 2.5 4'])('Files of the sizes %s are refused', async (sizes) => {
    expect(await refusalOfFile('a.nrrd', nrrd(sizes, 'encoding: raw', ''), bytes)).toContain(
      'a.nrrd is damaged',
    );
    expect(await refusalOfFile('a.mha', meta(sizes, local), bytes)).toContain('a.mha is damaged');
  });

  test('A header with an invalid voxel offset is refused', async () => {
    expect(await refusalOfNifti({ start: 1e30 })).toContain('a.nii is damaged');
    expect(
      await refusalOfFile('a.nrrd', nrrd('3 2 4', 'encoding: raw', 'byte skip: x', ''), bytes),
    ).toContain('a.nrrd is damaged');
  });

  test('A header whose axes have no direction is refused', async () => {
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

  test('A pattern of no file names, or of too many, is refused', async () => {
    const sentence = 'names no file with its voxels: write it again as one file.';
    for (const range of ['1 999999999 1', '1 5 0', '5 1 1'])
      expect(await refusalOfFile('a.mhd', meta('3 2 4', `ElementDataFile = %d.raw ${range}`))).toContain(
        sentence,
      );
    expect(await refusalOfFile('a.mhd', meta('3 2 4', 'ElementDataFile = LIST'))).toContain(sentence);
    expect(await refusalOfFile('a.mhd', meta('3 2 4', 'ElementDataFile = %999999999d.raw 1 4 1'))).toContain(
      'which is missing',
    );
  });
});

test('A data file that is missing, short, or outside the folder of its header is named in the refusal', async () => {
  const header = meta('3 2 4', 'ElementDataFile = a.raw');
  expect(await refusalOfFile('a.mhd', header)).toBe(
    'a.mhd has its voxels in a.raw, which is missing: keep both files together.',
  );
  for (const name of ['../a.raw', '/etc/passwd', 'b/../../a.raw', '..\\a.raw'])
    expect(await refusalOfFile('a.mhd', header.replace('a.raw', name))).toBe(
      `a.mhd names a data file outside its own folder (${name}): write its name without folders.`,
    );
  expect(await refusalOfFile('a.mhd', header.replace('a.raw', 'b/..c.raw'))).toContain('which is missing');
  const directory = await workspace();
  for (const k of counting(4))
    await write(directory, `${k}.raw`, bytes.subarray(12 * k, 12 * k + (k < 3 ? 12 : 11)));
  const list = await write(directory, 'a.mhd', header.replace('a.raw', '%d.raw 0 3'));
  expect(await refusalOf(openVolume(list))).toContain(
    'its header says 12 bytes of voxels, and 11 are there.',
  );
  await write(directory, 'a.hdr', niftiHeader({ size, magic: 'ni1' }));
  expect(await refusalOf(openVolume(path.join(directory, 'a.hdr')))).toContain('has its voxels in a.img');
  await write(directory, 'a.img', bytes.subarray(0, 40));
  expect(await refusalOf(openVolume(path.join(directory, 'a.hdr')))).toContain('and 40 are there');
});

test('A refusal names the unsupported content of a file and says what to do', async () => {
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

test('A file that is not a volume is refused with the list of formats', async () => {
  const advice =
    'cannot be read as a volume: give a NIfTI, NRRD, MetaImage, FreeSurfer or DICOM file, or a directory with a DICOM series.';
  for (const [name, content] of [
    ['a.nii', ''],
    ['a.nii.gz', 'hello'],
    ['a.mgz', gzipSync('hello')],
    ['a.img', bytes],
  ] as const)
    expect(await refusalOfFile(name, content)).toBe(`${name} ${advice}`);
  expect(await refusalOf(openVolume(path.join(await workspace(), 'gone.nii')))).toBe(
    'gone.nii does not exist.',
  );
});

test('A slice that a volume does not have is refused', async () => {
  const volume = await openVolume(await write(await workspace(), 'a.nii', niftiHeader({ size }), bytes));
  expect(await refusalOf(volume.slices({ only: [4] }).next())).toBe(
    'a.nii has 4 slices: there is no slice 5.',
  );
});

test('A file that becomes shorter, or is removed, after its header was read is refused', async () => {
  const [plain, packed] = [
    await write(await workspace(), 'a.nii', niftiHeader({ size }), bytes),
    await write(await workspace(), 'a.nii.gz', gzip(niftiHeader({ size }), bytes, Buffer.alloc(1 << 22))),
  ];
  const volumes = [await openVolume(plain), await openVolume(packed)];
  // Bytes after the voxels are ignored.
  expect((await readVolume(packed)).data).toEqual(Int16Array.from(counting(24)));
  await truncate(plain, 352 + 40);
  expect(await refusalOf(readVolume(volumes[0] as VolumeFile))).toContain('a.nii is cut short');
  for (const [at, file] of [plain, packed].entries()) {
    await rm(file);
    expect(await refusalOf(readVolume(volumes[at] as VolumeFile))).toContain('cannot be read (ENOENT');
  }
});

test('A reader that stops after a slice leaves no file open', async () => {
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
