import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { DataSet } from 'dicom-parser';
import { expect, test } from 'vitest';
import { straight } from '../../../test/support/affine.js';
import { element } from '../../../test/support/dicom-files.js';
import {
  inverseOf,
  type LabelLayer,
  NoLabels,
  placeOf,
  type RtStructOptions,
  type SourceSeries,
  type VolumeFile,
  writeRtStruct,
} from '../src/index.js';
import { filled } from './polygons.js';
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

/** Writes a structure set, and returns its path and what was written. */
async function structures(
  layers: readonly LabelLayer[],
  source: SourceSeries,
  options: Partial<RtStructOptions> = {},
) {
  const file = path.join(await workspace(), 'structures.dcm');
  const written = await writeRtStruct(file, layers, source, { maker, ...options });
  return { file, written, set: parse(await readFile(file)) };
}

const itemsOf = (set: DataSet | undefined, tag: string): DataSet[] =>
  (set?.elements[tag]?.items ?? []).flatMap(({ dataSet }) => dataSet ?? []);

const contoursOf = (region: DataSet): DataSet[] => itemsOf(region, 'x30060040');

/** An `expect` for each number would take longer than to read them. */
function numbersOf(contour: DataSet): number[] {
  const texts = (contour.string('x30060050') ?? '').split('\\');
  expect(texts.filter((text) => text.length > 16)).toEqual([]);
  return texts.map(Number);
}

/** The voxels of a region on the grid of a series: 1 for those whose centres are within its contours. */
function voxelsOf(region: DataSet, source: SourceSeries): Uint8Array {
  const toIndices = inverseOf(source.affine);
  if (!toIndices) throw new TypeError('no grid');
  const planes = source.slices.map((): [number, number][][] => []);
  for (const contour of contoursOf(region)) {
    const numbers = numbersOf(contour);
    expect(contour.string('x30060046')).toBe(String(numbers.length / 3));
    expect(contour.string('x30060042')).toBe('CLOSED_PLANAR');
    const image = itemsOf(contour, 'x30060016')[0];
    const k = source.slices.findIndex(([slice]) => slice?.sopInstance === image?.string('x00081155'));
    const points: [number, number][] = [];
    const offPlane: number[] = [];
    for (let at = 0; at < numbers.length; at += 3) {
      const [left = 0, back = 0, up = 0] = numbers.slice(at, at + 3);
      const [x, y, z] = placeOf({ affine: toIndices }, -left, -back, up);
      points.push([x, y]);
      offPlane.push(Math.abs(z - k));
    }
    expect(Math.max(...offPlane)).toBeLessThan(0.00005);
    planes[k]?.push(points);
  }
  const voxels = new Uint8Array(size[0] * size[1] * size[2]);
  for (const [k, polygons] of planes.entries())
    voxels.set(filled(polygons, size[0], size[1]), k * size[0] * size[1]);
  return voxels;
}

const voxelsOfLabel = (value: number) => labels.map((each) => Number(each === value));

test.each([
  ['an oblique', 0],
  ['a tilted', 1.1],
])('Contours enclose the labels for all 48 orders of the axes of a mask, in %s series', async (_, shift) => {
  const source = await writeSeries({ orientation: oblique, shift });
  for (const order of orders) {
    const mask = await writeMask('mask.nii', reordered(source, order));
    const { set, written } = await structures([{ mask, segments }], source, { isStrict: true });
    expect(written.isExact).toBe(true);
    const regions = itemsOf(set, 'x30060039');
    expect(regions.map((region) => voxelsOf(region, source))).toEqual([1, 2, 5].map(voxelsOfLabel));
  }
});

test('The coordinate across an axial plane has the same text as the position of its image', async () => {
  const source = await writeSeries();
  const { set } = await structures([{ mask: await maskOn(source), segments }], source);
  for (const region of itemsOf(set, 'x30060039')) {
    expect(voxelsOf(region, source)).toContain(1);
    for (const contour of contoursOf(region)) {
      const instance = itemsOf(contour, 'x30060016')[0]?.string('x00081155');
      const image = source.slices.flat().find(({ sopInstance }) => sopInstance === instance);
      const texts = (contour.string('x30060050') ?? '').split('\\').filter((_, at) => at % 3 === 2);
      expect(new Set(texts)).toEqual(new Set([String(image?.position[2])]));
    }
  }
});

test('Regions have numbers, names, colours and codes', async () => {
  const source = await writeSeries();
  const { set, written } = await structures([{ mask: await maskOn(source), segments }], source);
  const regions = itemsOf(set, 'x30060020');
  expect(regions.map((item) => [item.string('x30060022'), item.string('x30060026')])).toEqual([
    ['1', 'Liver'],
    ['2', 'Label 2'],
    ['3', 'Tumour'],
  ]);
  expect(new Set(regions.map((item) => item.string('x30060024')))).toEqual(new Set(['1.2.3.9']));
  expect(
    itemsOf(set, 'x30060039').map((item) => [item.string('x30060084'), item.string('x3006002a')]),
  ).toEqual([
    ['1', '221\\130\\101'],
    ['2', undefined],
    ['3', '0\\255\\0'],
  ]);
  const observations = itemsOf(set, 'x30060080');
  expect(
    observations.map((item) => [
      item.string('x30060084'),
      itemsOf(item, 'x30060086')[0]?.string('x00080100'),
    ]),
  ).toEqual([
    ['1', '10200004'],
    ['2', undefined],
    ['3', undefined],
  ]);
  expect(written.segments.map(({ value, name }) => [value, name])).toEqual([
    [1, 'Liver'],
    [2, 'Label 2'],
    [5, 'Tumour'],
  ]);
});

test('A structure set belongs to the study of its series, and refers to all images', async () => {
  const source = await writeSeries();
  const { set } = await structures([{ mask: await maskOn(source), segments }], source);
  const tags = ['00080060', '0020000d', '00100010', '00100020', '00080050', '00200052', '300e0002'];
  expect(tags.map((tag) => set.string(`x${tag}`))).toEqual([
    'RTSTRUCT',
    '1.2.3',
    'Muster^Anna',
    'P-1',
    'A-77',
    '1.2.3.9',
    'UNAPPROVED',
  ]);
  const frame = itemsOf(set, 'x30060010')[0];
  const study = itemsOf(frame, 'x30060012')[0];
  const series = itemsOf(study, 'x30060014')[0];
  expect([
    frame?.string('x00200052'),
    study?.string('x00081155'),
    series?.string('x0020000e'),
    itemsOf(series, 'x30060016').map((image) => image.string('x00081155')),
  ]).toEqual(['1.2.3.9', '1.2.3', '1.2.3.4', [1, 2, 3, 4].map((number) => `1.2.3.5.${number}`)]);
});

test('Contours of an enhanced series refer to frames, and the list of images to the file', async () => {
  const source = await writeSeries({ isEnhanced: true });
  const { set } = await structures([{ mask: await maskOn(source), segments }], source);
  const frames = itemsOf(set, 'x30060039')
    .flatMap(contoursOf)
    .flatMap((contour) => {
      const z = numbersOf(contour)[2] ?? 0;
      return itemsOf(contour, 'x30060016').map((image) => [image.string('x00081160'), (z - 40) / 2.5 + 1]);
    });
  expect(new Set(frames.map(([number]) => number))).toEqual(new Set(['1', '2', '3', '4']));
  for (const [number, place] of frames) expect(Number(number)).toBe(place);
  const study = itemsOf(itemsOf(set, 'x30060010')[0], 'x30060012')[0];
  const images = itemsOf(itemsOf(study, 'x30060014')[0], 'x30060016');
  expect(images.map((image) => [image.string('x00081155'), image.string('x00081160')])).toEqual([
    ['1.2.3.5', undefined],
  ]);
});

test('Regions of several layers may overlap', async () => {
  const source = await writeSeries();
  const any = labels.map((value) => Number(value > 0));
  const layers = [
    { mask: await maskOn(source), segments },
    { mask: await maskOn(source, any), segments: [{ value: 1, name: 'All', color: null, snomed: null }] },
  ];
  const { set, written } = await structures(layers, source);
  expect(written.segments.map(({ name }) => name)).toEqual(['Liver', 'Label 2', 'Tumour', 'All']);
  expect(itemsOf(set, 'x30060039').map((region) => voxelsOf(region, source))).toEqual([
    ...[1, 2, 5].map(voxelsOfLabel),
    any,
  ]);
});

test('The same result gives the same structure set, and another result a new one in the same series', async () => {
  const source = await writeSeries();
  const uidsOf = async (data: Uint8Array<ArrayBuffer>, named = segments) => {
    const { written, set } = await structures(
      [{ mask: await maskOn(source, data), segments: named }],
      source,
    );
    expect([set.string('x0020000e'), set.string('x00080018')]).toEqual([
      written.seriesUid,
      written.instanceUid,
    ]);
    for (const uid of [written.seriesUid, written.instanceUid]) expect(uid).toMatch(/^2\.25\.[1-9]\d{0,38}$/);
    return written;
  };
  const first = await uidsOf(labels);
  expect(await uidsOf(labels)).toEqual(first);
  const changed = labels.slice();
  changed[7] = changed[7] === 5 ? 1 : 5;
  const others = [
    await uidsOf(changed),
    await uidsOf(
      labels,
      segments.map((each) => ({ ...each, name: `${each.name} 2` })),
    ),
  ];
  for (const { seriesUid, instanceUid } of others) {
    expect(seriesUid).toBe(first.seriesUid);
    expect(instanceUid).not.toBe(first.instanceUid);
  }
});

test('Names that are not ASCII are written in UTF-8', async () => {
  const source = await writeSeries({ more: [element(0x00080005, 'CS', 'ISO_IR 100')] });
  const named = [{ value: 1, name: 'Hépar \u809d', color: null, snomed: null }];
  const { set } = await structures([{ mask: await maskOn(source), segments: named }], source);
  expect(set.string('x00080005')).toBe('ISO_IR 192');
  const { dataOffset = 0, length = 0 } = itemsOf(set, 'x30060020')[0]?.elements.x30060026 ?? {};
  expect(
    Buffer.from(set.byteArray.subarray(dataOffset, dataOffset + length))
      .toString()
      .trim(),
  ).toBe('Hépar \u809d');
});

test('A scan that is mistaken for a label map is refused before its contours fill the memory', async () => {
  const source = await writeSeries();
  const directory = await workspace();
  const mask: VolumeFile = {
    ...(await maskOn(source)),
    async *slices() {
      for (let k = 0; k < 200; k += 1)
        yield { k: k % size[2], values: Uint16Array.from({ length: 15 }, (_, at) => 15 * k + at + 1) };
    },
  };
  const written = writeRtStruct(path.join(directory, 'a.dcm'), [{ mask, segments }], source, { maker });
  await expect(written).rejects.toThrow('There are more than 1000 different values: it is not a label map.');
  expect(readdirSync(directory)).toEqual([]);
});

test('No structure set is written for a label map without labels, or for one on another grid if that is refused', async () => {
  const source = await writeSeries();
  const directory = await workspace();
  const file = path.join(directory, 'structures.dcm');
  const empty = await maskOn(source, new Uint8Array(labels.length));
  const other = await writeMask('other.nii', {
    size,
    affine: straight(),
    data: labels,
  });
  await expect(writeRtStruct(file, [{ mask: empty, segments }], source, { maker })).rejects.toThrow(NoLabels);
  await expect(
    writeRtStruct(file, [{ mask: other, segments }], source, { maker, isStrict: true }),
  ).rejects.toThrow(/other.nii lies on another grid than/);
  expect(existsSync(file)).toBe(false);
  expect(readdirSync(directory)).toEqual([]);
});
