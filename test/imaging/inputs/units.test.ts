import { type Stats, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Series } from '../../../src/client/found-files.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { Obstacles, readingFault } from '../../../src/imaging/inputs/entries.js';
import {
  formatNameOf,
  hasZarrName,
  isHidden,
  isSidecar,
  isVolumeContent,
  isVolumeName,
  isWholeVolumeName,
  withoutVolumeEnding,
} from '../../../src/imaging/inputs/formats.js';
import { findFiles, findVolumes } from '../../../src/imaging/inputs/index.js';
import { linkFault, placeholderFault } from '../../../src/imaging/inputs/placeholders.js';
import { volumeFault } from '../../../src/imaging/inputs/recognise.js';
import { verdictOn } from '../../../src/imaging/inputs/sending-rules.js';
import { describeSeries, seriesName } from '../../../src/imaging/inputs/series.js';
import { readStore } from '../../../src/imaging/inputs/zarr.js';
import { collect } from '../../client/support/collect.js';
import { dicomFile, dicomSeries } from '../../support/dicom.js';
import { plant, temporary } from '../../support/temporary.js';

test('A file that cannot be read has a fault with what to do, instead of a system error', async () => {
  const copy = 'copy it again from the original, or leave it out';
  expect(await volumeFault('/proc/self/mem')).toMatch(RegExp(`^cannot be read: .*\\(EIO\\); ${copy}$`));
  const link = { role: 'named', path: '/nowhere/a.nii', isLink: true, root: '/' } as const;
  expect(await verdictOn(link)).toMatchObject({ leaves: false, why: expect.stringMatching(/\(ENOENT\); /) });
  const forbidden = Object.assign(new Error('no'), { errno: -13, code: 'EACCES' });
  expect(readingFault(forbidden)).toMatch(
    /^cannot be read: .*\(EACCES\); make it readable, or leave it out$/,
  );
  expect(() => readingFault(new Error('a fault of ours'))).toThrow('a fault of ours');
});

describe('formats', () => {
  test('Formats are recognised by names', () => {
    expect(
      ['a.ome.tif', 'a.ome.zarr', 'A.NII.GZ', 'a.dcm.gz', 'a.seg.nrrd', 'a.txt', 'a'].map(
        withoutVolumeEnding,
      ),
    ).toEqual(['a', 'a', 'A', 'a', 'a.seg', 'a.txt', 'a']);
    expect(['a.png', 'a.nii', 'a.IMA', 'a.txt', 'a.ome.tif'].map(isVolumeName)).toEqual([
      ...[false, true, true, false, true],
    ]);
    expect(['a.mha', 'a.mhd', 'a.nii.GZ', 'a.img', 'a.dcm'].map(isWholeVolumeName)).toEqual([
      ...[true, false, true, false, false],
    ]);
    expect(['a.dcm', 'a.v', 'a.brik.bz2', 'a.x'].map(formatNameOf)).toEqual(['DICOM', 'ECAT', 'AFNI', null]);
    const sidecars = ['a.json', 'README', 'a.tsv.gz', 'a.json.gz', 'Thumbs.db', 'DICOMDIR', 'a.nii.json'];
    expect(sidecars.filter((name) => !isSidecar(name))).toEqual([]);
    expect(['a.nii.gz', 'readme.nii', 'json', 'a'].filter(isSidecar)).toEqual([]);
    expect(['.a', '#recycle', 'desktop.ini', 'a:Zone.Identifier'].filter((name) => !isHidden(name))).toEqual(
      [],
    );
    expect(['.a.nii.icloud', 'a', 'recycle'].filter(isHidden)).toEqual([]);
    expect(['a.ome.ZARR', 'a.zarr', 'zarr', 'a.zarr.zip'].map(hasZarrName)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  test('Formats are recognised by content', () => {
    const starts = (text: string, at = 0) => {
      const bytes = Buffer.alloc(400);
      bytes.write(text, at, 'latin1');
      return isVolumeContent(bytes);
    };
    const known = [
      'CDF\u0001',
      'CDF\u0002',
      'II*\0',
      'MM\0*',
      'II+\0',
      'MM\0+',
      'MATRIX7',
      '\u0089HDF\r\n',
      '\u0093NUMPY',
      'NRRD0004',
      '# vtk DataFile',
    ];
    expect(known.filter((text) => !starts(text))).toEqual([]);
    expect([starts('\u00ef\u00ff\u00e9\u00b0', 252), starts('\u002a\u00e3\u0089\u00b8', 252)]).toEqual([
      true,
      true,
    ]);
    expect(['CDF\u0003', '\u0089PNG\r\n', 'GIF8', 'plain'].filter((text) => starts(text))).toEqual([]);
  });
});

test('Files that were not fetched are recognised by their size, their names and their location', () => {
  const fault = (name: string, size: number, blocks = 8) =>
    /since (.*) did not fetch it/.exec(placeholderFault(name, name, { size, blocks } as Stats) ?? '')?.[1];
  expect([
    fault('/x/.a.nii.icloud', 99_999),
    fault('/x/a.nii.cloud', 0),
    fault('/x/a.nii.dvc', 1025),
  ]).toEqual(['iCloud', 'odrive', undefined]);
  const drives = [
    '/home/OneDrive - Lab/a.nii',
    '/home/Dropbox/x/a.nii',
    '/mnt/My Drive/a.nii',
    '/mnt/Google Drive/a.nii',
    '/mnt/GoogleDrive-me/a.nii',
    '/home/a/a.nii',
  ];
  expect(drives.map((name) => fault(name, 8192, 0))).toEqual([
    'OneDrive',
    'Dropbox',
    ...Array(3).fill('Google Drive'),
    undefined,
  ]);
  expect([
    fault(drives[0] ?? '', 8191, 0),
    fault(drives[0] ?? '', 8192, 16),
    fault('/home/OneDrive', 8192, 0),
  ]).toEqual([...[undefined, undefined, undefined]]);
  expect([linkFault('../.git/annex/objects/a'), linkFault('x.git/annex/objects/a')]).toEqual([
    expect.stringContaining("git-annex did not fetch it; run 'datalad get'"),
    null,
  ]);
});

describe('a series', () => {
  const series = (more: Partial<Series>) =>
    ({
      path: '/in/S1',
      number: 3,
      description: 'T1  (KM)/x',
      patient: '',
      person: '',
      modality: 'MR',
      size: [2, 3, 4],
      images: 4,
      plane: 'axial',
      ...more,
    }) as Series;

  test('A series has a file name, and a name to display', () => {
    expect(seriesName(series({}), true)).toBe('S1');
    expect(seriesName(series({}), false)).toBe('S1_3_T1-KM-x');
    expect(seriesName(series({ number: null, description: ' - ' }), false)).toBe('S1');
    expect(seriesName(series({ description: 'ä'.repeat(50) }), false)).toBe(`S1_3_${'ä'.repeat(40)}`);
    expect(describeSeries(series({}))).toBe("3 'T1  (KM)/x' (MR, 2 x 3 x 4, axial)");
    expect(
      describeSeries(
        series({ number: null, description: '', modality: '', size: [], images: 1, plane: null }),
      ),
    ).toBe('without a number (1 image)');
  });
});

describe('directories', () => {
  const field = fieldWithRole(operationOf('infer'), 'paths');

  test('A directory contains all series in one place, and one next to a multi-frame volume keeps its name', async () => {
    await using root = await temporary();
    const one = dicomSeries(2, { series: '1', number: 1, description: 'one' }, (at) => `a${at}`);
    const other = dicomSeries(2, { series: '2', number: 2, description: 'other' }, (at) => `b${at}`);
    const enhanced = dicomFile({ kind: 'enhancedMR', image: 1, frames: 6, series: '6', number: 6 });
    const within = (directory: string, files: object) =>
      Object.fromEntries(
        Object.entries(files).map(([name, bytes]) => [`${directory}/${name}`, bytes as Buffer]),
      );
    await plant(root.path, {
      ...within('in', { ...one, ...other }),
      ...within('mixed', { ...one, enhanced }),
    });
    expect(await findVolumes([path.join(root.path, 'in')])).toHaveLength(2);
    const { units } = await collect([path.join(root.path, 'mixed')]);
    expect(units).toMatchObject([{ wanted: 'mixed' }, { kind: 'file', series: { number: 6 } }]);
  });

  test('Result directories in a BIDS data set are read only with --all-files', async () => {
    await using root = await temporary();
    const names = ['derivatives', 'sourcedata', 'code', 'stimuli', 'phenotype'];
    await plant(root.path, {
      'dataset_description.json': '{}',
      'sub-01/a.nii': '1',
      ...Object.fromEntries(names.map((name) => [`${name}/b.nii`, '2'])),
    });
    const { units, skipped } = await collect([root.path]);
    expect(units).toHaveLength(1);
    expect(skipped.map((each) => path.basename(each)).toSorted()).toEqual(
      [...names, 'dataset_description.json'].toSorted(),
    );
    expect((await collect([root.path], { allFiles: true })).units).toHaveLength(7);
  });

  test('Links in an annex to the voxels of a header are followed and reported', async () => {
    await using root = await temporary();
    const repository = path.join(root.path, 'ds');
    const header =
      'ObjectType = Image\nNDims = 3\nDimSize = 2 1 1\nElementType = MET_UCHAR\nElementDataFile = x.raw\n';
    await plant(repository, { '.git/annex/objects/k': Buffer.from([1, 2]), 'x.mhd': header });
    symlinkSync('.git/annex/objects/k', path.join(repository, 'x.raw'));
    const files = [{ field, groups: [[path.join(repository, 'x.mhd')]] }];
    const { followed, volumes } = await findFiles({ files, archive: null });
    expect(volumes[0]?.groups[0]?.map(({ name }) => name)).toEqual(['x.mhd', 'x.raw']);
    expect(followed).toEqual([
      { path: path.join(repository, 'x.raw'), target: path.join(repository, '.git/annex/objects/k') },
    ]);
    // A case of several fails alone, with both files.
    writeFileSync(path.join(repository, 'x.mhd'), header.replace('2 1 1', '3 1 1'));
    const each = await findFiles({ files, archive: null }, { isEach: true });
    expect(each.volumes[0]?.groups[0]).toMatchObject([
      {
        name: 'x.mhd',
        fault: expect.stringMatching(
          /^has its voxels in '.*x\.raw', which has 2 bytes, and its header says 3 bytes/,
        ),
      },
    ]);
  });

  test('The choices for inputs do not apply to directories of ground truth', async () => {
    await using root = await temporary();
    const one = dicomSeries(2, { series: '1', number: 1, description: 'one' }, (at) => `a${at}`);
    const seg = dicomFile({ kind: 'SEG', modality: 'SEG', image: 1, series: '9', number: 9 });
    const scans = { ...one, seg };
    const within = (directory: string) =>
      Object.fromEntries(Object.entries(scans).map(([name, bytes]) => [`${directory}/${name}`, bytes]));
    await plant(root.path, {
      ...within('in'),
      ...within('more'),
      ...within('gt'),
      'x/a_T1w.nii': '1',
      'x/a_seg.nii': '2',
    });
    const { fields } = operationOf('evaluate');
    const fieldOf = (name: string) => fields.find((each) => each.name === name) ?? field;
    const at = (...names: string[]) => names.map((name) => path.join(root.path, name));
    let asked = 0;
    const volume = (type: string) => ({ volume_type: type });
    const inputs = { a: volume('VOLUME'), b: volume('SEGMENTATION') };
    const chosen: number[] = [];
    const files = [
      { field: fieldOf('inputs'), groups: [at('in'), at('more')] },
      { field: fieldOf('gt'), groups: [at('gt')] },
    ];
    const found = await findFiles(
      { files, archive: null },
      {
        describeApp: async () => {
          asked += 1;
          return { available: true, inputs } as never;
        },
        chooseSeries: async (series) => {
          chosen.push(series.length);
          return series.slice(0, 2);
        },
      },
    );
    // The second group of inputs asks for segmentations; those of ground truth are volumes in any case.
    expect([asked, chosen]).toEqual([2, [1, 2]]);
    expect(found.volumes.map(({ groups }) => groups.map((each) => each.length))).toEqual([[1, 2], [2]]);
    expect(found.objects.map((each) => path.relative(root.path, each.path))).toEqual(['in/seg']);
    const suffixes = { selection: { suffixes: ['T1w'] } };
    const named = await findFiles({
      ...{ archive: null, ...suffixes },
      files: [
        { field: fieldOf('inputs'), groups: [at('x')] },
        { field: fieldOf('gt'), groups: [at('x/*_seg.nii')] },
      ],
    });
    expect(named.volumes.map(({ groups }) => groups.flat().map(({ name }) => name))).toEqual([
      ['a_T1w.nii'],
      ['a_seg.nii'],
    ]);
  });

  test('A picture is what is meant, rather than a file of an unknown format next to it', async () => {
    await using root = await temporary();
    await plant(root.path, { 'odd/odd.dat': 'x', 'odd/photo.png': 'x' });
    const odd = await collect([path.join(root.path, 'odd')]);
    expect([odd.units.map((unit) => unit.path), odd.unknown]).toEqual([
      [path.join(root.path, 'odd/photo.png')],
      [],
    ]);
  });
});

test('A directory that is named like a store but is not one is refused with what it lacks', async () => {
  await using root = await temporary();
  await plant(root.path, { 'empty.zarr/': '', 'other.zarr/0/': '' });
  const sentenceOf = async (name: string) => {
    const obstacles = new Obstacles();
    await readStore(path.join(root.path, name), obstacles);
    return obstacles.all.map(({ sentence }) => sentence.replace(root.path, '')).join();
  };
  expect(await sentenceOf('empty.zarr')).toBe("'/empty.zarr' contains no file to send");
  expect(await sentenceOf('other.zarr')).toBe(
    "'/other.zarr' has the name of a Zarr store and no valid metadata (zarr.json, .zgroup or .zarray)",
  );
});
