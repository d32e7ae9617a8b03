import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { misplacedGrid } from '../src/gantry-tilt.js';
import {
  type Affine,
  type Geometry,
  openVolume,
  placeOf,
  placeOnGrid,
  type SourceSeries,
  shearOf,
  type VolumeFile,
  voxelVolumeOf,
  writeDicomSeg,
  writeDicomSeries,
  writeNifti,
  writeRtStruct,
} from '../src/index.js';
import { labels, maker, maskOn, oblique, parse, segments, size, writeMask, writeSeries } from './study.js';
import { workspace } from './written.js';

const [columns, rows, count] = size;
/** Millimetres between rows, along which slices are shifted, and between slices. */
const [betweenRows, between] = [1.5, 2.5];
const tilted = (shift = betweenRows) => writeSeries({ orientation: oblique, shift });

/** Where slices lie straight above one of a series, this far from each other. */
function straight({ affine }: Geometry, length: number, anchor = 0): Affine {
  const [, , , ...normal] = [0, 0, 0, 0, -Math.SQRT1_2, Math.SQRT1_2].map((part) => part * length);
  const at = placeOf({ affine }, 0, 0, anchor);
  // Millimetres to the back are negative to the front: the normal of the series is (0, -s, s) to the left, back and up.
  const way = [normal[0], -(normal[1] ?? 0), normal[2]] as const;
  return affine.map(([i, j], axis) => {
    const step = way[axis] ?? 0;
    return [i, j, step, (at[axis] ?? 0) - anchor * step];
  }) as unknown as Affine;
}

async function segmentation(source: SourceSeries, mask: Awaited<ReturnType<typeof writeMask>>) {
  const file = path.join(await workspace(), 'seg.dcm');
  const written = await writeDicomSeg(file, [{ mask, segments }], source, { maker });
  const data = new Uint8Array(labels.length);
  const values = [0, ...written.segments.map(({ value }) => value)];
  for await (const { k, values: plane } of placeOnGrid(await openVolume(file), source).slices())
    data.set(
      Uint8Array.from(plane, (number) => values[number] ?? 0),
      k * columns * rows,
    );
  return { file, written, data };
}

const refusal = /mask\.nii\.gz does not reach over all of the scan, .* a tilted gantry, each 1\.50 mm/;

describe('A series of a tilted gantry', () => {
  test.each([false, true])(
    'A tilted series is placed by the positions of its images (enhanced: %s)',
    async (isEnhanced) => {
      const source = await writeSeries({ orientation: oblique, shift: 1.1, isEnhanced });
      for (const [k, images] of source.slices.entries()) {
        const [right, front, up] = placeOf(source, 0, 0, k);
        expect([-right, -front, up]).toEqual(
          (images[0]?.position ?? []).map((each) => expect.closeTo(each, 5)),
        );
      }
      expect(voxelVolumeOf(source)).toBeCloseTo((0.75 * betweenRows * between) / 1000, 9);
      expect(shearOf(source)).toBeCloseTo((Math.atan(1.1 / between) * 180) / Math.PI, 4);
      expect(shearOf(await writeSeries({ orientation: oblique }))).toBeCloseTo(0, 3);
    },
  );

  test('Segments of a tilted series lie in the planes of its images', async () => {
    const source = await tilted();
    const { file } = await segmentation(source, await maskOn(source));
    const frames = parse(await readFile(file)).elements.x52009230?.items ?? [];
    const itemOf = (at: number, ...tags: readonly string[]) =>
      tags.reduce((set, tag) => set?.elements[tag]?.items?.[0]?.dataSet, frames[at]?.dataSet);
    expect(frames.length).toBeGreaterThan(count);
    for (const at of frames.keys()) {
      const instance = itemOf(at, 'x00089124', 'x00082112')?.string('x00081155');
      const image = source.slices.flat().find(({ sopInstance }) => sopInstance === instance);
      const position = itemOf(at, 'x00209113')?.string('x00200032')?.split('\\').map(Number);
      expect(position).toEqual(image?.position.map((each) => expect.closeTo(each, 5)));
    }
  });

  test('A tilted series keeps its place in NIfTI and in a derived series', async () => {
    const source = await tilted();
    const file = path.join(await workspace(), 'scan.nii.gz');
    const data = Int16Array.from(labels, (_, at) => at);
    await writeNifti(file, { size, affine: source.affine, data });
    const near = source.affine.map((row) => row.map((each) => expect.closeTo(each, 4)));
    const scan = await openVolume(file);
    expect(scan.affine).toEqual(near);
    const directory = path.join(await workspace(), 'derived');
    await writeDicomSeries(directory, scan, source, { maker, isHounsfield: true });
    expect((await openVolume(directory)).affine).toEqual(near);
  });
});

describe('A label map of a tilted series', () => {
  test('A label map with the straight slices of ITK is matched by slice number, or refused on request', async () => {
    const source = await tilted();
    const affine = straight(source, Math.hypot(between, betweenRows));
    const mask = await writeMask('mask.nii.gz', { size, affine, data: labels });
    const { written, data } = await segmentation(source, mask);
    expect(written).toMatchObject({ isExact: false, isByNumber: true });
    expect(data).toEqual(labels);
    const file = path.join(await workspace(), 'structures.dcm');
    const structures = await writeRtStruct(file, [{ mask, segments }], source, { maker });
    expect(structures).toMatchObject({ isExact: false, isByNumber: true });
    await expect(
      writeDicomSeg(file, [{ mask, segments }], source, { maker, isStrict: true }),
    ).rejects.toThrow('mask.nii.gz lies on another grid than');
  });

  test('A label map with the slanted slices of dcm2niix is matched by slice number', async () => {
    const source = await tilted();
    const part = between / Math.hypot(between, betweenRows);
    const affine = source.affine.map(([i, j, k, offset]) => [i, j, k * part, offset]) as unknown as Affine;
    const mask = await writeMask('mask.nii.gz', { size, affine, data: labels });
    const { written, data } = await segmentation(source, mask);
    expect(written).toMatchObject({ isExact: false, isByNumber: true });
    expect(data).toEqual(labels);
  });

  test('A label map with the straight slices of ITK is matched even if its axes are in another order', async () => {
    const source = await tilted();
    const affine = straight(source, Math.hypot(between, betweenRows));
    // From the last row to the first, slices before rows.
    const turned = affine.map(([i, j, k, offset]) => [
      i,
      k,
      -j,
      offset + (rows - 1) * j,
    ]) as unknown as Affine;
    const data = labels.map((_, at) => {
      const [i, k, j] = [at % columns, Math.floor(at / columns) % count, Math.floor(at / columns / count)];
      return labels[(k * rows + rows - 1 - j) * columns + i] ?? 0;
    });
    const mask = await writeMask('mask.nii.gz', { size: [columns, count, rows], affine: turned, data });
    const found = await segmentation(source, mask);
    expect(found.written.isByNumber).toBe(true);
    expect(found.data).toEqual(labels);
  });

  test.each<[string, (source: SourceSeries) => Parameters<typeof writeMask>[1]]>([
    [
      'at the distances of the planes',
      (source) => ({ size, affine: straight(source, between), data: labels }),
    ],
    [
      'that ends with the series',
      (source) => ({ size, affine: straight(source, between, count - 1), data: labels }),
    ],
    [
      'that holds all of it, but was moved',
      (source) => ({
        size: [columns, rows + count - 1, count],
        affine: straight(source, between).map(([i, j, k, offset]) => [i, j, k, offset + 2 * k]) as never,
        data: new Uint8Array(columns * (rows + count - 1) * count),
      }),
    ],
    [
      'of a part of it',
      (source) => ({
        size: [columns, rows, count - 1],
        affine: straight(source, Math.hypot(between, betweenRows)),
        data: labels.slice(columns * rows),
      }),
    ],
    [
      'of finer voxels',
      (source) => ({
        size: [2 * columns, 2 * rows, 2 * count],
        affine: straight(source, Math.hypot(between, betweenRows)).map(([i, j, k, offset]) => [
          i / 2,
          j / 2,
          k / 2,
          offset - (i + j + k) / 4,
        ]) as unknown as Affine,
        data: new Uint8Array(8 * labels.length),
      }),
    ],
  ])('A label map next to a tilted series is refused if it cannot be placed: %s', async (_, maskOf) => {
    const source = await tilted();
    const mask = await writeMask('mask.nii.gz', maskOf(source));
    const file = path.join(await workspace(), 'out');
    await expect(writeDicomSeg(file, [{ mask, segments }], source, { maker })).rejects.toThrow(refusal);
    await expect(writeRtStruct(file, [{ mask, segments }], source, { maker })).rejects.toThrow(refusal);
  });

  test('A label map on straight slices of the whole resampled series is mapped back to the right voxels', async () => {
    const source = await tilted();
    // Each slice is a row further, so that straight columns of rows hold all of them.
    const more = rows + count - 1;
    const data = new Uint8Array(columns * more * count);
    for (const [at, value] of labels.entries()) {
      const [i, j, k] = [at % columns, Math.floor(at / columns) % rows, Math.floor(at / columns / rows)];
      data[(k * more + j + k) * columns + i] = value;
    }
    const mask = await writeMask('mask.nii.gz', {
      size: [columns, more, count],
      affine: straight(source, between),
      data,
    });
    const found = await segmentation(source, mask);
    expect(found.written).toMatchObject({ isExact: false, isByNumber: false });
    expect(found.data).toEqual(labels);
  });

  test('A label map of a slightly tilted series with many slices is refused if its place is ambiguous', () => {
    const grid = (length: number, slant: number): Geometry => ({
      size: [5, 3, 41],
      affine: [
        [0.75, 0, 0, 0],
        [0, 1.5, slant, 0],
        [0, 0, length, 0],
      ],
    });
    const source = grid(2.5, 0.04);
    for (const length of [2.5, Math.hypot(2.5, 0.04)]) {
      const mask = { ...grid(length, 0), path: 'mask.nii' } as VolumeFile;
      expect(() => misplacedGrid(mask, source)).toThrow(/a tilted gantry, each 0\.04 mm/);
    }
  });

  test('A tilt of less than a pixel is ignored', async () => {
    const source = await tilted(0.2);
    // As ITK places the slices of a larger tilt.
    const affine = straight(source, Math.hypot(between, 0.2));
    const mask = await writeMask('mask.nii.gz', { size, affine, data: labels });
    const found = await segmentation(source, mask);
    expect(found.written).toMatchObject({ isExact: false, isByNumber: false });
    expect(found.data).toEqual(labels);
  });
});
