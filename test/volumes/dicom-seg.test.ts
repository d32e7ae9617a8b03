import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openVolume, type Voxels } from '../../src/volumes/index.js';
import { dicomFile, type Element, type Encoding, element } from '../support/dicom-files.js';
import { temporary } from '../support/temporary.js';

/** Not a whole number of bytes, so that frames begin within one. */
const [columns, rows] = [5, 3];
const plane = columns * rows;

interface Segment {
  readonly number: number;
  readonly label: string;
  readonly colour?: readonly number[];
}

interface SegmentFrame {
  readonly z: number;
  readonly segment?: number;
  /** Values of all its pixels. */
  readonly values: readonly number[];
}

const segmentItem = ({ number, label, colour }: Segment): Element[] => [
  element(0x00620004, 'US', [number]),
  element(0x00620005, 'LO', label),
  ...(colour ? [element(0x0062000d, 'US', colour)] : []),
];

const segments: readonly Segment[] = [
  { number: 1, label: 'Liver', colour: [0xffff, 0x8080, 0x8080] },
  { number: 3, label: 'Tumour', colour: [35579, 53664, 50858] },
  { number: 4, label: 'Vessel' },
];

/** Single bits, lowest first, of all frames without gaps. */
function packed(frames: readonly SegmentFrame[]): Uint8Array {
  const bits = frames.flatMap(({ values }) => values);
  const bytes = new Uint8Array(2 * Math.ceil(bits.length / 16));
  for (const [at, bit] of bits.entries()) bytes[at >> 3] = (bytes[at >> 3] ?? 0) | (bit << (at & 7));
  return bytes;
}

async function write(
  frames: readonly SegmentFrame[],
  given: { type?: string; class?: string; more?: Element[]; encoding?: Encoding } = {},
): Promise<string> {
  const { type = 'BINARY', class: last = '66.4', more = [], encoding } = given;
  const isBinary = type === 'BINARY';
  const pixels = isBinary ? packed(frames) : Uint8Array.from(frames.flatMap(({ values }) => values));
  const bytes = dicomFile(
    {
      pixels,
      size: [columns, rows],
      spacing: [2, 1.5],
      frames: frames.map(({ z, segment }) => ({
        position: [10, 20, z],
        ...(segment !== undefined && {
          more: [element(0x0062000a, 'SQ', [[element(0x0062000b, 'US', [segment])]])],
        }),
      })),
      more: [
        element(0x00080016, 'UI', `1.2.840.10008.5.1.4.1.1.${last}`),
        element(0x00080060, 'CS', 'SEG'),
        element(0x00620001, 'CS', type),
        element(0x00620002, 'SQ', segments.map(segmentItem)),
        ...(isBinary
          ? [element(0x00280100, 'US', [1]), element(0x00280101, 'US', [1]), element(0x00280102, 'US', [0])]
          : []),
        ...more,
      ],
    },
    encoding,
  );
  const directory = await temporary();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  const file = path.join(directory.path, 'seg.dcm');
  await writeFile(file, bytes);
  return file;
}

async function slicesOf(file: string, only?: readonly number[]): Promise<Voxels[]> {
  const all: Voxels[] = [];
  for await (const { values } of (await openVolume(file)).slices(only ? { only } : {}))
    all.push(values.slice());
  return all;
}

const where = (...pixels: number[]) =>
  Array.from({ length: plane }, (_, at) => (pixels.includes(at) ? 1 : 0));
const labels = (at: Record<number, number>) =>
  Uint8Array.from({ length: plane }, (_, index) => at[index] ?? 0);

test.each<[string, Encoding]>([
  ['explicit', {}],
  ['implicit', { isImplicit: true }],
  ['deflated', { isDeflated: true }],
])('Segments become one volume of labels, of which the last one wins: %s', async (_, encoding) => {
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
    affine: [
      [-1.5, 0, 0, -10],
      [0, -2, 0, -20],
      [0, 0, 3, 30],
    ],
    labels: [
      { value: 1, name: 'Liver', colour: '#ffffff' },
      { value: 3, name: 'Tumour', colour: '#ff0000' },
      { value: 4, name: 'Vessel', colour: null },
    ],
  });
  expect(await slicesOf(file)).toEqual([labels({ 0: 3, 7: 3, 8: 1 }), labels({ 14: 1 })]);
  expect(await slicesOf(file, [1])).toEqual([labels({ 14: 1 })]);
});

test('Slices that no segment is in are empty, with the smallest even distance', async () => {
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

test('A single slice is as thick as the file says', async () => {
  const file = await write([{ z: 5, segment: 4, values: where(2) }]);
  expect((await openVolume(file)).affine[2]).toEqual([0, 0, 1, 5]);
  expect(await slicesOf(file)).toEqual([labels({ 2: 4 })]);
});

test('Of fractions, more than half is the segment', async () => {
  const values = where().map((_, at) => [0, 50, 51, 100][at % 4] ?? 0);
  const more = [element(0x0062000e, 'US', [100])];
  const file = await write([{ z: 5, segment: 3, values }], { type: 'FRACTIONAL', more });
  expect(await slicesOf(file)).toEqual([Uint8Array.from(values, (value) => (value > 50 ? 3 : 0))]);
});

test('A map of labels is read as it is, also where it has a palette', async () => {
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
    'The frames of seg.dcm lie at uneven distances',
  ],
])('A segmentation %s is refused', async (_, frames, sentence) => {
  await expect(openVolume(await write(frames))).rejects.toThrow(sentence);
});
