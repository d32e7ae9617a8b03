import { existsSync, readFileSync, rmSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { openVolume, readVolume, type SourceSeries, writeNifti, writeVolume } from '@remote-app/volumes';
import { describe, expect, test } from 'vitest';
import { maker, maskOn, oblique, parse, size, writeSeries } from '../../../packages/volumes/test/study.js';
import { workspace } from '../../../packages/volumes/test/written.js';
import type { CaseRecord } from '../../../src/client/case/index.js';
import type { FoundFiles } from '../../../src/client/found-files.js';
import { type ResultFormat, resultFormats } from '../../../src/client/result-formats.js';
import { convertVolume, type VolumeToConvert } from '../../../src/imaging/convert/convert-volume.js';
import { checkRequest, convertResult } from '../../../src/imaging/convert/index.js';
import { type Scan, Scans } from '../../../src/imaging/convert/scans.js';
import { namedBy } from '../../../src/imaging/matching/index.js';
import { element } from '../../support/dicom-files.js';
import { silentRecord } from '../../support/record-facts.js';

const count = size[0] * size[1] * size[2];
/** Labels in blocks. */
const labels = Uint8Array.from({ length: count }, (_, at) => (at % size[0] < 2 ? 1 : 0));
const intensities = Int16Array.from({ length: count }, (_, at) => at * 37 - 900);

const scanOf = (name: string, { files }: SourceSeries): Scan => ({
  ...namedBy(`/in/${name}`),
  path: `/in/${name}`,
  series: files,
});
const unitOf = ({ files }: SourceSeries) => ({
  ...{ kind: 'series', wanted: 'scan', path: path.dirname(files[0] ?? ''), isHalf: false },
  files: files.map((each) => ({ path: each })),
});
const foundOf = (...fields: readonly (readonly [name: string, ...units: object[]])[]) =>
  ({
    volumes: fields.map(([name, ...units]) => ({ field: { name }, groups: [units] })),
  }) as unknown as FoundFiles;

const record = silentRecord({
  ...{ app: 'brain', app_version: '1', client_version: '2', finished_at: maker.madeAt.toISOString() },
  labels: { 1: { name: 'Liver', color: '#dd8265' } },
});

/** Converts a result of these volumes, or of files with these texts. */
async function converted(
  volumes: Readonly<Record<string, Uint8Array | Int16Array | string>>,
  formats: readonly ResultFormat[],
  more: Partial<CaseRecord> = {},
) {
  const source = await writeSeries();
  const directory = await workspace();
  for (const [name, data] of Object.entries(volumes)) {
    const file = path.join(directory, name);
    await mkdir(path.dirname(file), { recursive: true });
    if (typeof data === 'string') await writeFile(file, data);
    else await writeNifti(file, { size, affine: source.affine, data });
  }
  const told: string[] = [];
  const request = { formats, isStrict: true };
  const found = foundOf(['inputs', unitOf(source)], ['gt', { kind: 'file', path: '/x.nii', isHalf: false }]);
  const tell = (note: string) => told.push(note);
  const conversion = await convertResult(directory, found, request, { ...record, ...more }, tell);
  return { conversion, told, directory, names: (await readdir(directory)).sort() };
}

describe('the conversion of a result', () => {
  test('Each volume of a result is converted to the formats that can hold it, and a damaged one is reported', async () => {
    const { conversion, told, directory } = await converted(
      { 'z.nii.gz': labels, 'sub/ct.nii.gz': intensities, 'broken.nii.gz': 'x', 'notes.txt': 'x' },
      resultFormats,
    );
    const outputs = [
      ['sub/ct.nii.gz', 'nrrd', 'sub/ct.nrrd'],
      ['sub/ct.nii.gz', 'dicom', 'sub/ct.dicom'],
      ['z.nii.gz', 'dicom-seg', 'z.seg.dcm'],
      ['z.nii.gz', 'dicom-labelmap', 'z.labelmap.dcm'],
      ['z.nii.gz', 'rtstruct', 'z.rtstruct.dcm'],
      ['z.nii.gz', 'nrrd', 'z.seg.nrrd'],
    ].map(([from, as, name]) => ({ from, as, name }));
    const problems = [expect.stringMatching(/^broken\.nii\.gz is not converted: .*[^.]$/)];
    expect([conversion, told]).toEqual([{ as: resultFormats, outputs, problems }, []]);
    expect(outputs.filter(({ name = '' }) => !existsSync(path.join(directory, name)))).toEqual([]);
    expect((await openVolume(path.join(directory, 'z.seg.dcm'))).labels?.map(({ name }) => name)).toEqual([
      'Liver',
    ]);
  });

  test('A conversion never replaces an existing file, and reports it', async () => {
    const files = { 'mask.nii.gz': labels, 'mask.seg.nrrd': 'mine', 'mask.nrrd': 'x' };
    const { conversion, told, directory } = await converted(files, ['nrrd']);
    expect(told).toEqual([]);
    expect(conversion.problems.at(-1)).toBe(
      'mask.nii.gz is not converted to nrrd: mask.seg.nrrd already exists',
    );
    expect(readFileSync(path.join(directory, 'mask.seg.nrrd'), 'utf8')).toBe('mine');
  });

  test('A conversion writes nothing and says so if there are no labels, or if everything is already in that format', async () => {
    const empty = await converted({ 'mask.nii.gz': new Uint8Array(count) }, ['dicom-seg', 'nrrd']);
    expect(empty.conversion).toEqual({ as: ['dicom-seg', 'nrrd'], outputs: [], problems: [] });
    expect(empty.told.slice(0, 2)).toEqual([
      expect.stringMatching(/mask\.nii\.gz has no labels.* --as dicom-seg writes nothing of it$/),
      expect.stringMatching(/ --as nrrd writes nothing of it$/),
    ]);
    expect(empty.names).toEqual(['mask.nii.gz']);
    const same = await converted({ 'a.nii.gz': labels, 'b.nii.gz': labels }, ['nifti']);
    expect([same.conversion.outputs, same.told]).toEqual([
      [],
      ['None of the 2 volumes in the result needed a conversion'],
    ]);
    expect((await converted({ 'notes.txt': 'x' }, ['nifti'])).told).toEqual([]);
  });

  test.each([
    ['HU', 'HU'],
    ['ms', 'US'],
    [null, 'US'],
  ])('A result with intensities is converted to DICOM in the unit of the app: %s', async (unit, said) => {
    const { directory } = await converted({ 'ct.nii.gz': intensities }, ['dicom'], {
      units: { inputs: null, outputs: unit },
    });
    const [first = ''] = await readdir(path.join(directory, 'ct.dicom'));
    const set = parse(readFileSync(path.join(directory, 'ct.dicom', first)));
    expect(set.string('x00281054') ?? 'US').toBe(said);
  });
});

test('A request is checked only against the scans, and not against files that hold the voxels of others', () => {
  const nifti = { kind: 'file', path: '/in/a.nii', isHalf: false, format: 'NIfTI' };
  const request = { formats: ['dicom-seg'] as const, isStrict: false };
  checkRequest(foundOf(['inputs', { ...nifti, isHalf: true }], ['mask', nifti]), request);
  expect(() => checkRequest(foundOf(['inputs', nifti]), request)).toThrow("'/in/a.nii' is no DICOM series");
});

test('An existing file is replaced if that is allowed, but a directory never is', async () => {
  const source = await writeSeries();
  const volume = await maskOn(source, labels);
  const directory = await workspace();
  const given = {
    ...{ volume, isLabelMap: false, layers: [], overlap: null, maker, isHounsfield: false, isStrict: false },
    ...{ series: async () => source, seriesIfAny: async () => source },
  } as unknown as VolumeToConvert;
  const convert = async (name: string, format: ResultFormat, mayReplace: boolean) => {
    const target = path.join(directory, name);
    await writeFile(target, 'mine');
    const outcome = await convertVolume(target, format, { ...given, mayReplace }).catch(
      (error: Error) => error.message,
    );
    return [outcome, readFileSync(target).subarray(0, 4).toString() === 'mine'];
  };
  expect(await convert('a.nrrd', 'nrrd', false)).toEqual(['a.nrrd already exists.', true]);
  expect(await convert('a.nrrd', 'nrrd', true)).toEqual([{ segments: [], note: null }, false]);
  expect(await convert('a.dicom', 'dicom', true)).toEqual(['a.dicom already exists.', true]);
});

describe('the series of a result', () => {
  test('A result belongs to the series with its name, otherwise to the one with its grid, and to the first of several in one place', async () => {
    const [one, two, turned] = [
      await writeSeries(),
      await writeSeries(),
      await writeSeries({ orientation: oblique }),
    ];
    const [flat, slanted] = [await maskOn(one, labels), await maskOn(turned, labels)];
    const same = new Scans([scanOf('ada', one), scanOf('bo', two)]);
    const filesOf = async (scans: Scans, mask: typeof flat, name: string) =>
      (await scans.scanOf(mask, namedBy(name))).files;
    expect(await filesOf(same, flat, 'bo_mask.nii')).toEqual(two.files);
    expect(await filesOf(same, flat, 'mask.nii')).toEqual(one.files);
    expect(await same.scanOf(flat, namedBy('mask.nii'))).toBe(await same.scanOf(flat, namedBy('ada.nii')));
    const apart = new Scans([scanOf('ada', one), scanOf('bo', turned)]);
    expect(await filesOf(apart, slanted, 'mask.nii')).toEqual(turned.files);
    // What its name says counts more than its grid.
    expect(await filesOf(apart, slanted, 'ada_mask.nii')).toEqual(one.files);
    expect(await filesOf(new Scans([scanOf('ada', one)]), slanted, 'x.nii')).toEqual(one.files);
    const nowhere = `${path.basename(slanted.path)} fits ${one.name} and ${two.name} equally well`;
    await expect(same.scanOf(slanted, namedBy('mask.nii'))).rejects.toThrow(nowhere);
    expect(await same.certainScanOf(slanted, namedBy('mask.nii'))).toBeNull();
    expect((await same.certainScanOf(flat, namedBy('bo.nii')))?.files).toEqual(two.files);
  });

  test.each([
    ['study', element(0x0020000d, 'UI', '1.2.4')],
    ['frame of reference', element(0x00200052, 'UI', '1.2.4')],
  ])('A result belongs to neither of two series on one grid that differ in their %s', async (_, other) => {
    const [one, two] = [await writeSeries(), await writeSeries({ more: [other] })];
    const scans = new Scans([scanOf('ada', one), scanOf('bo', two)]);
    const mask = await maskOn(one, labels);
    await expect(scans.scanOf(mask, namedBy('mask.nii'))).rejects.toThrow('is put beside none of them');
  });
});

test('Masks of one segmentation are converted separately to formats without names, and volumes with several values per voxel are not converted', async () => {
  const blocks = (from: number) => labels.map((_, at) => Number(at >= from && at < from + 9));
  const given = { 'liver.nii.gz': blocks(0), 'spleen.nii.gz': blocks(20), 'notes.txt': 'x' };
  const { directory } = await converted(given, []);
  for (const name of ['liver', 'spleen'])
    await writeVolume(
      path.join(directory, `${name}.mha`),
      await readVolume(path.join(directory, `${name}.nii.gz`)),
    );
  for (const name of ['liver', 'spleen']) rmSync(path.join(directory, `${name}.nii.gz`));
  const { affine } = await openVolume(path.join(directory, 'liver.mha'));
  // What has several values in a voxel, or several volumes, is converted to nothing.
  const data = new Uint8Array(3 * count);
  await writeVolume(path.join(directory, 'colour.nrrd'), { size, affine, data, components: 3 });
  await writeNifti(path.join(directory, 'times.nii'), { size, affine, data, frames: 3 });
  const source = await writeSeries();
  const request = { formats: ['nrrd', 'nifti', 'dicom-seg'] as const, isStrict: true };
  const told: string[] = [];
  const conversion = await convertResult(
    directory,
    foundOf(['inputs', unitOf(source)]),
    request,
    { ...record, labels: {} },
    (note) => told.push(note),
  );
  expect(conversion.outputs.map(({ from, name }) => `${from} ${name}`)).toEqual([
    ...['liver.mha liver.nii.gz', 'spleen.mha spleen.nii.gz'],
    ...['nrrd', 'dcm'].flatMap((end) => ['liver', 'spleen'].map((each) => `${each}.mha segments.seg.${end}`)),
  ]);
  expect([conversion.problems, told]).toEqual([[], []]);
});

test('Masks of two scans in one folder do not become one file', async () => {
  const [ada, bo] = [await writeSeries(), await writeSeries()];
  const directory = await workspace();
  for (const [name, from] of [
    ['liver_ada', 0],
    ['spleen_bo', 20],
  ] as const) {
    const data = labels.map((_, at) => Number(at >= from && at < from + 9));
    await writeNifti(path.join(directory, `${name}.nii.gz`), { size, affine: ada.affine, data });
  }
  const units = [
    { ...unitOf(ada), path: '/in/ada', wanted: 'ada' },
    { ...unitOf(bo), path: '/in/bo', wanted: 'bo' },
  ];
  const request = { formats: ['dicom-seg'] as const, isStrict: false };
  const { outputs } = await convertResult(
    directory,
    foundOf(['inputs', ...units]),
    request,
    record,
    () => {},
  );
  expect(outputs.map(({ name }) => name).sort()).toEqual(['liver_ada.seg.dcm', 'spleen_bo.seg.dcm']);
});

test('Intensities are Hounsfield units where the file says so, whatever the app says', async () => {
  const source = await writeSeries();
  const directory = await workspace();
  const file = path.join(directory, 'ct.nrrd');
  await writeVolume(file, { size, affine: source.affine, data: intensities });
  const text = readFileSync(file, 'latin1').replace('\n\n', '\nsample units: HU\n\n');
  await writeFile(file, text, 'latin1');
  const found = foundOf(['inputs', unitOf(source)]);
  const request = { formats: ['dicom'] as const, isStrict: false };
  const { problems } = await convertResult(directory, found, request, record, () => {});
  expect(problems).toEqual([]);
  const [first = ''] = await readdir(path.join(directory, 'ct.dicom'));
  expect(parse(readFileSync(path.join(directory, 'ct.dicom', first))).string('x00281054')).toBe('HU');
});
