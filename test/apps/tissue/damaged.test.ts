import { readFile, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { writeImage } from './images.js';
import { refusalOf, refusalOfProgram, workspace } from './program.js';

const voxels = Int16Array.from({ length: 1000 }, (_, at) => (at * 7919) % 30_000);
const again = 'Copy it again from the original.';

test('A volume of which the last bytes are missing is refused', async () => {
  const cwd = await workspace();
  const file = path.join(cwd, 'cut.nii');
  await writeImage(file, voxels, { size: [10, 10, 10] });
  await truncate(file, (await readFile(file)).length - 10);
  expect(await refusalOfProgram('cut.nii', cwd)).toBe(
    `cut.nii is cut short: its header says 2000 bytes of voxels, and 1990 are there. ${again}`,
  );
});

test.each([
  ['cut.nii.gz', 'damaged or cut short: its packed data cannot be unpacked (unexpected end of file)'],
  ['cut.nrrd', 'damaged or cut short: its packed data cannot be unpacked (unexpected end of file)'],
  // The header of MetaImage has the size of the packed data.
  ['cut.mha', 'cut short: its header says 2011 packed bytes, and 2001 are there'],
])('A packed volume %s that ends early is refused', async (name, why) => {
  const cwd = await workspace();
  const file = path.join(cwd, name);
  await writeImage(file, voxels, { size: [10, 10, 10] });
  await truncate(file, (await readFile(file)).length - 10);
  expect(await refusalOf([name], cwd)).toBe(`${name} is ${why}. ${again}`);
});

test('A header without its data file, or with one elsewhere, is refused', async () => {
  const cwd = await workspace();
  const header = 'NDims = 3\nDimSize = 10 10 10\nElementType = MET_SHORT\nElementDataFile = alone.raw\n';
  await writeFile(path.join(cwd, 'alone.mhd'), header);
  expect(await refusalOfProgram('alone.mhd', cwd)).toBe(
    'alone.mhd has its voxels in alone.raw, which is missing: keep both files together.',
  );
  await writeFile(path.join(cwd, 'alone.mhd'), header.replace('alone.raw', '../alone.raw'));
  expect(await refusalOf(['alone.mhd'], cwd)).toContain('names a data file outside its own folder');
});
