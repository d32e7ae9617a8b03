import { truncate } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { isAffine } from '../src/headers/nifti-forms.js';
import { type Affine, VolumeError } from '../src/index.js';
import {
  besideHeader,
  type StoredVoxels,
  storedData,
  storedPlanes,
  storedVolume,
} from '../src/stored-voxels.js';
import { bytesOf, counting, gzip, refusalOf, workspace, write } from './written.js';

const affine: Affine = [
  [1, 0, 0, 0],
  [0, 1, 0, 0],
  [0, 0, 1, 0],
];
const header = { format: 'any', hasOrientation: true };
/** Voxels of 2 x 1 x 3, in two volumes of 16 bits. */
const facts: Omit<StoredVoxels, 'path' | 'dataFiles'> = {
  ...{ isPacked: false, packedFrom: 0, start: 0, type: 'int16', isBigEndian: false, size: [2, 1, 3] },
  ...{ components: 1, frames: 2, isInterleaved: false, slope: 1, intercept: 0 },
};
const count = 12;
const bytes = bytesOf(counting(count), 'int16');

async function voxels(given: Partial<StoredVoxels> = {}, ...files: readonly Buffer[]): Promise<StoredVoxels> {
  const directory = await workspace();
  const dataFiles: string[] = [];
  for (const [at, content] of (files.length > 0 ? files : [bytes]).entries())
    dataFiles.push(await write(directory, `${at}.raw`, content));
  return { ...facts, path: path.join(directory, 'a.mhd'), dataFiles: dataFiles as [string], ...given };
}
const planesOf = async (stored: StoredVoxels, frames: readonly number[], only?: readonly number[]) => {
  const all: [number, number, number[]][] = [];
  for await (const { frame, k, values } of storedPlanes(stored, frames, only))
    all.push([frame, k, [...values]]);
  return all;
};
const again = 'Copy it again from the original.';

test('A volume says where it is, what is in it, and which other files it is in.', async () => {
  const stored = await voxels();
  const { slices, ...volume } = await storedVolume(stored, affine, { ...header, modality: 'CT', unit: 'HU' });
  expect(volume).toEqual({
    ...{ path: stored.path, dataFiles: stored.dataFiles, size: [2, 1, 3], affine, components: 1, frames: 2 },
    ...{ modality: 'CT', unit: 'HU', labels: null, format: 'any', hasOrientation: true, stored },
  });
  const local = await voxels();
  expect('dataFiles' in (await storedVolume({ ...local, path: local.dataFiles[0] }, affine, header))).toBe(
    false,
  );
  expect(slices).toBeInstanceOf(Function);
});

describe('Files that a header names', () => {
  test.each(['/a.raw', '../a.raw', 'b/../../a.raw', '..\\a.raw', 'b\\..\\a.raw'])(
    'Files that a header names are not outside its folder: %s',
    (name) => {
      expect(() => besideHeader('dir/a.mhd', ['a.raw', name])).toThrow(
        new VolumeError(
          `a.mhd names a data file outside its own folder (${name}): write its name without folders.`,
        ),
      );
    },
  );

  test('Files that a header names lie beside it or below, and there is one at least', () => {
    expect(besideHeader('dir/a.mhd', ['b/..c.raw', 'd...raw'])).toEqual(['dir/b/..c.raw', 'dir/d...raw']);
    expect(() => besideHeader('dir/a.mhd', [])).toThrow(
      new VolumeError('a.mhd names no file with its voxels: write it again as one file.'),
    );
  });
});

describe('Voxels are refused', () => {
  const refusal = async (given: Partial<StoredVoxels>, ...files: readonly Buffer[]) => {
    const stored = await voxels(given, ...files);
    return refusalOf(storedVolume(stored, affine, header));
  };
  const damaged = (size: string, of: number, times: number) =>
    `a.mhd is damaged: its header says ${size} voxels of ${of} bytes, ${times} times. ${again}`;
  test.each<[Partial<StoredVoxels>, string]>([
    [{ size: [2, 0, 3] }, damaged('2 x 0 x 3', 2, 2)],
    [{ size: [2, 1.5, 3] }, damaged('2 x 1.5 x 3', 2, 2)],
    [{ frames: 0 }, damaged('2 x 1 x 3', 2, 0)],
    [{ frames: 1_000_001, size: [1, 1, 1], type: 'uint8' }, damaged('1 x 1 x 1', 1, 1_000_001)],
    [{ size: [1, 1, 65_537], type: 'uint8' }, damaged('1 x 1 x 65537', 1, 2)],
    [{ size: [11_586, 11_586, 1], type: 'uint8' }, damaged('11586 x 11586 x 1', 1, 2)],
    [
      { size: [11_000, 11_000, 1], type: 'uint8', isInterleaved: true, frames: 9 },
      damaged('11000 x 11000 x 1', 1, 9),
    ],
    [
      { size: [10_000, 10_000, 400], isPacked: true, components: 1, frames: 1 },
      damaged('10000 x 10000 x 400', 2, 1),
    ],
    [{ start: -1 }, damaged('2 x 1 x 3', 2, 2)],
    [{ start: 0.5 }, damaged('2 x 1 x 3', 2, 2)],
    [{ components: 3, frames: 0 }, damaged('2 x 1 x 3', 6, 0)],
    [{ start: 1 }, `a.mhd is cut short: its header says 24 bytes of voxels, and 23 are there. ${again}`],
    [{ start: 99 }, `a.mhd is cut short: its header says 24 bytes of voxels, and 0 are there. ${again}`],
    [
      { start: null, frames: 3 },
      `a.mhd is cut short: its header says 36 bytes of voxels, and 24 are there. ${again}`,
    ],
    [
      { isPacked: true, size: [100, 100, 3] },
      `a.mhd is cut short: its header says 120000 bytes of voxels, which are not in 24 packed bytes. ${again}`,
    ],
  ])('Voxels are refused of which a header says %j', async (given, sentence) => {
    expect(await refusal(given)).toBe(sentence);
  });

  test('Voxels are refused in several files of which one is missing or short, or that do not hold whole slices', async () => {
    const parts = [bytes.subarray(0, 12), bytes.subarray(12, 23)];
    expect(await refusal({}, ...parts)).toBe(
      `a.mhd is cut short: its header says 12 bytes of voxels, and 11 are there. ${again}`,
    );
    const whole =
      'a.mhd has its voxels in 2 files, which are packed or do not hold whole slices: write it again as one file.';
    expect(await refusal({ frames: 1 }, ...parts)).toBe(whole);
    expect(await refusal({ isPacked: true }, ...parts)).toBe(whole);
    const { dataFiles, ...stored } = await voxels();
    expect(
      await refusalOf(
        storedVolume(
          { ...stored, dataFiles: [...dataFiles, path.join(path.dirname(stored.path), 'gone')] },
          affine,
          header,
        ),
      ),
    ).toBe('a.mhd has its voxels in gone, which is not there: keep both together.');
  });

  test.each([
    [
      [1, 0, 0, 0],
      [2, 0, 0, 0],
      [0, 0, 1, 0],
    ],
    [
      [1, 0, 0, Number.NaN],
      [0, 1, 0, 0],
      [0, 0, 1, 0],
    ],
    [
      [1, 0, 0, Number.POSITIVE_INFINITY],
      [0, 1, 0, 0],
      [0, 0, 1, 0],
    ],
  ])('Voxels are refused with axes that span no space: %j %j %j', async (...rows) => {
    expect(isAffine(rows)).toBe(false);
    expect(await refusalOf(storedVolume(await voxels(), rows, header))).toBe(
      `a.mhd is damaged: its axes have no direction or no length. ${again}`,
    );
  });

  test('Where a file became shorter since it was opened, or is gone', async () => {
    const stored = await voxels();
    await truncate(stored.dataFiles[0], 10);
    const slice = (k: number) => refusalOf(planesOf(stored, [0], [k]));
    expect(await slice(1)).toBe('not refused');
    expect(await slice(2)).toBe(
      `a.mhd is cut short: its header says 12 bytes of voxels, and 10 are there. ${again}`,
    );
    const gone = { ...stored, dataFiles: [`${stored.path}.gone`] as [string] };
    expect(await refusalOf(storedData(gone))).toContain('a.mhd cannot be read (ENOENT');
    expect(await refusalOf(storedData({ ...gone, isPacked: true }))).toContain(
      'a.mhd.gone cannot be read (ENOENT',
    );
  });

  test('Where there is no such volume or slice', async () => {
    const volume = await storedVolume(await voxels(), affine, header);
    const sentence = (number: number) => `a.mhd holds 2 volumes: there is no number ${number}.`;
    for (const frame of [-1, 2]) {
      expect(await refusalOf(volume.slices({ frame }).next())).toBe(sentence(frame + 1));
      expect(await refusalOf(storedData(volume.stored, frame))).toBe(sentence(frame + 1));
    }
    expect(await refusalOf(volume.slices({ only: [0, 3] }).next())).toBe(
      'a.mhd has 3 slices: there is no number 4.',
    );
  });

  test('Where packed bytes are too few, damaged, or go on without an end', async () => {
    const packed = (content: Buffer, given: Partial<StoredVoxels> = {}) =>
      voxels({ isPacked: true, ...given }, content).then((stored) => refusalOf(storedData(stored)));
    expect(await packed(gzip(bytes.subarray(0, 20)), { start: 4 })).toBe(
      `a.mhd is cut short: its header says 24 bytes of voxels, and 16 are there. ${again}`,
    );
    expect(await packed(gzip(bytes).subarray(0, 20))).toBe(
      `0.raw is damaged or cut short: its packed data cannot be unpacked (unexpected end of file). ${again}`,
    );
    expect(await packed(gzip(bytes, Buffer.alloc(1 << 22)))).toBe('not refused');
  });
});
