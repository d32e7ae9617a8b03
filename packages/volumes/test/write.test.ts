import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { layoutName, layouts } from '../../../test/imaging/pictures/phantom.js';
import {
  type Affine,
  isSameGeometry,
  readVolume,
  type Voxels,
  type WritableVolume,
  writeNifti,
  writeVolume,
} from '../src/index.js';
import { bytesOf, counting, niftiHeader, refusalOf, workspace, write } from './written.js';

const size = [3, 2, 4] as const;
const affine: Affine = [
  [0, 2.5, 0, -10],
  [-0.75, 0, 0, 20],
  [0, 0, 4, 31.5],
];
const arrays: readonly (new (values: number[]) => Voxels)[] = [
  Uint8Array,
  Int8Array,
  Uint16Array,
  Int16Array,
  Uint32Array,
  Int32Array,
  Float32Array,
  Float64Array,
];
const endings = ['.nii', '.nii.gz', '.mha', '.nrrd'];
const near = (rows: Affine) => rows.map((row) => row.map((value) => expect.closeTo(value, 5)));

test.each(endings.flatMap((ending) => arrays.map((array) => [ending, array.name, array] as const)))(
  '%s keeps %s values and their position',
  async (ending, _, array) => {
    const file = path.join(await workspace(), `a${ending}`);
    const data = new array(counting(24).map((at) => at * 5));
    await writeVolume(file, { size, affine, data });
    expect(await readVolume(file)).toMatchObject({
      size,
      affine: near(affine),
      data,
      frames: 1,
      components: 1,
      hasOrientation: true,
    });
  },
);

test.each(endings)('%s keeps all 48 orientations, straight and oblique', async (ending) => {
  const directory = await workspace();
  const data = Uint8Array.from(counting(24));
  const turn = [
    [0.8, -0.6, 0],
    [0.48, 0.64, -0.6],
    [0.36, 0.48, 0.8],
  ];
  for (const layout of layouts)
    for (const isTurned of [false, true]) {
      const rows = [0, 1, 2].map((row) => [
        ...layout.map(({ along, sign }, axis) => {
          const step = isTurned ? (turn[row]?.[along] ?? 0) : along === row ? 1 : 0;
          return sign * (axis + 1.5) * step;
        }),
        10 * row - 7,
      ]) as unknown as Affine;
      const file = path.join(directory, `${layoutName(layout)}${isTurned}${ending}`);
      await writeVolume(file, { size, affine: rows, data });
      const read = await readVolume(file);
      expect(isSameGeometry(read, { size, affine: rows }), file).toBe(true);
      expect(read.affine, file).toEqual(near(rows));
    }
});

test.each(endings)('%s keeps colours', async (ending) => {
  const directory = await workspace();
  for (const components of [3, 4] as const) {
    const file = path.join(directory, `${components}${ending}`);
    const data = Uint8Array.from(counting(24 * components));
    await writeVolume(file, { size, affine, data, components });
    expect(await readVolume(file)).toMatchObject({ components, frames: 1, data });
  }
});

test('A file whose name ends with .GZ is packed', async () => {
  const file = path.join(await workspace(), 'A.NII.GZ');
  const data = Float32Array.from(counting(24));
  await writeNifti(file, { size, affine, data });
  expect((await readFile(file)).subarray(0, 2)).toEqual(Buffer.of(0x1f, 0x8b));
  expect((await readVolume(file)).data).toEqual(data);
});

test('Several frames become the components of vectors, as ITK writes them', async () => {
  const file = path.join(await workspace(), 'a.nii');
  const data = Float32Array.from(counting(72));
  await writeNifti(file, { size, affine, data, frames: 3 });
  expect(await readVolume(file)).toMatchObject({ frames: 3, data });
  const bytes = await readFile(file);
  const dimensions = counting(8).map((at) => bytes.readInt16LE(40 + 2 * at));
  expect(dimensions).toEqual([5, 3, 2, 4, 1, 3, 1, 1]);
  expect(bytes.readInt16LE(68)).toBe(1007);
});

test('A volume without an orientation is written without one, unless its position is not the default', async () => {
  const directory = await workspace();
  const voxels = bytesOf(counting(24), 'int16');
  const file = await write(directory, 'a.nii', niftiHeader({ size, pixelSizes: [1, 2, 3, 4] }), voxels);
  const unplaced = await readVolume(file);
  const copy = path.join(directory, 'copy.nii');
  await writeNifti(copy, unplaced);
  expect(await readVolume(copy)).toEqual(unplaced);
  const [right, front, [x, y, z]] = unplaced.affine;
  await writeNifti(copy, { ...unplaced, affine: [right, front, [x, y, z, 77]] });
  expect(await readVolume(copy)).toMatchObject({ hasOrientation: true });
});

test.each([
  ['not perpendicular', 0.3, 0],
  // As those of DICOM whose positions are rounded: ITK reads no volume whose axes are not perpendicular in either form.
  ['not quite perpendicular', 0.001, 1],
])('Axes that are %s are written exactly, and as a rotation if one is equivalent', async (_, shear, code) => {
  const file = path.join(await workspace(), 'a.nii');
  const sheared: Affine = [
    [1, shear, 0, 0],
    [0, 1, 0, 0],
    [0, 0, 1, 0],
  ];
  await writeNifti(file, { size: [30, 20, 4], affine: sheared, data: new Uint8Array(2400) });
  expect((await readVolume(file)).affine).toEqual(near(sheared));
  const bytes = await readFile(file);
  expect(bytes.readInt16LE(252)).toBe(code);
  const quaternion = [0, 1, 2].map((at) => bytes.readFloatLE(256 + 4 * at));
  if (code === 1) expect(quaternion).toEqual([0, 0, -shear / 4].map((each) => expect.closeTo(each, 5)));
});

test.each<[string, Partial<WritableVolume>, string]>([
  [
    'a.nii',
    { data: new Uint8Array(23) },
    'a.nii cannot be written: 3 x 2 x 4 voxels need 24 values, not 23.',
  ],
  [
    'a.mha',
    { data: new Uint8Array(23) },
    'a.mha cannot be written: 3 x 2 x 4 voxels need 24 values, not 23.',
  ],
  [
    'a.nrrd',
    { data: new Uint8Array(48), frames: 2 },
    'a.nrrd cannot be written: several volumes in a file are written as NIfTI only.',
  ],
  [
    'a.nii.gz',
    { size: [40_000, 1, 1], data: new Uint8Array(40_000) },
    'a.nii.gz cannot be written: NIfTI-1 holds at most 32767 voxels along an axis.',
  ],
])('Writing %s from %j is refused and leaves no file', async (name, given, sentence) => {
  const directory = await workspace();
  const volume = { size, affine, data: new Uint8Array(24), ...given };
  expect(await refusalOf(writeVolume(path.join(directory, name), volume))).toBe(sentence);
  expect(await readdir(directory)).toEqual([]);
});

test.each(endings)('A %s file that cannot be completed leaves the previous file in place', async (ending) => {
  const directory = await workspace();
  const name = `a${ending}`;
  // A directory cannot be replaced by a file: the last step fails.
  await mkdir(path.join(directory, name));
  await writeFile(path.join(directory, name, 'kept'), 'kept');
  const writing = writeVolume(path.join(directory, name), { size, affine, data: new Uint8Array(24) });
  await expect(writing).rejects.toMatchObject({ syscall: 'rename' });
  expect((await readdir(directory, { recursive: true })).sort()).toEqual([name, path.join(name, 'kept')]);
});

test.each(endings)('The same volume gives the same bytes of %s', async (ending) => {
  const directory = await workspace();
  const volume = { size, affine, data: Int16Array.from(counting(24)) };
  const files = ['one', 'other'].map((name) => path.join(directory, name + ending));
  for (const file of files) await writeVolume(file, volume);
  const [one, other] = await Promise.all(files.map((file) => readFile(file)));
  expect(one).toEqual(other);
});
