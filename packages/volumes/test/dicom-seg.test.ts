import { expect, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import { type Encoding, element } from '../../../test/support/dicom-files.js';
import { openVolume, VolumeError, type Voxels } from '../src/index.js';
import {
  columns,
  labels,
  plane,
  rows,
  type SegmentFrame,
  segmentItem,
  slicesOf,
  where,
  write,
} from './segmentation-files.js';

test.each<[string, Encoding]>([
  ['explicit', {}],
  ['implicit', { isImplicit: true }],
  ['deflated', { isDeflated: true }],
])('Segments become one label volume, in which the highest number wins (%s)', async (_, encoding) => {
  const frames: SegmentFrame[] = [
    { z: 30, segment: 3, values: where(0, 7) },
    { z: 33, segment: 1, values: where(14) },
    { z: 30, segment: 1, values: where(7, 8) },
  ];
  const file = await write(frames, { encoding });
  const volume = await openVolume(file);
  expect(volume).toMatchObject({
    format: 'DICOM SEG',
    modality: 'SEG',
    size: [columns, rows, 2],
    components: 1,
    frames: 1,
    affine: straight([-1.5, -2, 3], [-10, -20, 30]),
    labels: [
      { value: 1, name: 'Liver', colour: '#ffffff' },
      { value: 3, name: 'Tumour', colour: '#ff0000' },
      { value: 4, name: 'Vessel', colour: null },
    ],
  });
  expect(await slicesOf(file)).toEqual([labels({ 0: 3, 7: 3, 8: 1 }), labels({ 14: 1 })]);
  expect(await slicesOf(file, [1])).toEqual([labels({ 14: 1 })]);
});

test('Slices without a segment are empty, and the spacing is the smallest distance that fits all frames', async () => {
  const frames = [0, 4, 10].map((z) => ({ z, segment: 1, values: where(z) }));
  const file = await write(frames);
  expect((await openVolume(file)).size).toEqual([columns, rows, 6]);
  const empty = labels({});
  expect(await slicesOf(file)).toEqual([
    labels({ 0: 1 }),
    empty,
    labels({ 4: 1 }),
    empty,
    empty,
    labels({ 10: 1 }),
  ]);
});

test('A single slice has the thickness that the file gives', async () => {
  const file = await write([{ z: 5, segment: 4, values: where(2) }]);
  expect((await openVolume(file)).affine[2]).toEqual([0, 0, 1, 5]);
  expect(await slicesOf(file)).toEqual([labels({ 2: 4 })]);
});

test('A voxel with a fraction above one half belongs to the segment', async () => {
  const values = where().map((_, at) => [0, 50, 51, 100][at % 4] ?? 0);
  const more = [element(0x0062000e, 'US', [100])];
  const file = await write([{ z: 5, segment: 3, values }], { type: 'FRACTIONAL', more });
  expect(await slicesOf(file)).toEqual([Uint8Array.from(values, (value) => (value > 50 ? 3 : 0))]);
});

test('A LABELMAP keeps its values, even with a palette', async () => {
  const values = where().map((_, at) => at % 5);
  const more = [element(0x00280004, 'CS', 'PALETTE COLOR')];
  const frames = [6, 5].map((z) => ({ z, values: z === 5 ? values : where() }));
  const file = await write(frames, { type: 'LABELMAP', class: '66.7', more });
  expect(await openVolume(file)).toMatchObject({ format: 'DICOM SEG', components: 1 });
  expect(await slicesOf(file)).toEqual([Uint8Array.from(values), labels({})]);
});

test.each<[string, SegmentFrame[], string]>([
  [
    'without the segment of a frame',
    [{ z: 1, values: where(1) }],
    'Frame 1 of seg.dcm does not say which segment',
  ],
  [
    'at uneven distances',
    [0, 1, 1.37].map((z) => ({ z, segment: 1, values: where(1) })),
    'The frames of seg.dcm lie at uneven distances: resample the segmentation.',
  ],
  [
    'that is shifted',
    [0, 1, 2].map((z) => ({ z, segment: 1, values: where(1), x: z === 1 ? 10.125 : 10 })),
    'frame 2 of seg.dcm is shifted against frame 1 of seg.dcm: resample the segmentation.',
  ],
])('A segmentation %s is refused', async (_, frames, sentence) => {
  await expect(openVolume(await write(frames))).rejects.toThrow(sentence);
});

test('Overlapping segments can be read one by one, each with all its frames', async () => {
  const frames: SegmentFrame[] = [
    { z: 3, segment: 3, values: where(1, 2) },
    { z: 0, segment: 1, values: where(1) },
    { z: 3, segment: 1, values: where(2, 3) },
    { z: 3, segment: 3, values: where(4) },
  ];
  const volume = await openVolume(await write(frames));
  const layers: [number, Voxels][] = [];
  for await (const { k, values } of volume.layers?.() ?? []) layers.push([k, values.slice()]);
  expect(layers).toEqual([
    [0, labels({ 1: 1 })],
    [1, labels({ 2: 1, 3: 1 })],
    [1, labels({ 1: 3, 2: 3, 4: 3 })],
  ]);
  expect(await slicesOf(volume.path)).toEqual([labels({ 1: 1 }), labels({ 1: 3, 2: 3, 3: 1, 4: 3 })]);
  for (const choice of [{ only: [2] }, { frame: 1 }])
    await expect(volume.slices(choice).next()).rejects.toThrow(RangeError);
});

test('Segment numbers over 255 are read as 16-bit values', async () => {
  const list = element(0x00620002, 'SQ', [segmentItem({ number: 256, label: 'far' })]);
  const file = await write([{ z: 0, segment: 256, values: where(1) }], { more: [list] });
  expect(await slicesOf(file)).toEqual([Uint16Array.from(labels({}), (_, at) => (at === 1 ? 256 : 0))]);
  const unlisted = await write([{ z: 0, segment: 300, values: where(1) }]);
  expect((await slicesOf(unlisted))[0]?.[1]).toBe(300);
  const volume = await openVolume(await write([{ z: 0, segment: 255, values: where(1) }]));
  for await (const { values } of volume.slices()) expect(values).toBeInstanceOf(Uint8Array);
  expect(
    (await openVolume(await write([{ z: 0, values: where() }], { type: 'LABELMAP' }))).layers,
  ).toBeUndefined();
});

test('A voxel with a fraction above 127 belongs to the segment if the file gives no maximum value', async () => {
  const values = where().map((_, at) => [0, 127, 128, 255][at % 4] ?? 0);
  const file = await write([{ z: 5, segment: 3, values }], { type: 'FRACTIONAL' });
  expect(await slicesOf(file)).toEqual([Uint8Array.from(values, (value) => (value > 127 ? 3 : 0))]);
});

test('A segment without a number, a name or a colour gets a default', async () => {
  const list = element(0x00620002, 'SQ', [
    [element(0x00620005, 'LO', '')],
    [element(0x00620005, 'LO', Buffer.from('Gaümen ')), element(0x0062000d, 'US', [1, 2])],
    segmentItem({ number: 7, label: 'Black', colour: [0, 0x8080, 0x8080] }),
  ]);
  const more = [list, element(0x00080005, 'CS', 'ISO_IR 192')];
  expect((await openVolume(await write([{ z: 0, segment: 1, values: where(1) }], { more }))).labels).toEqual([
    { value: 1, name: 'segment 1', colour: null },
    { value: 2, name: 'Gaümen', colour: null },
    { value: 7, name: 'Black', colour: '#000000' },
  ]);
  const single = element(0x00620002, 'SQ', [segmentItem({ number: 1, label: 'one' })]);
  const file = await write([{ z: 0, values: where(2) }], { more: [single] });
  expect(await slicesOf(file)).toEqual([labels({ 2: 1 })]);
});

test('A segmentation with colour pixels is refused', async () => {
  const more = [
    element(0x00280002, 'US', [3]),
    element(0x00280004, 'CS', 'RGB'),
    element(0x00280100, 'US', [8]),
  ];
  const values = Array.from({ length: 3 * plane }, () => 1);
  await expect(
    openVolume(await write([{ z: 0, segment: 1, values }], { type: 'LABELMAP', more })),
  ).rejects.toThrow(new VolumeError('seg.dcm has colours instead of segments: convert it to NIfTI.'));
});
