import { readFile, rm, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { writeImage } from './images.js';
import { refusalOf, refusalOfProgram, workspace } from './program.js';

const voxels = Int16Array.from({ length: 1000 }, (_, at) => (at * 7919) % 30_000);
const given = { size: [10, 10, 10] };

/** Writes a volume that is then damaged: `header` is what is sent, `data` the file with the voxels. */
async function volume(cwd: string, header: string, isPacked = true) {
  await writeImage(path.join(cwd, header), voxels, given, 1, isPacked);
}

const sendAgain = 'Send it again from the original.';

test.each([
  ['cut.nii', 'cut.nii', false],
  ['cut.mha', 'cut.mha', false],
  ['cut.mhd', 'cut.raw', false],
  ['cut.nrrd', 'cut.nrrd', false],
  ['cut.nhdr', 'cut.raw', false],
  ['cut.hdr', 'cut.img', false],
  ['cut.mgh', 'cut.mgh', false],
])('a volume %s of which the last bytes are missing is refused', async (header, data, isPacked) => {
  const cwd = await workspace();
  await volume(cwd, header, isPacked);
  const { length } = await readFile(path.join(cwd, data));
  await truncate(path.join(cwd, data), length - 10);
  expect(await refusalOf([header], cwd)).toBe(
    `${header} is cut short: its header says 2000 bytes of voxels, and 1990 are there. ${sendAgain}`,
  );
});

test.each([
  ['cut.nii.gz', 'cut.nii.gz'],
  ['cut.mha', 'cut.mha'],
  ['cut.mhd', 'cut.zraw'],
  ['cut.nrrd', 'cut.nrrd'],
  ['cut.nhdr', 'cut.raw.gz'],
  ['cut.mgz', 'cut.mgz'],
])('a packed volume %s that ends early, or does not match its checksum, is refused', async (header, data) => {
  const cwd = await workspace();
  await volume(cwd, header);
  const whole = await readFile(path.join(cwd, data));

  await writeFile(path.join(cwd, data), whole.subarray(0, -10));
  const damaged = `${data} is damaged or cut short: its packed data cannot be unpacked`;
  expect(await refusalOf([header], cwd)).toBe(`${damaged} (unexpected end of file). ${sendAgain}`);

  // The checksum is followed by the length in gzip data; zlib data end with it.
  const changed = Buffer.from(whole);
  const at = whole.length - (changed.includes(Buffer.from([0x1f, 0x8b])) ? 6 : 2);
  changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
  await writeFile(path.join(cwd, data), changed);
  expect(await refusalOf([header], cwd)).toBe(`${damaged} (incorrect data check). ${sendAgain}`);
});

test('packed data that are whole, but of fewer voxels than the header says, are refused', async () => {
  const cwd = await workspace();
  await volume(cwd, 'short.nii', false);
  const bytes = await readFile(path.join(cwd, 'short.nii'));
  await writeFile(path.join(cwd, 'short.nii.gz'), gzipSync(bytes.subarray(0, -1000)));
  expect(await refusalOf(['short.nii.gz'], cwd)).toContain(
    'short.nii.gz is cut short: its header says 2000 bytes of voxels, and 1000 are there.',
  );
});

test('a header without its data file, or with one elsewhere, is refused', async () => {
  const cwd = await workspace();
  await volume(cwd, 'alone.mhd', false);
  await rm(path.join(cwd, 'alone.raw'));
  expect(await refusalOfProgram('alone.mhd', cwd)).toBe(
    'alone.mhd has its voxels in alone.raw, which is not there: send both together.',
  );
  const header = await readFile(path.join(cwd, 'alone.mhd'), 'utf8');
  await writeFile(path.join(cwd, 'alone.mhd'), header.replace('alone.raw', '../alone.raw'));
  expect(await refusalOf(['alone.mhd'], cwd)).toContain('names a data file outside its own folder');
});

test('voxels that are written as text are refused, since nobody knows how many bytes they have', async () => {
  const cwd = await workspace();
  const header = 'NRRD0004\ntype: short\ndimension: 3\nsizes: 1 1 2\nencoding: ascii\n\n1';
  await writeFile(path.join(cwd, 'text.nrrd'), header);
  expect(await refusalOf(['text.nrrd'], cwd)).toContain(
    'as where they are text: write it again as binary data.',
  );
});
