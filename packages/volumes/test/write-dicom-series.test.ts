import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { element } from '../../../test/support/dicom-files.js';
import {
  type Affine,
  isSameGeometry,
  openVolume,
  readVolume,
  type SourceSeries,
  VolumeError,
  type VolumeFile,
  writeDicomSeries,
  writeNifti,
} from '../src/index.js';
import { maker, oblique, parse, size, writeSeries } from './study.js';
import { workspace } from './written.js';

const count = size[0] * size[1] * size[2];

/** Writes a volume as a derived series, and returns its directory and what was written. */
async function derive(
  source: SourceSeries,
  data: Int16Array | Float32Array,
  more: { affine?: Affine; isHounsfield?: boolean; size?: readonly [number, number, number] } = {},
) {
  const place = await workspace();
  const file = path.join(place, 'ct.nii.gz');
  await writeNifti(file, { size: more.size ?? size, affine: more.affine ?? source.affine, data });
  const directory = path.join(place, 'ct.dicom');
  const { isHounsfield = true } = more;
  const volume = await openVolume(file);
  const written = await writeDicomSeries(directory, volume, source, { maker, isHounsfield });
  const sets = await Promise.all(
    readdirSync(directory)
      .sort()
      .map(async (name) => parse(await readFile(path.join(directory, name)))),
  );
  return { directory, written, sets };
}

const values = Int16Array.from({ length: count }, (_, at) => ((at * 7919) % 3000) - 1000);

test('A synthetic CT becomes a CT series in the study of its MR, with the same voxels at the same positions', async () => {
  const source = await writeSeries({ orientation: oblique });
  const { directory, sets } = await derive(source, values);
  // A slice that is said to be of no thickness is as thick as they are apart.
  const [thin] = (await derive({ ...source, thickness: 0 }, values)).sets;
  expect(Number(thin?.string('x00180050'))).toBeCloseTo(2.5, 4);
  const read = await readVolume(directory);
  expect(read).toMatchObject({ modality: 'CT', unit: 'HU', size: [...size] });
  expect(isSameGeometry(read, source, 1e-4)).toBe(true);
  expect([...read.data]).toEqual([...values]);
  for (const [k, set] of sets.entries()) {
    expect([set.string('x0020000d'), set.string('x00100020'), set.string('x00200013')]).toEqual([
      '1.2.3',
      'P-1',
      String(k + 1),
    ]);
    const image = set.elements.x00082112?.items?.[0]?.dataSet;
    expect(image?.string('x00081155')).toBe(`1.2.3.5.${k + 1}`);
    expect(set.string('x00080008')).toBe('DERIVED\\SECONDARY\\AXIAL');
  }
});

test('Fractions are rounded to 16 bits, and the axes may run in another order', async () => {
  const source = await writeSeries();
  const data = Float32Array.from({ length: count }, (_, at) => Math.sin(at) / 3);
  const flipped = source.affine.map(([i, j, k, offset]) => [
    -i,
    j,
    -k,
    offset + i * (size[0] - 1) + k * (size[2] - 1),
  ]) as unknown as Affine;
  const { directory, sets } = await derive(source, data, { affine: flipped, isHounsfield: false });
  expect(sets[0]?.string('x00080060')).toBe('MR');
  const read = await readVolume(directory);
  const wanted = Array.from({ length: count }, (_, at) => {
    const [i, j, k] = [
      at % size[0],
      Math.floor(at / size[0]) % size[1],
      Math.floor(at / (size[0] * size[1])),
    ];
    return data[((size[2] - 1 - k) * size[1] + j) * size[0] + size[0] - 1 - i] ?? 0;
  });
  const max = Math.max(...wanted.map((value, at) => Math.abs(value - (read.data[at] ?? Number.NaN))));
  expect(max).toBeLessThan((2 / 3 / 65_534) * 0.6);
});

test('The same content gives the same series, and other content another one', async () => {
  const source = await writeSeries();
  const uidsOf = (sets: Awaited<ReturnType<typeof derive>>['sets']) =>
    sets.map((set) => [set.string('x0020000e'), set.string('x00080018')]);
  const first = await derive(source, values);
  expect(uidsOf((await derive(source, values)).sets)).toEqual(uidsOf(first.sets));
  expect(new Set(uidsOf(first.sets).map(([, instance]) => instance)).size).toBe(size[2]);
  const changed = values.slice();
  changed[3] = 7;
  const [other] = (await derive(source, changed)).sets;
  expect(other?.string('x0020000e')).not.toBe(first.written.seriesUid);
});

test('A volume on another grid, or of a series that is neither CT nor MR, is refused, and no file is left', async () => {
  const source = await writeSeries();
  const moved = source.affine.map(([i, j, k, offset]) => [i, j, k, offset + i / 2]) as unknown as Affine;
  await expect(derive(source, values, { affine: moved })).rejects.toThrow(/lies on another grid than/);
  const inside = values.slice(0, size[0] * size[1] * 2);
  await expect(derive(source, inside, { size: [size[0], size[1], 2] })).rejects.toThrow(/another grid/);
  const pet = await writeSeries({ more: [element(0x00080060, 'CS', 'PT')] });
  const place = await workspace();
  const target = path.join(place, 'x');
  await writeNifti(path.join(place, 'x.nii'), { size, affine: pet.affine, data: values });
  const volume = await openVolume(path.join(place, 'x.nii'));
  await expect(writeDicomSeries(target, volume, pet, { maker, isHounsfield: false })).rejects.toThrow(
    /of CT and MR/,
  );
  const colours = { ...volume, components: 3 as const };
  await expect(writeDicomSeries(target, colours, source, { maker, isHounsfield: true })).rejects.toThrow(
    'x.nii cannot become a derived series: they are written of CT and MR alone.',
  );
  expect(existsSync(target)).toBe(false);
  expect(readdirSync(place)).toEqual(['x.nii']);
});

describe('The values of a derived series', () => {
  const written = async (values: Float32Array, source: SourceSeries) => {
    const directory = path.join(await workspace(), 'ct');
    const plane = source.size[0] * source.size[1];
    const volume: VolumeFile = {
      ...{ path: 'dir/ct.nii', format: 'NIfTI', size, affine: source.affine, components: 1, frames: 1 },
      ...{ hasOrientation: true, modality: null, labels: null },
      async *slices() {
        for (let k = 0; k < source.size[2]; k += 1)
          yield { k, values: values.subarray(k * plane, (k + 1) * plane) };
      },
    };
    await writeDicomSeries(directory, volume, source, { maker, isHounsfield: true });
    const set = parse(await readFile(path.join(directory, '0001.dcm')));
    const texts = ['00281050', '00281051', '00281052', '00281053', '00180050', '00180088', '00282110'].map(
      (tag) => set.string(`x${tag}`),
    );
    return { texts, data: [...(await readVolume(directory)).data] };
  };

  test('A derived series keeps 16-bit integers, spreads other values over 16 bits, writes NaN as the lowest value, and infinity as the highest', async () => {
    const source = await writeSeries({ more: [element(0x00180050, 'DS', '')] });
    const filled = (...first: number[]) => Float32Array.from({ length: 60 }, (_, at) => first[at] ?? 0);
    const whole = await written(filled(-32768, 32767, Number.NaN, Number.POSITIVE_INFINITY), source);
    expect(whole.texts).toEqual(['-0.5', '65535', '0', '1', '2.5', '2.5', '00']);
    expect(whole.data.slice(0, 4)).toEqual([-32768, 32767, -32768, 32767]);
    const beyond = await written(filled(-32769, 1), source);
    expect(beyond.data.slice(0, 2)).toEqual([-32769, 1].map((value) => expect.closeTo(value, 0)));
    const half = await written(filled(0.5), source);
    expect(half.texts.slice(0, 3)).toEqual(['0.25', '1', '0.25']);
    expect(half.data[0]).toBeCloseTo(0.5, 4);
    const same = await written(new Float32Array(60).fill(0.5), source);
    expect([same.texts[3], same.data[7]]).toEqual(['1', 0.5]);
    await expect(written(new Float32Array(60).fill(Number.NaN), source)).rejects.toThrow(
      new VolumeError('ct.nii has no values.'),
    );
  });
});

test('A derived series that cannot be written leaves no files', async () => {
  const source = await writeSeries();
  const place = await workspace();
  const target = path.join(place, 'taken');
  await mkdir(path.join(target, 'kept'), { recursive: true });
  const file = path.join(place, 'ct.nii');
  await writeNifti(file, { size: source.size, affine: source.affine, data: new Int16Array(60) });
  await expect(
    writeDicomSeries(target, await openVolume(file), source, { maker, isHounsfield: true }),
  ).rejects.toMatchObject({ code: 'ENOTEMPTY' });
  expect(readdirSync(place).sort()).toEqual(['ct.nii', 'taken']);
});
