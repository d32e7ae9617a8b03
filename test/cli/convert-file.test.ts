import { readdirSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { openVolume, readVolume, writeNifti } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { parse, size, writeSeries } from '../../packages/volumes/test/study.js';
import { workspace } from '../../packages/volumes/test/written.js';
import { convert as convertOnCli } from '../../src/cli/convert/index.js';
import { CommandIo } from '../../src/cli/terminal/index.js';
import { recordName } from '../../src/client/output-names.js';
import type { ConvertOptions } from '../../src/imaging/index.js';
import { straight } from '../support/affine.js';
import { recordText } from '../support/record-facts.js';
import { plant } from '../support/temporary.js';

const count = size[0] * size[1] * size[2];
const block = (from: number, to: number) =>
  Uint8Array.from({ length: count }, (_, at) => Number(at >= from && at < to));

/** A directory with volumes on the grid of a scan, and what converts them. */
async function withVolumes(volumes: Readonly<Record<string, Uint8Array | Int16Array>>, record: object = {}) {
  const source = await writeSeries();
  const directory = await workspace();
  await plant(directory, { [recordName]: recordText(record) });
  for (const [name, data] of Object.entries(volumes)) {
    await mkdir(path.dirname(path.join(directory, name)), { recursive: true });
    await writeNifti(path.join(directory, name), { size, affine: source.affine, data });
  }
  const convert = async (name: string, more: Partial<ConvertOptions>, json = false) => {
    const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
    const options: ConvertOptions = {
      ...{ formats: ['nrrd'], like: path.dirname(source.files[0] ?? ''), output: null, labels: null },
      ...{ isStrict: false, mayReplace: false, version: '1', ...more },
    };
    const io = new CommandIo({ ...streams, env: {} });
    const document = await convertOnCli(path.join(directory, name), options, io, json);
    return { document, printed: (await buffer(streams.stdout.end())).toString() };
  };
  return { directory, convert };
}

const organs = { 'liver.nii.gz': block(0, 20), 'kidney_left.nii.gz': block(20, 40) };
const named = {
  labels: { 1: { name: 'Liver', color: '#102030' }, 2: { name: 'Kidney left', color: '#0080ff' } },
};

test('Masks at the top of a result get the names and colours of its record, and those in subfolders stay separate files', async () => {
  const { directory, convert } = await withVolumes(
    { ...organs, 'below/spleen.nii.gz': block(40, 50) },
    named,
  );
  const output = path.join(directory, 'segments.seg.nrrd');
  const { document, printed } = await convert('.', {});
  expect(document).toEqual({
    from: directory,
    converted: [
      {
        ...{ as: 'nrrd', output, note: null },
        labels: [
          { value: 1, name: 'Kidney left' },
          { value: 2, name: 'Liver' },
        ],
      },
    ],
  });
  expect(printed).toBe(`${output}\n`);
  expect((await openVolume(output)).labels?.map(({ colour }) => colour)).toEqual(['#0080ff', '#102030']);
  const typed = await convert('.', { mayReplace: true, labels: '1=Leber' }, true);
  expect([typed.printed, typed.document.converted[0]?.labels]).toEqual([
    '',
    [
      { value: 1, name: 'kidney_left' },
      { value: 2, name: 'liver' },
    ],
  ]);
});

test('Masks of one patient keep their full names if there is another file next to them', async () => {
  const masks = { 'p1_liver.nii.gz': block(0, 20), 'p1_spleen.nii.gz': block(20, 40) };
  const labelsOf = async (more: Record<string, Uint8Array>) => {
    const { convert } = await withVolumes({ ...masks, ...more });
    return (await convert('.', {})).document.converted[0];
  };
  const all = await labelsOf({});
  expect(all?.labels.map(({ name }) => name)).toEqual(['liver', 'spleen']);
  expect(path.basename(all?.output ?? '')).toBe('p1_segments.seg.nrrd');
  const some = await labelsOf({ 'other.nii.gz': block(40, 50) });
  expect(path.basename(some?.output ?? '')).toBe('segments.seg.nrrd');
  expect(some?.labels.map(({ name }) => name)).toEqual(['other', 'p1_liver', 'p1_spleen']);
});

test('Typed names take precedence over those of the file, and the codes and the time come from the record', async () => {
  const snomed = { code: '10200004', meaning: 'Liver structure' };
  const labels = {
    1: { name: 'Liver', color: '#102030', snomed },
    2: { name: 'Kidney left', color: '#0080ff' },
  };
  const finished = '2021-03-04T05:06:07Z';
  const made = { app: 'organs', app_version: '1', finished_at: finished, labels };
  const { directory, convert } = await withVolumes(organs, made);
  const { document } = await convert('.', { formats: ['dicom-seg', 'nrrd'] });
  const [seg, slicer] = document.converted.map(({ output }) => output);
  const bytes = readFileSync(seg ?? '');
  expect(['10200004', 'Liver structure', '20210304'].map((text) => bytes.includes(text))).toEqual([
    true,
    true,
    true,
  ]);
  const again = await convert(path.relative(directory, slicer ?? ''), {
    ...{ formats: ['dicom-seg'], labels: '1=Niere', mayReplace: true },
  });
  expect(again.document.converted[0]?.labels.map(({ name }) => name)).toEqual(['Niere', 'Liver']);
});

test('Regions of the record become overlapping segments rather than a map with one label per voxel', async () => {
  // 30 voxels of 1, 20 of 2 and 10 of 3.
  const values = Uint8Array.from({ length: count }, (_, at) => (at < 30 ? 1 : at < 50 ? 2 : at < 60 ? 3 : 0));
  const region = (name: string, of: readonly number[]) => ({ name, color: '#102030', values: of });
  const labels = {
    1: region('whole tumor', [1, 2, 3]),
    2: region('tumor core', [2, 3]),
    3: region('enhancing tumor', [3]),
  };
  const { directory, convert } = await withVolumes({ 'brats.nii.gz': values }, { labels });
  const { document } = await convert('brats.nii.gz', { formats: ['dicom-seg', 'nrrd'] });
  for (const { labels: written } of document.converted)
    expect(written.map(({ name }) => name)).toEqual(['whole tumor', 'tumor core', 'enhancing tumor']);
  for (const name of ['brats.seg.dcm', 'brats.seg.nrrd']) {
    const volume = await openVolume(path.join(directory, name));
    const voxels = new Map<number, number>();
    for await (const slice of volume.layers?.() ?? [])
      for (const value of slice.values) if (value !== 0) voxels.set(value, (voxels.get(value) ?? 0) + 1);
    const ofNames = volume.labels?.map((label) => [label.name, voxels.get(label.value)]);
    expect(ofNames).toEqual([
      ['whole tumor', 60],
      ['tumor core', 30],
      ['enhancing tumor', 10],
    ]);
  }
  await expect(convert('brats.nii.gz', { formats: ['dicom-labelmap'] })).rejects.toThrow(
    /whole tumor and tumor core overlap/,
  );
});

test('A time series becomes the fourth dimension of a NIfTI file, with the seconds between its volumes', async () => {
  const { directory, convert } = await withVolumes({});
  const affine = straight([2, 2, 2]);
  const data = Int16Array.from({ length: 3 * 24 }, (_, at) => at);
  const series = {
    size: [2, 3, 4] as const,
    affine,
    data,
    frames: 3,
    isTimeSeries: true,
    secondsPerFrame: 2.5,
  };
  await writeNifti(path.join(directory, 'bold.nii'), series);
  await convert('bold.nii', { formats: ['nifti'] });
  const written = gunzipSync(readFileSync(path.join(directory, 'bold.nii.gz')));
  // dim and pixdim.
  expect(Array.from({ length: 6 }, (_, at) => written.readInt16LE(40 + 2 * at))).toEqual([4, 2, 3, 4, 3, 1]);
  expect(written.readFloatLE(92)).toBe(2.5);
  expect((await readVolume(path.join(directory, 'bold.nii.gz'))).data).toEqual(data);
});

test.each([
  [{}, undefined],
  [{ units: { inputs: 'HU', outputs: null } }, undefined],
  [{ units: { inputs: null, outputs: 'HU' } }, 'HU'],
])('Intensities of a result with %j get the unit %j', async (record, unit) => {
  const intensities = Int16Array.from({ length: count }, (_, at) => at * 37 - 900);
  const { directory, convert } = await withVolumes({ 'ct.nii.gz': intensities }, record);
  await convert('ct.nii.gz', { formats: ['dicom'] });
  const [first = ''] = readdirSync(path.join(directory, 'ct.dicom'));
  const set = parse(readFileSync(path.join(directory, 'ct.dicom', first)));
  expect([set.string('x00080060'), set.string('x00281054')?.replace('US', '') || undefined]).toEqual([
    unit === 'HU' ? 'CT' : 'MR',
    unit,
  ]);
});
