import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  type Affine,
  isSameGeometry,
  type LabelLayer,
  NoLabels,
  openVolume,
  type Segment,
  type SegNrrdOptions,
  type VolumeFile,
  writeNifti,
  writeSegNrrd,
} from '../src/index.js';
import { labels, orders, reordered, size, writeMask } from './study.js';
import { workspace } from './written.js';

const affine: Affine = [
  [-0.75, 0, 0, 20],
  [0, -1.25, 0.875, -30],
  [0, 0.875, 1.25, 40.5],
];
const grid = { size, affine, name: 'scan' };

const segments: readonly Segment[] = [
  { value: 1, name: 'Liver', color: '#dd8265', snomed: { code: '10200004', meaning: 'Liver' } },
  { value: 5, name: 'Tumour 肝', color: '#00ff00', snomed: null },
  { value: 9, name: 'Spleen', color: null, snomed: null },
];

const maskOf = (data: Uint8Array<ArrayBuffer>): Promise<VolumeFile> =>
  writeMask('mask.nii.gz', { size, affine, data });

/** Writes a segmentation, and opens it. */
async function segmentation(layers: readonly LabelLayer[], options: SegNrrdOptions = {}) {
  const file = path.join(await workspace(), 'a.seg.nrrd');
  const written = await writeSegNrrd(file, layers, options);
  return { file, written, read: await openVolume(file), header: (await readFile(file)).toString() };
}

/** The voxels of each label of a segmentation, also where labels overlap. */
async function voxelsOf(read: VolumeFile): Promise<Map<number, Uint8Array>> {
  const found = new Map<number, Uint8Array>();
  for await (const { k, values } of read.layers?.() ?? read.slices())
    for (const [at, value] of values.entries()) {
      if (value === 0) continue;
      const voxels = found.get(value) ?? new Uint8Array(size[0] * size[1] * size[2]);
      found.set(value, voxels);
      voxels[k * size[0] * size[1] + at] = 1;
    }
  return found;
}

const voxelsOfLabel = (value: number) => labels.map((each) => Number(each === value));

test('A label map is read back with its names, colours and position', async () => {
  const { read, written } = await segmentation([{ mask: await maskOf(labels), segments }]);
  expect(read.labels).toEqual([
    { value: 1, name: 'Liver', colour: '#dd8265' },
    { value: 2, name: 'Label 2', colour: null },
    { value: 5, name: 'Tumour 肝', colour: '#00ff00' },
  ]);
  expect(isSameGeometry(read, grid)).toBe(true);
  expect(written.isExact).toBe(true);
  expect(written.segments.map(({ value }) => value)).toEqual([1, 2, 5]);
  expect(await voxelsOf(read)).toEqual(new Map([1, 2, 5].map((value) => [value, voxelsOfLabel(value)])));
});

test('A written segmentation has the fields that 3D Slicer reads', async () => {
  const { header } = await segmentation([{ mask: await maskOf(labels), segments }]);
  for (const line of [
    'kinds: domain domain domain',
    'space: left-posterior-superior',
    'space directions: (0.75,0,0) (0,1.25,0.875) (0,-0.875,1.25)',
    'space origin: (-20,30,40.5)',
    'Segment0_Color:=0.866667 0.509804 0.396078',
    'Segment0_Extent:=0 4 0 2 0 3',
    'Segment0_ID:=Segment_1',
    'Segment0_LabelValue:=1',
    'Segment0_Layer:=0',
    'Segment0_Tags:=TerminologyEntry:Segmentation category and type - 3D Slicer General Anatomy list~SCT^123037004^Anatomical Structure~SCT^10200004^Liver~^^~Anatomic codes - DICOM master list~^^~^^|',
    'Segment2_LabelValue:=5',
    'Segmentation_ContainedRepresentationNames:=Binary labelmap|',
    'Segmentation_MasterRepresentation:=Binary labelmap',
    'Segmentation_ReferenceImageExtentOffset:=0 0 0',
  ])
    expect(header.split('\n')).toContain(line);
});

test('Overlapping label maps become layers', async () => {
  const any = labels.map((value) => (value > 0 ? 6 : 0));
  const { read, header } = await segmentation([
    { mask: await maskOf(labels), segments },
    { mask: await maskOf(any), segments: [{ value: 6, name: 'All', color: null, snomed: null }] },
  ]);
  expect(header).toContain('\nkinds: list domain domain domain\n');
  expect(header).toContain('\nsizes: 2 5 3 4\n');
  expect(read.labels?.map(({ value, name }) => [value, name])).toEqual([
    [1, 'Liver'],
    [2, 'Label 2'],
    [5, 'Tumour 肝'],
    [6, 'All'],
  ]);
  expect(await voxelsOf(read)).toEqual(
    new Map([
      ...[1, 2, 5].map((value) => [value, voxelsOfLabel(value)] as const),
      [6, any.map((each) => each / 6)],
    ]),
  );
});

test('A mask is placed correctly on the grid of a scan with all 48 orders of its axes', async () => {
  for (const order of orders) {
    const mask = await writeMask('mask.nii', reordered(grid, order));
    const { read, written } = await segmentation([{ mask, segments }], { grid, isStrict: true });
    expect(written.isExact).toBe(true);
    expect(isSameGeometry(read, grid)).toBe(true);
    expect(await voxelsOf(read)).toEqual(new Map([1, 2, 5].map((value) => [value, voxelsOfLabel(value)])));
  }
});

test('A mask of part of a scan is placed correctly, and the other slices are empty', async () => {
  const inSlice = size[0] * size[1];
  const moved = affine.map(([i, j, k, offset]) => [i, j, k, offset + k]) as unknown as Affine;
  for (const isBack of [false, true]) {
    const part = {
      size: [size[0], size[1], 2] as const,
      affine: moved,
      data: labels.slice(inSlice, 3 * inSlice),
    };
    const turned = {
      ...part,
      affine: moved.map(([i, j, k, offset]) => [i, j, -k, offset + k]) as unknown as Affine,
      data: Uint8Array.from([...part.data.subarray(inSlice), ...part.data.subarray(0, inSlice)]),
    };
    const mask = await writeMask('part.nii', isBack ? turned : part);
    const { read } = await segmentation([{ mask, segments }], { grid, isStrict: true });
    const wanted = (value: number) =>
      voxelsOfLabel(value).map((each, at) => (at >= inSlice && at < 3 * inSlice ? each : 0));
    expect(await voxelsOf(read)).toEqual(new Map([1, 2, 5].map((value) => [value, wanted(value)])));
  }
});

test('Values over 255 are kept, and names lose the separators of the header', async () => {
  const values = Uint16Array.from(labels, (value) => value * 300);
  const file = path.join(await workspace(), 'wide.nii');
  await writeNifti(file, { size, affine, data: values });
  const named = [
    { value: 300, name: 'a|b\nSegment1_Name:=c', color: null, snomed: { code: '1^2', meaning: 'x~y\nz' } },
  ];
  const { read, header } = await segmentation([{ mask: await openVolume(file), segments: named }]);
  expect(read.labels?.map(({ value, name }) => [value, name])).toEqual([
    [300, 'a b Segment1_Name:=c'],
    [600, 'Label 600'],
    [1500, 'Label 1500'],
  ]);
  expect(header).toContain('~SCT^1 2^x y z~');
  expect((await voxelsOf(read)).get(1500)).toEqual(voxelsOfLabel(5));
  await writeNifti(file, { size, affine, data: Uint16Array.from(labels, (value) => value && 251 + value) });
  const least = await segmentation([{ mask: await openVolume(file), segments }]);
  expect((await voxelsOf(least.read)).get(256)).toEqual(voxelsOfLabel(5));
});

test('No segmentation is written for a mask without labels, or for one on another grid if that is refused', async () => {
  const directory = await workspace();
  const file = path.join(directory, 'a.seg.nrrd');
  const empty = await maskOf(new Uint8Array(labels.length));
  await expect(writeSegNrrd(file, [{ mask: empty, segments }])).rejects.toThrow(NoLabels);
  const fine = { ...grid, affine: affine.map((row) => row.map((each) => each / 2)) as unknown as Affine };
  const mask = await maskOf(labels);
  await expect(writeSegNrrd(file, [{ mask, segments }], { grid: fine, isStrict: true })).rejects.toThrow(
    /mask.nii.gz lies on another grid than scan/,
  );
  expect(existsSync(file)).toBe(false);
  expect(readdirSync(directory)).toEqual([]);
});
