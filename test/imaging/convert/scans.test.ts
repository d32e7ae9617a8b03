import type { VolumeFile } from '@remote-app/volumes';
import { describe, expect, test } from 'vitest';
import type { Unit } from '../../../src/client/found-files.js';
import { resultFormats } from '../../../src/client/result-formats.js';
import {
  checkScans,
  endingOf,
  namedBy,
  type Scan,
  Scans,
  scanOf,
  segmentsOf,
} from '../../../src/imaging/convert/index.js';
import { segmentNamed } from '../../../src/imaging/convert/segments.js';

const scan = (path: string, series: readonly string[] | null = [path]): Scan => ({
  ...namedBy(path),
  path,
  series,
});

test('Each format has its ending for label maps and for intensities, or holds none of them', () => {
  expect(resultFormats.map((each) => [each, endingOf(each, true), endingOf(each, false)])).toEqual([
    ['dicom-seg', '.seg.dcm', null],
    ['dicom-labelmap', '.labelmap.dcm', null],
    ['rtstruct', '.rtstruct.dcm', null],
    ['nrrd', '.seg.nrrd', '.nrrd'],
    ['nifti', '.nii.gz', '.nii.gz'],
    ['dicom', null, '.dicom'],
  ]);
});

test('A scan has the files of its series, under the name by which the app gets it', () => {
  const unit = (more: object) => scanOf({ path: '/in/S1', format: 'DICOM', ...more } as unknown as Unit);
  const series = { kind: 'series', wanted: 'S1_3_T1', files: [{ path: '/in/S1/1' }, { path: '/in/S1/2' }] };
  expect(unit(series)).toMatchObject({ path: '/in/S1', stem: 's1_3_t1', series: ['/in/S1/1', '/in/S1/2'] });
  const file = { kind: 'file', path: '/in/S1/a.dcm' };
  expect(unit(file)).toMatchObject({ stem: 'a', series: ['/in/S1/a.dcm'] });
  expect(unit({ ...file, path: '/in/x.nii.gz', format: 'NIfTI' })).toMatchObject({ stem: 'x', series: null });
  expect(unit({ kind: 'store', path: '/in/x.zarr', format: 'OME-Zarr', files: [] }).series).toBeNull();
});

test('Formats of a study are refused for a scan that has none', () => {
  const [dicom, nifti] = [scan('/in/a.dcm'), scan('/in/b.nii', null)];
  checkScans([dicom], ['dicom-seg', 'nrrd']);
  checkScans([dicom, nifti], ['nrrd', 'nifti']);
  for (const format of ['dicom-seg', 'dicom-labelmap', 'rtstruct', 'dicom'] as const)
    expect(() => checkScans([dicom, nifti], ['nrrd', format])).toThrow(
      `'/in/b.nii' is no DICOM series, so that there is no study that ${format} could lie in; give --as nrrd`,
    );
});

describe('the scan of a result', () => {
  const result = { path: '/out/mask.nii' } as VolumeFile;

  test('The scan of a result is none where there is none, or one is no series', async () => {
    await expect(new Scans([]).of(result, namedBy('mask.nii'))).rejects.toThrow('mask.nii is of no scan.');
    expect(await new Scans([]).ifAny(result, namedBy('mask.nii'))).toBeNull();
    const scans = new Scans([scan('/in/a.nii', null), scan('/in/b.dcm')]);
    expect(await scans.ifAny(result, namedBy('b_mask.nii'))).toBeNull();
  });

  test('The scan of a result is the same for several where names or folders say so', () => {
    const scans = new Scans([scan('/in/ada.dcm'), scan('/in/bo.dcm')]);
    const areOfOne = (...names: string[]) => scans.areOfOne(names.map(namedBy));
    expect([areOfOne('ada_liver.nii', 'ada_spleen.nii'), areOfOne('ada_liver.nii', 'bo_liver.nii')]).toEqual([
      true,
      false,
    ]);
    expect(new Scans([scan('/in/ada.dcm')]).areOfOne(['x.nii', 'bo.nii'].map(namedBy))).toBe(true);
  });
});

test('Labels are called as the app says it, otherwise as the file does', () => {
  const terminology = {
    2: { name: 'Liver', color: '#e08', snomed: { code: '10200004', meaning: 'Liver' } },
    3: { name: 'Left kidney', color: 'no colour' },
  };
  const volume = { labels: [{ value: 2, name: 'two', colour: '#0a0b0c' }] } as unknown as VolumeFile;
  expect(segmentsOf(volume, terminology)).toEqual([
    { value: 2, name: 'Liver', color: '#ee0088', snomed: { code: '10200004', meaning: 'Liver' } },
    { value: 3, name: 'Left kidney', color: null, snomed: null },
    { value: 2, name: 'two', color: '#0a0b0c', snomed: null },
  ]);
  expect(segmentsOf({} as VolumeFile, {})).toEqual([]);
  expect(segmentNamed('left_kidney', terminology)).toEqual({
    name: 'Left kidney',
    color: null,
    snomed: null,
  });
  expect(segmentNamed('spleen', terminology)).toBeNull();
});
