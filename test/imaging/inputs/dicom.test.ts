import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import { selectSeries } from '../../../src/imaging/inputs/series.js';
import { collect } from '../../client/support/collect.js';
import { stageInputs } from '../../client/support/stage-inputs.js';
import { dicomFile, dicomSeries, type Slice } from '../../support/dicom.js';
import { type Element, element, dicomFile as elementFile } from '../../support/dicom-files.js';
import { list } from '../../support/list.mjs';
import { plant, temporary } from '../../support/temporary.js';

/** Files below a directory. */
const within = (directory: string, files: Readonly<Record<string, Buffer | string>>) =>
  Object.fromEntries(Object.entries(files).map(([name, content]) => [`${directory}/${name}`, content]));

/** What a directory comes to: of each volume its kind, its place, the number of its files, and what is known of the series. */
async function sortedOut(files: Readonly<Record<string, Buffer | string>>, target = 'in') {
  await using root = await temporary();
  await plant(root.path, files);
  const found = await collect([path.join(root.path, target)]);
  const short = (each: string) => path.relative(root.path, each);
  return {
    volumes: found.units.map((unit) => {
      const about = unit.kind !== 'store' && unit.series ? unit.series : null;
      const count = unit.kind === 'file' ? 1 : unit.files.length;
      return [unit.kind, short(unit.path), count, about?.number ?? null, about?.description ?? '']
        .join(' ')
        .trim();
    }),
    skipped: found.skipped.map(short),
    copies: found.copies.map(short),
    objects: found.objects.map((each) => `${each.modality} ${short(each.path)}`),
    remarks: found.units.flatMap((unit) => (unit.kind !== 'store' && unit.series ? unit.series.remarks : [])),
  };
}

const t1 = { series: '3', number: 3, description: 'T1 MPRAGE' } as const;
const flair = { series: '10', number: 10, description: 'FLAIR' } as const;
const localiser = { series: '2', number: 2, description: 'localiser' } as const;
const named = (word: string) => (image: number) => `${word}${image}`;

describe('a directory of DICOM files', () => {
  test('A directory of DICOM files with two series and a localiser yields three series, in the order of their numbers', async () => {
    const export_ = {
      ...dicomSeries(4, flair, named('a')),
      ...dicomSeries(5, t1, named('b')),
      ...dicomSeries(3, localiser, named('c')),
    };
    expect(await sortedOut(within('in', export_))).toMatchObject({
      volumes: ['series in 3 2 localiser', 'series in 5 3 T1 MPRAGE', 'series in 4 10 FLAIR'],
      skipped: [],
    });
    await using root = await temporary();
    await plant(root.path, within('in', export_));
    const { staged, reporter } = await stageInputs(root.path, [['in']]);
    expect(staged.parts.map(({ filename }) => filename)).toEqual([
      'in_2_localiser.konfaidir.zip',
      'in_3_T1-MPRAGE.konfaidir.zip',
      'in_10_FLAIR.konfaidir.zip',
    ]);
    expect(reporter.notes).toEqual([
      '3 DICOM series are sent, each as a case; --series chooses some by number or description',
      "  2 'localiser' (MR, 16 x 16 x 3, axial) -> in_2_localiser",
      "  3 'T1 MPRAGE' (MR, 16 x 16 x 5, axial) -> in_3_T1-MPRAGE",
      "  10 'FLAIR' (MR, 16 x 16 x 4, axial) -> in_10_FLAIR",
    ]);
  });

  test('For a directory of DICOM files with more than twenty series, twenty are listed and the others are counted', async () => {
    await using root = await temporary();
    const names = Array.from({ length: 22 }, (_, at) => `${at + 1}`);
    const files = names.map(
      (series) => [`${series}.dcm`, dicomFile({ image: 1, series, number: Number(series) })] as const,
    );
    await plant(root.path, within('in', Object.fromEntries(files)));
    const field = fieldWithRole(operationOf('infer'), 'paths');
    const paths = [{ field, groups: [[path.join(root.path, 'in')]] }];
    const { notes } = await findFiles({ files: paths, archive: null });
    expect(notes).toHaveLength(22);
    expect(notes[0]).toMatch(/^22 DICOM series are sent/);
    expect(notes[21]).toBe("  and 2 more; 'remote-app inputs' lists them all");
  });

  test('A directory of DICOM files with a plan, a dose and structures yields the images, and the others are named', async () => {
    const ct = dicomSeries(4, { kind: 'CT', series: '1' });
    const others = (['RTSTRUCT', 'RTDOSE', 'RTPLAN', 'SR', 'PR', 'SEG'] as const).map(
      (kind, at) => [`${kind}.dcm`, dicomFile({ kind, image: 1, series: `9.${at}` })] as const,
    );
    const found = await sortedOut(within('in', { ...ct, ...Object.fromEntries(others) }));
    expect(found.volumes).toEqual(['series in 4 1']);
    expect(found.objects.toSorted()).toEqual(
      ['PR', 'RTDOSE', 'RTPLAN', 'RTSTRUCT', 'SEG', 'SR'].map((kind) => `${kind} in/${kind}.dcm`),
    );
    await using root = await temporary();
    await plant(root.path, within('in', { ...ct, ...Object.fromEntries(others) }));
    const { staged, reporter } = await stageInputs(root.path, [['in']]);
    expect(staged.parts).toHaveLength(1);
    expect(reporter.notes.join('\n')).toMatch(/DICOM objects without an image were not sent: 1 PR, 1 RTDOSE/);
    const all = await stageInputs(root.path, [['in']], true);
    expect(all.staged.parts).toHaveLength(7);
    const segmentation = await stageInputs(root.path, [['in/SEG.dcm']]);
    expect(segmentation.staged.parts.map(({ filename }) => filename)).toEqual(['SEG.dcm']);
  });

  test.each(['SEG', 'labelMap'] as const)(
    'A directory of DICOM files with images and a segmentation (%s) yields the images as inputs, and both as ground truth and masks',
    async (kind) => {
      await using root = await temporary();
      const seg = dicomFile({ kind, modality: 'SEG', image: 1, series: '9', number: 9, frames: 4 });
      await plant(root.path, within('in', { ...dicomSeries(3, t1), seg }));
      const kinds = async (takesSegmentations: boolean) =>
        (
          await collect([path.join(root.path, 'in')], { takesSegmentations: async () => takesSegmentations })
        ).units.map((unit) => unit.kind);
      expect(await kinds(false)).toEqual(['series']);
      expect(await kinds(true)).toEqual(['series', 'file']);
    },
  );

  test('A directory of DICOM files with only segmentations yields these', async () => {
    const files = {
      'in/a': dicomFile({ kind: 'SEG', image: 1 }),
      'in/b': dicomFile({ kind: 'SEG', image: 2 }),
    };
    expect((await sortedOut(files)).volumes).toEqual(['file in/a 1', 'file in/b 1']);
  });

  test('A directory of DICOM files with projections and multi-frame files yields a case for each file', async () => {
    const files = {
      ...within(
        'in',
        Object.fromEntries(
          [1, 2, 3, 4].map((image) => [`P${image}`, dicomFile({ kind: 'DX', image, series: '5' })]),
        ),
      ),
      'in/enhanced': dicomFile({ kind: 'enhancedMR', image: 1, frames: 6, series: '6', number: 6 }),
    };
    expect((await sortedOut(files)).volumes).toEqual([
      ...[1, 2, 3, 4].map((image) => `file in/P${image} 1 1`),
      'file in/enhanced 1 6',
    ]);
  });

  test('A series of DICOM files that is split over directories is one series, whose files get different names', async () => {
    const name = (image: number) => (image < 3 ? `DICOM/IM${image}` : `DICOM/00000001/IM${image - 2}`);
    await using root = await temporary();
    await plant(root.path, within('in', dicomSeries(4, t1, name)));
    const { units } = await collect([path.join(root.path, 'in')]);
    expect(units).toHaveLength(1);
    const [unit] = units;
    expect(unit).toMatchObject({ kind: 'series', path: path.join(root.path, 'in/DICOM'), wanted: 'DICOM' });
    const files = unit?.kind === 'series' ? unit.files : [];
    expect(new Set(files.map(({ name }) => name)).size).toBe(4);
    expect(files.map(({ path: file }) => readFileSync(file).at(-1))).toEqual([3, 4, 1, 2]);
  });

  test.each<[string, Partial<Slice>]>([
    ['in big endian', { syntax: 'bigEndian' }],
    ['in big endian, without a preamble', { syntax: 'bigEndian', isBare: true }],
    ['implicit, without a preamble', { syntax: 'implicit', isBare: true }],
    ['explicit, without a preamble', { isBare: true }],
    ['deflated', { syntax: 'deflated' }],
    ['zipped', { isZipped: true }],
    ['with 100 KB of private elements', { privateBytes: 100_000 }],
    ['zipped, with a long header', { isZipped: true, privateBytes: 200_000 }],
  ])('A directory of DICOM files is recognised by its content %s, under any name', async (_, how) => {
    const series = within(
      'in',
      dicomSeries(3, { ...t1, ...how }, (image) => `scan-${image}.x`),
    );
    const found = await sortedOut({ ...series, 'in/notes.bin': 'x' });
    expect(found).toMatchObject({ volumes: ['series in 3 3 T1 MPRAGE'], skipped: ['in/notes.bin'] });
  });

  test('A disc of DICOM files yields the images, without the viewer and the DICOMDIR', async () => {
    const disc = {
      DICOMDIR: 'x',
      'AUTORUN.INF': 'x',
      'VIEWER/run.exe': 'x',
      'VIEWER/core.jar': 'x',
      'VIEWER/logo.png': 'x',
      'VIEWER/data.bin': 'x',
      ...within('DICOM/S1', dicomSeries(5, t1)),
    };
    expect((await sortedOut(within('in', disc))).volumes).toEqual(['series in/DICOM/S1 5 3 T1 MPRAGE']);
  });

  test('A directory of DICOM files that lacks slices, or has two at one place, is sent with a remark', async () => {
    const series = dicomSeries(12, t1);
    for (const gone of [4, 9, 10])
      delete (series as Record<string, unknown>)[`IM${String(gone).padStart(4, '0')}`];
    expect((await sortedOut(within('in', series))).remarks).toEqual([
      'lacks 3 slices of an even spacing, between 3 and 5, 8 and 11',
    ]);
    const twice = {
      ...dicomSeries(4, t1),
      ...dicomSeries(4, { ...t1, description: 'other' }, named('again')),
    };
    expect((await sortedOut(within('in', twice))).remarks).toEqual([
      'has 4 images with the SOPInstanceUID of another image, but another content',
      'has 8 images at 4 positions, with the same numbers: copies of each other, or two acquisitions',
    ]);
    expect((await sortedOut(within('in', dicomSeries(12, { ...t1, plane: 'sagittal' })))).remarks).toEqual(
      [],
    );
  });

  /** A slice with these elements, which replace those that it would have. */
  const sliceOf = (depth: number, more: readonly Element[]) =>
    elementFile({ pixels: new Uint16Array(4), size: [2, 2], position: [0, 0, depth], more });
  const stackOf = (name: string, moreOf: (at: number) => readonly Element[]) =>
    Object.fromEntries(
      [0, 1, 2, 3].map((at) => {
        const own = [
          element(0x00080018, 'UI', `1.2.${name.length}.${at}`),
          element(0x00200013, 'IS', `${at}`),
        ];
        return [`in/${name}${at}.dcm`, sliceOf(at, [...own, ...moreOf(at)])];
      }),
    );
  const findAll = async (files: Readonly<Record<string, Buffer>>) => {
    await using root = await temporary();
    await plant(root.path, files);
    const field = fieldWithRole(operationOf('infer'), 'paths');
    const paths = [{ field, groups: [[path.join(root.path, 'in')]] }];
    const each = await findFiles({ files: paths, archive: null }, { isEach: true }).catch(
      (error: Error) => error,
    );
    const { notes, volumes } = await findFiles({ files: paths, archive: null });
    const names = volumes.flatMap(({ groups }) => groups.flat().map(({ name }) => name));
    const short = (text: string) => text.replaceAll(root.path, '');
    const cases = each instanceof Error ? short(each.message) : each.cases.map(({ name }) => name);
    return { cases, names, notes: notes.map(short) };
  };

  test('A directory of DICOM files of two people has a case for each, with the patient number', async () => {
    const of = (patient: string) => [
      ...[element(0x00100020, 'LO', patient), element(0x0020000d, 'UI', `1.2.${patient.length}`)],
      ...[element(0x00200011, 'IS', '3'), element(0x0008103e, 'LO', 'T1')],
    ];
    const found = await findAll({ ...stackOf('a', () => of('P/1')), ...stackOf('bc', () => of('P-22')) });
    expect(found.cases).toEqual(['3_T1_P-1', '3_T1_P-22']);
    expect(found.names).toEqual(['in_3_T1_P-1', 'in_3_T1_P-22']);
    expect((await findAll(stackOf('a', () => of('P/1')))).cases).toEqual(['3_T1']);
    // Without numbers, their names tell them apart.
    const named = (name: string) => [
      ...[element(0x00100010, 'PN', name), element(0x0020000e, 'UI', '1.2.3')],
      element(0x00200011, 'IS', '3'),
    ];
    const both = { ...stackOf('a', () => named('Doe^Jane')), ...stackOf('bc', () => named('Roe^Max')) };
    expect((await findAll(both)).names).toHaveLength(2);
  });

  test('A directory of DICOM files without a SeriesInstanceUID has a case for each series that other attributes distinguish', async () => {
    const of = (number: string, patient: string) => [
      ...[
        element(0x0020000e, 'UI', ''),
        element(0x00200011, 'IS', number),
        element(0x00100020, 'LO', patient),
      ],
    ];
    const found = await findAll({
      ...stackOf('a', () => of('3', 'P1')),
      ...stackOf('bc', () => of('4', 'P1')),
      ...stackOf('def', () => of('3', 'P2')),
    });
    expect(found.cases).toEqual(['3_P1', '3_P2', '4_P1']);
    const remark =
      'has no SeriesInstanceUID; images of one directory were put together that say they belong to one series';
    expect(found.notes.filter((note) => note.endsWith(remark))).toHaveLength(3);
  });

  test('A directory of DICOM files with a SeriesInstanceUID for each slice is sent with a warning', async () => {
    const { notes, cases } = await findAll(
      stackOf('a', (at) => [element(0x0020000e, 'UI', `1.2.9.${at}`), element(0x00200011, 'IS', '3')]),
    );
    expect(cases).toBe(
      "4 series in '/in' would be the case '3', since their number and description are the same. Each has one image: " +
        'if these are the slices of one volume, give all the same SeriesInstanceUID, or convert them to NIfTI',
    );
    expect(notes.at(-1)).toBe(
      "4 images in '/in' look like the slices of one volume, but each has a SeriesInstanceUID of its own: they are sent as 4 cases. " +
        'If they are one volume, give all the same UID, or convert them to NIfTI',
    );
  });

  test('A directory of DICOM files that has copies of the same images sends each once', async () => {
    const series = dicomSeries(3, t1);
    const found = await sortedOut({ ...within('in', series), ...within('in/copy', series) });
    expect(found.volumes).toEqual(['series in 3 3 T1 MPRAGE']);
    expect([found.copies.length, found.skipped]).toEqual([3, []]);
    await using root = await temporary();
    await plant(root.path, { ...within('in', series), ...within('in/copy', series) });
    const { reporter } = await stageInputs(root.path, [['in']]);
    expect(reporter.notes).toEqual([expect.stringMatching(/^3 identical copies of images were not sent \(/)]);
  });

  test('A directory of DICOM files is not named after a directory in which none of its files lies', async () => {
    const name = (image: number) => (image < 3 ? `a/IM${image}` : `b/IM${image}`);
    await using root = await temporary();
    await plant(root.path, within('in/export', dicomSeries(4, t1, name)));
    const { units } = await collect([path.join(root.path, 'in')]);
    expect(units).toMatchObject([{ wanted: 'export_3_T1-MPRAGE' }]);
  });

  test('A directory of DICOM files with other images under the same UIDs comes to a series for each directory', async () => {
    const second = dicomSeries(3, { ...t1, description: 'other' });
    const found = await sortedOut({ ...within('in/p1', dicomSeries(3, t1)), ...within('in/p2', second) });
    expect(found.volumes).toEqual(['series in/p1 3 3 T1 MPRAGE', 'series in/p2 3 3 other']);
  });

  test('A directory of DICOM files is refused with a slice that is empty, or whose header cannot be read', async () => {
    const series = within('in', dicomSeries(3, t1));
    await expect(sortedOut({ ...series, 'in/IM0009': '' })).rejects.toThrow(/IM0009' is empty/);
    const damaged = Buffer.concat([Buffer.alloc(128), Buffer.from('DICM')]);
    await expect(sortedOut({ ...series, 'in/IM0009': damaged })).rejects.toThrow(
      /IM0009' is a DICOM file whose header cannot be read/,
    );
  });

  test('A directory of DICOM files shows descriptions in their character set, and names in safe characters', async () => {
    const kopf = Buffer.from('Schädel/Kopf: <T1>?', 'utf8').toString('latin1');
    const files = {
      ...dicomSeries(2, { series: '1', number: 1, charset: 'ISO_IR 192', description: kopf }, named('a')),
      ...dicomSeries(
        2,
        { series: '2', number: 2, charset: 'ISO_IR 100', description: 'Schädel' },
        named('b'),
      ),
    };
    await using root = await temporary();
    await plant(root.path, within('in', files));
    const { staged } = await stageInputs(root.path, [['in']]);
    expect(staged.parts.map(({ filename }) => filename)).toEqual([
      'in_1_Schädel-Kopf-T1.konfaidir.zip',
      'in_2_Schädel.konfaidir.zip',
    ]);
  });
});

describe('the choice of series', () => {
  const series = [
    { number: 2, description: 'localiser' },
    { number: 3, description: 'T1 MPRAGE' },
    { number: 5, description: 't1_post (KM)' },
    { number: 7, description: 'Scha\u0308del' },
    { number: null, description: '' },
  ];

  test.each([
    [['3'], [3], []],
    [['sch\u00e4d*'], [7], []],
    [['5', '2'], [2, 5], []],
    [['t1*'], [3, 5], []],
    [['*(km)'], [5], []],
    [['T1 MPRAG?'], [3], []],
    [['T1'], [], ['T1']],
    [['33', 'loc*'], [2], ['33']],
  ])('Series are chosen by %j', (words, numbers, unused) => {
    const found = selectSeries(series, words);
    expect(found.chosen.map(({ number }) => number)).toEqual(numbers);
    expect(found.unused).toEqual(unused);
  });

  test('The choice of series omits other series, but not a volume of another format', async () => {
    await using root = await temporary();
    await plant(root.path, {
      ...within('in', { ...dicomSeries(2, t1, named('a')), ...dicomSeries(2, flair, named('b')) }),
      'in/mask.nii.gz': 'x',
    });
    const found = await collect([path.join(root.path, 'in')], {
      choose: async (all) => selectSeries(all, ['FLAIR']).chosen,
    });
    expect(found.units).toMatchObject([
      { kind: 'series', series: { number: 10 }, wanted: 'in_10_FLAIR' },
      { kind: 'file', format: 'NIfTI' },
    ]);
  });

  test('A chosen series keeps the name that it has among all series', async () => {
    await using root = await temporary();
    const files = { ...dicomSeries(2, t1, named('a')), ...dicomSeries(2, flair, named('b')) };
    await plant(root.path, within('in', files));
    const all = await collect([path.join(root.path, 'in')]);
    const one = await collect([path.join(root.path, 'in')], {
      choose: async (series) => selectSeries(series, ['3']).chosen,
    });
    expect(all.units).toContainEqual(one.units[0]);
  });
});

describe('other files next to volumes', () => {
  test('Files of unknown formats next to volumes are left out, and are sent if there is nothing else', async () => {
    const found = await sortedOut({ 'in/a.nii.gz': 'x', 'in/odd.dat': 'x', 'in/photo.png': 'x' });
    expect(found).toEqual({
      volumes: ['file in/a.nii.gz 1'],
      skipped: ['in/odd.dat', 'in/photo.png'],
      copies: [],
      objects: [],
      remarks: [],
    });
    const pictures = await sortedOut({ 'in/odd.dat': 'x', 'in/photo.png': 'x' });
    expect(pictures).toMatchObject({ volumes: ['file in/photo.png 1'], skipped: ['in/odd.dat'] });
    await using root = await temporary();
    await plant(root.path, { 'in/a.dat': 'x', 'in/b.dat': 'x', 'in/notes.txt': 'x' });
    const { staged, reporter } = await stageInputs(root.path, [['in']]);
    expect(staged.parts.map(({ filename }) => filename)).toEqual(['a.dat', 'b.dat']);
    expect(reporter.notes).toContainEqual(
      expect.stringMatching(
        /^No file in .*in has a format of volumes that is known: they are sent as they are$/,
      ),
    );
  });

  test('Files next to volumes are recognised by their content before their names', async () => {
    const nifti = Buffer.alloc(352);
    nifti.writeInt32LE(348);
    const found = await sortedOut({ 'in/a': nifti, 'in/b.img.bak': 'NRRD0004\n\n', 'in/c.tmp': 'x' });
    expect(found).toMatchObject({ volumes: ['file in/a 1', 'file in/b.img.bak 1'], skipped: ['in/c.tmp'] });
  });

  test('Derivatives and code in a BIDS data set are left out', async () => {
    const found = await sortedOut({
      'in/dataset_description.json': '{}',
      'in/sub-01/anat/sub-01_T1w.nii.gz': 'x',
      'in/sub-01/func/sub-01_physio.tsv.gz': 'x',
      'in/derivatives/sub-01/seg.nii.gz': 'x',
      'in/sourcedata/sub-01/1.dcm': 'x',
      'in/code/convert.nii': 'x',
      'in/stimuli/a.png': 'x',
    });
    expect(found.volumes).toEqual(['file in/sub-01/anat/sub-01_T1w.nii.gz 1']);
    expect(found.skipped.toSorted()).toEqual(list`in/code in/dataset_description.json in/derivatives
      in/sourcedata in/stimuli in/sub-01/func/sub-01_physio.tsv.gz`);
  });

  test.each([
    ['bids', ['bids/sub-01/anat/sub-01_T1w.nii']],
    ['bids/**/*_T1w.nii', ['bids/sub-01/anat/sub-01_T1w.nii']],
    ['bids/*', ['bids/sub-01/anat/sub-01_T1w.nii']],
    ['bids/*/*/*_T1w.nii', ['bids/sub-01/anat/sub-01_T1w.nii']],
    ['**/*_T1w.nii', ['bids/sub-01/anat/sub-01_T1w.nii']],
    ['bids/derivatives', ['bids/derivatives/app/sub-01_T1w.nii']],
    ['bids/derivatives/**/*_T1w.nii', ['bids/derivatives/app/sub-01_T1w.nii']],
    ['bid?/derivatives/*/*_T1w.nii', ['bids/derivatives/app/sub-01_T1w.nii']],
    ['bids/derivatives/app/sub-01_T1w.nii', ['bids/derivatives/app/sub-01_T1w.nii']],
    ['Out/**/*_T1w.nii', ['Out/sub-01/sub-01_T1w.nii']],
    ['Out/sub-01/sub-01_T1w.nii', ['Out/sub-01/sub-01_T1w.nii']],
  ])('Results next to volumes are left out unless their paths are named: %s', async (given, wanted) => {
    await using root = await temporary();
    await plant(root.path, {
      'bids/dataset_description.json': '{}',
      'bids/sub-01/anat/sub-01_T1w.nii': 'x',
      'bids/derivatives/app/sub-01_T1w.nii': 'x',
      'bids/sourcedata/sub-01_T1w.nii': 'x',
      'Out/sub-01/sub-01_T1w.nii': 'x',
    });
    const found = await collect([path.join(root.path, given)], { output: path.join(root.path, 'Out') });
    expect(found.units.map((unit) => path.relative(root.path, unit.path))).toEqual(wanted);
  });

  test('The probabilities of nnU-Net next to its segmentations are left out', async () => {
    const names = list`case_01.nii.gz case_01.npz case_01.pkl case_02.nii.gz case_02.npz alone.npz`;
    const found = await sortedOut(Object.fromEntries(names.map((name) => [`in/${name}`, 'x'])));
    expect(found.volumes).toEqual([
      'file in/alone.npz 1',
      'file in/case_01.nii.gz 1',
      'file in/case_02.nii.gz 1',
    ]);
    expect(found.skipped.toSorted()).toEqual(['in/case_01.npz', 'in/case_01.pkl', 'in/case_02.npz']);
  });
});

describe('files that a cloud service has not downloaded', () => {
  test.each([
    ['OneDrive - University', /OneDrive did not fetch it; choose 'Always keep on this device'/],
    ['Dropbox', /Dropbox did not fetch it; choose 'Make available offline'/],
    ['GoogleDrive-me@example.org', /Google Drive did not fetch it; choose 'Available offline'/],
  ])('A file that a cloud service has not downloaded is refused by name: %s', async (cloud, sentence) => {
    await using root = await temporary();
    const directory = path.join(root.path, cloud, 'in');
    await mkdir(directory, { recursive: true });
    for (const name of ['a.nii', 'b.nii']) writeFileSync(path.join(directory, name), Buffer.alloc(20_000, 1));
    expect((await collect([directory])).units).toHaveLength(2);
    const file = path.join(directory, 'b.nii');
    truncateSync(file, 0);
    truncateSync(file, 20_000);
    await expect(collect([directory])).rejects.toThrow(sentence);
    await expect(collect([file])).rejects.toThrow(/b\.nii' has no content on this machine/);
  });

  test.each([
    ['a.nii.gz.cloud', /odrive did not fetch it; run 'odrive sync'/],
    ['scans.cloudf', /odrive did not fetch it/],
    ['a.nii.gz.dvc', /DVC did not fetch it; run 'dvc pull'/],
  ])('A file that stands for content in a cloud is refused: %s', async (name, sentence) => {
    await using root = await temporary();
    await plant(root.path, { 'in/b.nii': 'x', [`in/${name}`]: 'outs:\n' });
    await expect(collect([path.join(root.path, 'in')])).rejects.toThrow(sentence);
    await plant(root.path, { [`in/${name.replace(/\.\w+$/, '')}`]: 'x' });
    expect(
      (await collect([path.join(root.path, 'in')])).units.map((unit) => path.basename(unit.path)),
    ).toContain('b.nii');
  });
});
