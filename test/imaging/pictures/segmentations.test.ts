import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { readVolume } from '@remote-app/volumes';
import { describe, expect, onTestFinished, test } from 'vitest';
import { bytesOf, lines, niftiHeader, type Type } from '../../../packages/volumes/test/written.js';
import type { CaseToShow } from '../../../src/imaging/pictures/case-to-show.js';
import { findCasesToShow } from '../../../src/imaging/pictures/cases.js';
import { element, dicomFile as fileOf } from '../../support/dicom-files.js';
import { temporary } from '../../support/temporary.js';
import { viewOf as viewCase, volumeOf } from './phantom.js';

const side = 8;
const size = [side, side, side] as const;
const sform = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0];
type Value = (x: number, y: number, z: number) => number;

const valuesOf = (value: Value): number[] =>
  Array.from({ length: side ** 3 }, (_, at) =>
    value(at % side, Math.floor(at / side) % side, Math.floor(at / side ** 2)),
  );
const nifti = (value: Value, type: Type = 'uint8', more: object = {}): Buffer =>
  Buffer.concat([niftiHeader({ size, type, sform, ...more }), bytesOf(valuesOf(value), type)]);

const noise: Value = (x, y, z) => (x * 37 + y * 61 + z * 17) % 97;
const box =
  (from: number, to: number, value = 1): Value =>
  (x, y, z) =>
    [x, y, z].every((each) => each >= from && each < to) ? value : 0;

async function folderOf(files: Readonly<Record<string, Buffer>>): Promise<string> {
  const directory = await temporary();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  for (const [name, bytes] of Object.entries(files)) {
    const file = path.join(directory.path, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, bytes);
  }
  return directory.path;
}

const maskOf = ({ masks }: CaseToShow) => masks[0]?.file ?? null;
const look = (shown: CaseToShow) =>
  viewCase({ name: shown.name, scan: shown.scan, mask: maskOf(shown) }, { slices: 1, maxPixels: 32 });
async function only(paths: readonly string[]) {
  const { cases, problems } = await findCasesToShow(paths);
  expect(problems).toEqual([]);
  expect(cases).toHaveLength(1);
  const [shown] = cases;
  if (!shown) throw new Error('There is no case.');
  return { shown, view: await look(shown) };
}

describe('Labels of a header with a slope', () => {
  test.each<[string, Type, number, number]>([
    ['0.996 and 1.992', 'uint8', 0.007843137718737125, 0],
    ['1.000015', 'int16', 3.051804378628731e-5, 1.0000152587890625],
  ])('Values with a slope are recognised as labels: %s', async (_, type, slope, intercept) => {
    const stored = (value: number) => Math.round((value - intercept) / slope);
    const mask = nifti((...at) => stored(box(1, 3)(...at) + box(4, 7, 2)(...at)), type, { slope, intercept });
    const folder = await folderOf({ 'c1.nii': nifti(noise, 'int16'), 'c1_seg.nii': mask });
    const { view } = await only([folder]);
    expect(view.labels.map(({ value, voxels }) => [value, voxels])).toEqual([
      [1, 8],
      [2, 27],
    ]);
    expect(view.notes).toContain(
      'The labels of c1_seg.nii are stored as fractions: they are read as whole numbers',
    );
  });

  test.each<[string, Value]>([
    ['a map of small values', (x) => x / 200],
    ['a map around 1', (x) => 1 + (x - 4) / 100],
    ['probabilities', (x, y) => (x * y) / 49],
  ])('Values with a slope are not mistaken for labels: %s', async (_, value) => {
    const folder = await folderOf({ 'c1.nii': nifti(noise, 'int16'), 'c1_map.nii': nifti(value, 'float32') });
    const { shown } = await only([folder]);
    expect(maskOf(shown)).toBeNull();
    expect(shown.maps).toHaveLength(1);
  });
});

/** A `.seg.nrrd` with these layers, of values by their voxels. */
const layered = (layers: readonly Value[], isFirst: boolean, ...fields: string[]): Buffer => {
  const values = layers.map(valuesOf);
  const data = isFirst
    ? Array.from({ length: side ** 3 * layers.length }, (_, at) => {
        return values[at % layers.length]?.[Math.floor(at / layers.length)] ?? 0;
      })
    : values.flat();
  const [space, kinds] = [`${side} ${side} ${side}`, 'domain domain domain'];
  const directions = '(1,0,0) (0,1,0) (0,0,1)';
  return Buffer.concat([
    Buffer.from(
      lines(
        'NRRD0004',
        'type: unsigned char',
        'dimension: 4',
        'space: left-posterior-superior',
        isFirst ? `sizes: ${layers.length} ${space}` : `sizes: ${space} ${layers.length}`,
        isFirst ? `space directions: none ${directions}` : `space directions: ${directions} none`,
        isFirst ? `kinds: list ${kinds}` : `kinds: ${kinds} list`,
        'encoding: raw',
        'space origin: (0,0,0)',
        ...fields,
        '',
      ),
    ),
    Buffer.from(data),
  ]);
};
const segment = (at: number, name: string, colour: string, value: number, layer: number) => [
  `Segment${at}_ID:=Segment_${at + 1}`,
  `Segment${at}_Name:=${name}`,
  `Segment${at}_Color:=${colour}`,
  `Segment${at}_LabelValue:=${value}`,
  `Segment${at}_Layer:=${layer}`,
];

describe('A .seg.nrrd', () => {
  const fields = [
    ...segment(0, 'Leber', '1 0 0', 1, 0),
    ...segment(1, 'Tumör', '0 0.2 1', 1, 1),
    ...segment(2, 'Milz', '0 1 0', 2, 1),
  ];
  const layers = [box(0, 4), (...at: [number, number, number]) => box(1, 3)(...at) + box(5, 7, 2)(...at)];

  test.each([true, false])('A .seg.nrrd shows segments of all layers (list first: %j)', async (isFirst) => {
    const folder = await folderOf({ 'c1.seg.nrrd': layered(layers, isFirst, ...fields) });
    const { shown, view } = await only([folder]);
    expect(view.labels.map(({ name, colour, voxels }) => [name, colour, voxels])).toEqual([
      ['Leber', [255, 0, 0], 64],
      ['Tumör', [0, 51, 255], 8],
      ['Milz', [0, 255, 0], 8],
    ]);
    expect(view.notes).toContain(
      'Segments of c1.seg.nrrd overlap in 8 voxels: volumes count each of them whole, and the last one is drawn',
    );
    // Read by an app, it is one volume of labels.
    const { data, frames } = await readVolume(maskOf(shown) ?? '');
    expect(frames).toBe(1);
    const counts = [1, 2, 3].map((label) => data.filter((value) => value === label).length);
    expect(counts).toEqual([56, 8, 8]);
  });

  test('A .seg.nrrd of an older Slicer has a layer of ones for each segment, and says neither', async () => {
    const fields = [segment(0, 'Leber', '1 0 0', 1, 0), segment(1, 'Milz', '0 1 0', 1, 1)];
    const bytes = layered([box(0, 4), box(5, 7)], true, ...fields.flatMap((each) => each.slice(0, 3)));
    const { view } = await only([await folderOf({ 'c1.seg.nrrd': bytes })]);
    expect(view.labels.map(({ name, voxels }) => [name, voxels])).toEqual([
      ['Leber', 64],
      ['Milz', 8],
    ]);
  });

  test('A .seg.nrrd of one layer has the names of its values, even if they are out of order', async () => {
    const bytes = layered(
      [(...at) => box(1, 3, 7)(...at) + box(4, 6, 3)(...at)],
      true,
      ...[...segment(0, 'A', '1 1 1', 7, 0), ...segment(1, 'B', '1 1 0', 3, 0)],
    );
    const { view } = await only([await folderOf({ 'a.seg.nrrd': bytes })]);
    expect(view.labels.map(({ value, name }) => [value, name])).toEqual([
      [3, 'B'],
      [7, 'A'],
    ]);
  });
});

test('Overlapping segments are counted in full, with a note', async () => {
  const segmentOf = (number: number) => [element(0x0062000a, 'SQ', [[element(0x0062000b, 'US', [number])]])];
  const bits = (count: number) => Array.from({ length: 16 }, (_, at) => Number(at < count));
  const frames = [
    { number: 1, z: 0, bits: bits(16) },
    { number: 2, z: 0, bits: bits(3) },
    { number: 1, z: 1, bits: bits(4) },
  ];
  const all = frames.flatMap((frame) => frame.bits);
  const packed = Uint8Array.from({ length: all.length / 8 }, (_, at) =>
    all.slice(at * 8, at * 8 + 8).reduce((byte, bit, index) => byte | (bit << index), 0),
  );
  const bytes = fileOf({
    pixels: packed,
    size: [4, 4],
    spacing: [1, 1],
    frames: frames.map(({ number, z }) => ({ position: [0, 0, z], more: segmentOf(number) })),
    more: [
      element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.66.4'),
      element(0x00080060, 'CS', 'SEG'),
      element(0x00620001, 'CS', 'BINARY'),
      element(
        0x00620002,
        'SQ',
        ['Liver', 'Tumour'].map((name, at) => [
          element(0x00620004, 'US', [at + 1]),
          element(0x00620005, 'LO', name),
        ]),
      ),
      element(0x00280100, 'US', [1]),
      element(0x00280101, 'US', [1]),
      element(0x00280102, 'US', [0]),
    ],
  });
  const { view } = await only([await folderOf({ 'seg.dcm': bytes })]);
  expect(view.labels.map(({ name, voxels }) => [name, voxels])).toEqual([
    ['Liver', 20],
    ['Tumour', 3],
  ]);
  expect(view.notes.at(-1)).toContain('overlap in 3 voxels');
});

describe('One file for each organ of a patient', () => {
  const organs = { liver: box(0, 4), spleen: box(5, 7), kidney_left: box(3, 5), vertebrae_L5: box(7, 8) };
  const files = (folder: string, prefix = '') =>
    Object.fromEntries(
      Object.entries(organs).map(([name, value]) => [`${folder}${prefix}${name}.nii`, nifti(value)]),
    );

  test('One file for each organ of a patient is one case, whose labels have the names of the files', async () => {
    const folder = await folderOf({ 's1/ct.nii': nifti(noise, 'int16'), ...files('s1/segmentations/') });
    const { shown, view } = await only([folder]);
    expect([shown.scan?.path, maskOf(shown)?.path]).toEqual(
      ['s1/ct.nii', 's1/segmentations'].map((each) => path.join(folder, each)),
    );
    expect(view.labels.map(({ name, voxels }) => [name, voxels])).toEqual([
      ['kidney_left', 8],
      ['liver', 64],
      ['spleen', 8],
      ['vertebrae_L5', 1],
    ]);
    expect(view.notes.at(-1)).toContain('overlap in 1 voxel:');
    expect((await readVolume(maskOf(shown) ?? '')).data.filter((value) => value === 3)).toHaveLength(8);
  });

  test('One file for each organ of a patient includes a mask that names no organ, unless it lies on another grid', async () => {
    const [here, there] = [nifti(box(0, 2)), nifti(box(0, 2), 'uint8', { sform: sform.with(3, 5) })];
    const folder = await folderOf({ ...files(''), 'x1.nii': here, 'x2.nii': there });
    const { cases } = await findCasesToShow([folder]);
    const views = await Promise.all(cases.map(look));
    expect(views.map(({ labels }) => labels.map(({ name }) => name))).toEqual([
      ['kidney_left', 'liver', 'spleen', 'vertebrae_L5', 'x1'],
      ['label 1'],
    ]);
  });

  test('One file for each organ forms a case for each patient whose name is the prefix', async () => {
    const folder = await folderOf({ ...files('', 'p1_'), ...files('', 'p2_') });
    const { cases } = await findCasesToShow([folder]);
    const views = await Promise.all(cases.map(look));
    expect(views.map(({ labels }) => labels.map(({ name }) => name))).toEqual(
      Array.from({ length: 2 }, () => ['kidney_left', 'liver', 'spleen', 'vertebrae_L5']),
    );
    expect(cases.map(({ name }) => name)).toEqual(['p1', 'p2']);
  });

  test.each([
    ['masks of patients', ['p1_mask', 'p2_mask']],
    ['two masks of one organ', ['liver_gt', 'liver_pred']],
    ['members of an ensemble', ['liver_fold_0', 'liver_fold_1']],
    ['the same organ of patients', ['p1_liver', 'p2_liver']],
  ])('Files are not grouped as the organs of a patient: %s', async (_, names) => {
    const folder = await folderOf(
      Object.fromEntries(names.map((name, at) => [`${name}.nii`, nifti(box(at, at + 3))])),
    );
    expect((await findCasesToShow([folder])).cases).toHaveLength(2);
  });

  test('One file for each organ of a patient has no label for what names none of them', async () => {
    const folder = await folderOf({ ...files('out/'), 'out/segmentation.nii': nifti(box(0, 8)) });
    const { cases } = await findCasesToShow([folder]);
    const views = await Promise.all(cases.map(look));
    expect(views.map(({ labels }) => labels.length).sort()).toEqual([1, 4]);
  });
});

test('The volume of a label is that of its voxels, even if these are sheared', async () => {
  const affine = [
    [1, 0.5, 0, 0],
    [0, 1, 0.5, 0],
    [0, 0, 2, 0],
  ] as const;
  const mask = volumeOf(Uint8Array.from(valuesOf(box(0, 4))), size, { affine });
  const view = await viewCase({ name: 'c', scan: null, mask }, { slices: 1, maxPixels: 32 });
  expect(view.labels[0]?.millilitres).toBeCloseTo((64 * 2) / 1000, 10);
  expect(view.notes).toContainEqual(expect.stringMatching(/^Slices of .* are tilted by 27 degrees against/));
});
