import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readImage, writeImage } from './images.js';
import { operate, workspace } from './program.js';

const voxels = Int16Array.from({ length: 64 }, (_, at) => at);

/** Labels all files of the directory, as the service does for those of a folder, and tells what came out. */
async function inferAll(cwd: string): Promise<string[]> {
  const inputs = (await readdir(cwd)).sort();
  await operate(['infer', '--output', 'O', '--inputs', ...inputs], cwd);
  return (await readdir(path.join(cwd, 'O'))).sort();
}

/** A volume whose data file has a name of its own. */
async function writeNamed(cwd: string, header: string, dataFile: string) {
  const text = header.endsWith('.mhd')
    ? `NDims = 3\nDimSize = 4 4 4\nElementType = MET_SHORT\nElementDataFile = ${dataFile}\n`
    : `NRRD0004\ntype: short\ndimension: 3\nsizes: 4 4 4\nendian: little\nencoding: raw\ndata file: ${dataFile}\n`;
  await writeFile(path.join(cwd, header), text);
  await writeFile(path.join(cwd, dataFile), voxels);
}

test.each([
  ['p2.mhd', 'img.raw'],
  ['p2.nhdr', 'img.dat'],
])('The data file that %s names belongs to it, whatever its name is', async (header, dataFile) => {
  const cwd = await workspace();
  await writeNamed(cwd, header, dataFile);
  expect(await inferAll(cwd)).toEqual(['p2.nii.gz']);
});

test.each([
  ['list.nhdr', 'data file: LIST\na.bin\nb.bin\nc.bin\nd.bin\n', ['a.bin', 'b.bin', 'c.bin', 'd.bin']],
  ['pattern.nhdr', 'data file: z%02d.bin 8 11 1\n', ['z08.bin', 'z09.bin', 'z10.bin', 'z11.bin']],
])('The slices that %s names belong to it', async (header, line, files) => {
  const cwd = await workspace();
  const head =
    'NRRD0004\ntype: short\ndimension: 3\nspace dimension: 3\nsizes: 4 4 4\nspace directions: (1,0,0) (0,1,0) (0,0,1)\nspace origin: (0,0,0)\nendian: little\nencoding: raw\n';
  await writeFile(path.join(cwd, header), head + line);
  for (const [index, file] of files.entries())
    await writeFile(path.join(cwd, file), voxels.slice(index * 16, index * 16 + 16));
  expect((await readImage(cwd, header)).data).toEqual(voxels);
  expect(await inferAll(cwd)).toEqual([header.replace('.nhdr', '.nii.gz')]);
});

test('A volume that no header names is a case of its own', async () => {
  const cwd = await workspace();
  await writeNamed(cwd, 'one.mhd', 'img.raw');
  await writeImage(path.join(cwd, 'img.nii'), voxels);
  expect(await inferAll(cwd)).toEqual(['img.nii', 'one.nii.gz']);
});
