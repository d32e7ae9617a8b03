import { copyFile, mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { openVolume } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { geometryOf, readImage, writeImage } from './images.js';
import { DICOM_SERIES, operate, phantom, sharedWorkspace, tissueDone } from './program.js';

const shared = sharedWorkspace((cwd) => phantom(['--out', '.', '--size', '24', '--cases', '2'], cwd));
const INPUT = ['--inputs', 'image/head_001.nii.gz'];

test('Labels keep the exact geometry and the format of a MetaImage', async () => {
  const cwd = shared();
  const head = await readImage(cwd, 'image/head_001.nii.gz');
  await writeImage(path.join(cwd, 'turned.mha'), head.data, {
    size: head.size,
    affine: [
      [-7.2, 5.7, 0, 12.5],
      [-5.4, -7.6, 0, -3.25],
      [0, 0, 10, 101],
    ],
  });

  await operate(['infer', '--output', 'turned', '--inputs', 'turned.mha'], cwd);

  const labels = await readImage(cwd, 'turned/turned.mha');
  expect(geometryOf(labels)).toEqual(geometryOf(await readImage(cwd, 'turned.mha')));
  expect(labels).toMatchObject({ format: 'MetaImage', frames: 1, data: expect.any(Uint8Array) });
});

test('Every case of the group is labelled in NIfTI, with a progress bar that is redrawn in place', async () => {
  const cwd = shared();
  await mkdir(path.join(cwd, 'again'));
  await copyFile(path.join(cwd, 'image/head_001.nii.gz'), path.join(cwd, 'again/head_001.nii.gz'));

  const inputs = ['image/head_001.nii.gz', 'image/head_002.nii.gz', 'again/head_001.nii.gz'];
  const log = await tissueDone(['infer', '--output', 'cases', '--gpu', '0', '1', '--inputs', ...inputs], cwd);

  expect(log).toMatch(/\r {2}head_001 \[#{20}\] 100%\n/);
  expect(log).toContain('GPU 0, 1');
  // The third file has the name of the first one and gets a number.
  const written = (await readdir(path.join(cwd, 'cases'))).sort();
  expect(written).toEqual(['head_001.nii.gz', 'head_001_1.nii.gz', 'head_002.nii.gz']);
  const labels = await readImage(cwd, 'cases/head_002.nii.gz');
  expect(geometryOf(labels)).toEqual(geometryOf(await readImage(cwd, 'image/head_002.nii.gz')));
  expect(new Set(labels.data)).toEqual(new Set([0, 1, 2, 3, 4, 5]));
});

test('A DICOM series becomes one NIfTI volume where the slices lie', async () => {
  const cwd = shared();
  const log = await operate(
    ['infer', '--output', 'series', '--quiet', '--cpu', '1', '--inputs', DICOM_SERIES],
    cwd,
  );

  // Its first slice has extra bytes after the pixel data: the log says so, and the slice is used.
  expect(log).toMatch(/brain_001\.dcm: 2490368 bytes after the pixel data are ignored/);
  expect(log).not.toContain('\r');
  const labels = await readImage(cwd, 'series/volume.nii.gz');
  expect(geometryOf(labels)).toEqual(geometryOf(await openVolume(DICOM_SERIES)));
  expect(labels.size).toEqual([256, 256, 20]);
  // The head fills a third of the field of view, and most of it is brain.
  const count = (...wanted: number[]) => labels.data.filter((label) => wanted.includes(label)).length;
  expect(count(0) / labels.data.length).toBeGreaterThan(0.5);
  expect(count(3, 4) / (labels.data.length - count(0))).toBeGreaterThan(0.4);
});

test('Voxels that are not numbers (NaN) do not change their neighbours', async () => {
  const cwd = shared();
  const head = await readImage(cwd, 'image/head_001.nii.gz');
  const holed = Float32Array.from(head.data);
  holed[0] = Number.NaN;
  await writeImage(path.join(cwd, 'holed.nii.gz'), holed, head);
  await operate(['infer', '--output', 'holes', '--inputs', 'holed.nii.gz', 'image/head_001.nii.gz'], cwd);
  const [one, other] = [
    await readImage(cwd, 'holes/holed.nii.gz'),
    await readImage(cwd, 'holes/head_001.nii.gz'),
  ];
  const differ = one.data.filter((label, at) => label !== other.data[at]).length;
  expect(differ / one.data.length).toBeLessThan(0.01);
});

test('The stack has one component per checkpoint, flip and Monte-Carlo pass', async () => {
  const cwd = shared();
  const flags = ['--ensemble', '2', '--tta', '2', '--mc', '2', '-uncertainty'];
  await operate(['infer', ...flags, '--output', 'stack', ...INPUT], cwd);

  const stack = await readImage(cwd, 'stack/head_001_stack.nii.gz');
  expect(stack).toMatchObject({ frames: 2 * 3 * 2, data: expect.any(Float32Array) });
  expect(geometryOf(stack)).toEqual(geometryOf(await readImage(cwd, 'image/head_001.nii.gz')));
});

test.each([
  ['passes, flipped and not,', ['--tta', '1']],
  ['checkpoints', ['--ensemble_models', 'CV_0', 'CV_2.json']],
  ['Monte-Carlo passes', ['--mc', '2']],
])('Two %s give two predictions that differ somewhere', async (name, flags) => {
  const cwd = shared();
  await operate(['infer', ...flags, '-uncertainty', '--output', name, ...INPUT], cwd);

  const { data, frames } = await readImage(cwd, name, 'head_001_stack.nii.gz');
  expect(frames).toBe(2);
  const half = data.length / 2;
  expect(data.some((value, at) => at >= half && value !== data[at - half])).toBe(true);
});

test('Monte-Carlo passes are the same for one seed and any patch size, and change with --set', async () => {
  const cwd = shared();
  const infer = async (output: string, ...more: string[]) => {
    await operate(['infer', '--mc', '3', '-uncertainty', ...more, '--output', output, ...INPUT], cwd);
    return (await readImage(cwd, output, 'head_001_stack.nii.gz')).data;
  };
  const first = await infer('A');
  expect(await infer('B', '--patch_size', '8', '8', '8', '--batch_size', '2')).toEqual(first);
  expect(await infer('C', '--set', 'seed=7', '--set', 'dropout=0.3')).not.toEqual(first);
});
