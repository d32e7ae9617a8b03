import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { fieldWithRole, type OperationName, operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { dicomSeries } from '../../support/dicom.js';
import { dicomFile } from '../../support/dicom-files.js';
import { metaHeader } from '../../support/headers.js';
import { plant, temporary } from '../../support/temporary.js';
import { memoryReporter } from '../support/connect.js';

type Groups = Readonly<Record<string, readonly (string | string[])[]>>;

/** The cases of groups of paths, each given by one path or pattern or by several: their names, and the files and names that are sent of each. */
async function casesOf(
  made: Readonly<Record<string, string | Buffer>> | readonly string[],
  given: Groups,
  name: OperationName = 'infer',
  skipsIncomplete = false,
) {
  await using root = await temporary();
  const files = Array.isArray(made) ? Object.fromEntries(made.map((each) => [each, 'x'])) : made;
  await plant(root.path, files as Record<string, string | Buffer>);
  const operation = operationOf(name);
  const { cases: found } = await imaging
    .find(
      {
        operation,
        archive: null,
        files: operation.fields
          .filter((field) => given[field.name])
          .map((field) => ({
            field,
            groups: (given[field.name] ?? []).map((group) =>
              [group].flat().map((each) => path.join(root.path, each)),
            ),
          })),
      },
      {
        ...{ output: { directory: path.join(root.path, 'Out'), mayReplace: true }, skipsIncomplete },
        ...{ isEach: true, isListed: true, reporter: memoryReporter() },
      },
    )
    .catch((error: Error) => {
      throw new Error(error.message.replaceAll(`${root.path}${path.sep}`, ''));
    });
  return Object.fromEntries(
    found.map((each) => [
      each.name,
      [
        ...each.files.volumes.flatMap(({ groups }) =>
          groups.map((group) =>
            group.map((unit) => `${path.relative(root.path, unit.path)}=${unit.name}`).join(' '),
          ),
        ),
        ...(each.fault === null ? [] : [each.fault.replaceAll(`${root.path}${path.sep}`, '')]),
      ],
    ]),
  );
}

describe('a case', () => {
  test('Each volume of a BIDS tree is a case, named by its entities', async () => {
    expect(
      await casesOf(
        [
          'bids/dataset_description.json',
          'bids/sub-01/ses-1/anat/sub-01_ses-1_T1w.nii.gz',
          'bids/sub-01/ses-1/anat/sub-01_ses-1_T1w.json',
          'bids/sub-02/ses-1/anat/sub-02_ses-1_T1w.nii.gz',
        ],
        { inputs: ['bids'] },
      ),
    ).toEqual({
      'sub-01_ses-1_T1w': ['bids/sub-01/ses-1/anat/sub-01_ses-1_T1w.nii.gz=sub-01_ses-1_T1w.nii.gz'],
      'sub-02_ses-1_T1w': ['bids/sub-02/ses-1/anat/sub-02_ses-1_T1w.nii.gz=sub-02_ses-1_T1w.nii.gz'],
    });
  });

  test('A case is named by the path of its file', async () => {
    expect(await casesOf(['d/p1/scan.nii.gz', 'd/p2/scan.nii.gz'], { inputs: ['d'] })).toEqual({
      'p1/scan': ['d/p1/scan.nii.gz=scan.nii.gz'],
      'p2/scan': ['d/p2/scan.nii.gz=scan.nii.gz'],
    });
  });

  test('A case of several groups has one file of each group, and is named by the first', async () => {
    expect(
      await casesOf(
        ['t1/sub-2_T1w.nii', 't1/sub-10_T1w.nii', 'flair/sub-10_FLAIR.nii', 'flair/sub-2_FLAIR.nii'],
        { inputs: ['t1/*.nii', 'flair/*.nii'] },
      ),
    ).toEqual({
      'sub-2_T1w': ['t1/sub-2_T1w.nii=sub-2_T1w.nii', 'flair/sub-2_FLAIR.nii=sub-2_FLAIR.nii'],
      'sub-10_T1w': ['t1/sub-10_T1w.nii=sub-10_T1w.nii', 'flair/sub-10_FLAIR.nii=sub-10_FLAIR.nii'],
    });
  });

  test('A case of an evaluation has its ground truth, and the only mask if there is just one', async () => {
    expect(
      await casesOf(
        ['p/a.nii', 'p/b.nii', 'gt/a.nii', 'gt/b.nii', 'mask.nii'],
        { inputs: ['p'], gt: ['gt'], mask: ['mask.nii'] },
        'evaluate',
      ),
    ).toEqual({
      a: ['p/a.nii=a.nii', 'gt/a.nii=a.nii', 'mask.nii=mask.nii'],
      b: ['p/b.nii=b.nii', 'gt/b.nii=b.nii', 'mask.nii=mask.nii'],
    });
  });

  test('If a header names a file that does not hold its voxels, only that case fails', async () => {
    const files = {
      'd/a.mhd': metaHeader('key', 4),
      'd/key': 'secret',
      'd/b.nii': 'x',
      'd/c.mhd': metaHeader('c.raw', 4),
    };
    const cases = await casesOf({ ...files, 'd/c.raw': '12345' }, { inputs: ['d'] });
    expect(Object.keys(cases)).toEqual(['a', 'b', 'c']);
    expect(cases.b).toEqual(['d/b.nii=b.nii']);
    for (const name of ['a', 'c'] as const)
      expect(cases[name]?.at(-1)).toMatch(/has its voxels in 'd\/(key|c\.raw)', which /);
  });

  test('A header and its voxels stay together, even if another case has files of the same names', async () => {
    const header = metaHeader('scan.raw');
    expect(
      await casesOf(
        { 'd/a/scan.mhd': header, 'd/a/scan.raw': '1', 'd/b/scan.mhd': header, 'd/b/scan.raw': '2' },
        { inputs: ['d'] },
      ),
    ).toEqual({
      'a/scan': ['d/a/scan.mhd=scan.mhd d/a/scan.raw=scan.raw'],
      'b/scan': ['d/b/scan.mhd=scan.mhd d/b/scan.raw=scan.raw'],
    });
  });

  test('The name of a case is a valid directory name', async () => {
    expect(
      Object.keys(await casesOf(['d/.a.nii', 'd/CON.nii', 'd/x.nii'], { inputs: ['d/{.a,CON,x}.*'] })),
    ).toEqual(['a', '_CON', 'x']);
  });
});

describe('a file that cannot be sent', () => {
  test('A file that cannot be sent is a faulty case, which keeps its position and its pair', async () => {
    expect(
      Object.entries(
        await casesOf(
          {
            't1/s1/a.nii': 'x',
            't1/s2/b.nii': '',
            't1/s3/c.nii': 'x',
            't2/a.nii': 'x',
            't2/b.nii': 'x',
            't2/c.nii': '',
          },
          { inputs: ['t1', 't2'] },
        ),
      ),
    ).toEqual([
      ['s1/a', ['t1/s1/a.nii=a.nii', 't2/a.nii=a.nii']],
      ['s2/b', ['t1/s2/b.nii=b.nii', 't2/b.nii=b.nii', "'t1/s2/b.nii' is empty (0 bytes)"]],
      ['s3/c', ['t1/s3/c.nii=c.nii', 't2/c.nii=c.nii', "'t2/c.nii' is empty (0 bytes)"]],
    ]);
  });

  test('A volume that is truncated, or not packed as its name says, fails only its own case', async () => {
    const slice = (k: number) =>
      dicomFile({ pixels: new Int16Array(16), size: [4, 4], position: [0, 0, k], series: '1.2.7' });
    const nrrd = 'NRRD0004\ntype: short\ndimension: 3\nsizes: 9 9 9\nencoding: raw\n\n';
    const found = await casesOf(
      {
        'd/a.nii.gz': Buffer.alloc(500, 1),
        'd/b.nrrd': nrrd,
        'd/c.mhd': metaHeader('c.raw', 8),
        'd/c.raw': Buffer.alloc(7),
        'd/ct/1': slice(1),
        'd/ct/2': slice(2).subarray(0, -9),
        'd/e.nii': 'x',
        'd/mr/1': dicomFile({ pixels: new Int16Array(16), size: [4, 4] }),
      },
      { inputs: ['d'] },
    );
    expect(Object.entries(found).map(([name, words]) => [name, words.at(-1)])).toEqual([
      ['a', expect.stringContaining("'d/a.nii.gz' is not packed with gzip, as its name says")],
      [
        'b',
        expect.stringContaining("'d/b.nrrd' is cut short: its header says 1458 bytes of voxels, and 0 are"),
      ],
      [
        'c',
        expect.stringMatching(
          /'d\/c\.mhd' has its voxels in 'd\/c\.raw', which has 7 bytes, and its header says 8/,
        ),
      ],
      ['ct', expect.stringContaining("'d/ct' has 'd/ct/2', which is cut short or damaged")],
      ['e', 'd/e.nii=e.nii'],
      ['mr', 'd/mr=mr'],
    ]);
  });

  test('A file that cannot be sent and belongs to a volume of several files is refused', async () => {
    const files = { 'd/a.mhd': 'NDims = 3\nElementDataFile = a.raw\n', 'd/a.raw': '', 'd/b.nii': 'x' };
    await expect(casesOf(files, { inputs: ['d'] })).rejects.toThrow("'d/a.raw' is empty (0 bytes)");
  });
});

describe('groups that cannot be paired with certainty', () => {
  test('Groups whose names do not match are refused', async () => {
    const files = ['t1/a.nii', 't1/b.nii', 'flair/c.nii', 'flair/d.nii'];
    await expect(casesOf(files, { inputs: ['t1', 'flair'] })).rejects.toThrow(
      "2 of 2 cases have no file in group 2 of --inputs: 't1/a.nii', 't1/b.nii'; 2 files of group 2 of --inputs belong to no case",
    );
  });

  test('Files that a shell has sorted differently in two groups are paired by name', async () => {
    const inputs = ['p/case1.nii', 'p/case10.nii'];
    const gt = ['gt/case10_gt.nii', 'gt/case1_gt.nii'];
    const cases = await casesOf([...inputs, ...gt], { inputs: [inputs], gt: [gt] }, 'evaluate');
    expect(Object.values(cases)).toEqual([
      ['p/case1.nii=case1.nii', 'gt/case1_gt.nii=case1_gt.nii'],
      ['p/case10.nii=case10.nii', 'gt/case10_gt.nii=case10_gt.nii'],
    ]);
  });

  test('One ground truth for several predictions is refused', async () => {
    const files = ['p/a.nii', 'p/b.nii', 'gt.nii'];
    await expect(casesOf(files, { inputs: ['p'], gt: ['gt.nii'] }, 'evaluate')).rejects.toThrow(
      "2 of 2 cases have no file in --gt: 'p/a.nii', 'p/b.nii'; 1 file of --gt belongs to no case: 'gt.nii'",
    );
  });
});

describe('cases that lack a file of a group', () => {
  const t1 = (subject: string) => `bids/${subject}/anat/${subject}_T1w.nii`;
  const flair = (subject: string) => `bids/${subject}/anat/${subject}_FLAIR.nii`;
  const patterns = { inputs: ['bids/**/*_T1w.nii', 'bids/**/*_FLAIR.nii'] };
  const subjects = ['sub-01', 'sub-02', 'sub-07', 'sub-12'];

  test('Cases that lack a file of a group are named, along with the flag that skips them', async () => {
    const files = [...subjects.map(t1), flair('sub-01'), flair('sub-12')];
    await expect(casesOf(files, patterns)).rejects.toThrow(
      "2 of 4 cases have no file in group 2 of --inputs: 'bids/sub-02/anat/sub-02_T1w.nii', " +
        "'bids/sub-07/anat/sub-07_T1w.nii'; give the files of a case the same names, add what is missing, or leave these out with --skip-incomplete",
    );
    expect(Object.keys(await casesOf(files, patterns, 'infer', true))).toEqual(['sub-01_T1w', 'sub-12_T1w']);
  });

  test.each([
    ['one file is left', [...subjects.map(t1), flair('sub-07')], patterns, ['sub-07_T1w']],
    [
      'both groups lack some, and have as many files',
      [t1('sub-01'), t1('sub-02'), flair('sub-02'), flair('sub-03')],
      patterns,
      ['sub-02_T1w'],
    ],
    [
      'folders alone tell cases apart',
      ['d/p1/t1.nii', 'd/p2/t1.nii', 'd/p3/t1.nii', 'd/p2/flair.nii'],
      { inputs: ['d/*/t1.nii', 'd/*/flair.nii'] },
      ['p2/t1'],
    ],
    [
      'names begin alike in one group only',
      ['a/control_a.nii', 'a/control_b.nii', 'a/patient_a.nii', 'b/control_a.nii', 'b/control_b.nii'],
      { inputs: ['a', 'b'] },
      ['control_a', 'control_b'],
    ],
    [
      'a header and its voxels are two files',
      {
        'a/x.mhd': 'NDims = 3\nDimSize = 1 1 1\nElementType = MET_UCHAR\nElementDataFile = x.raw\n',
        'a/x.raw': '1',
        'a/y.mhd': 'NDims = 3\nDimSize = 1 1 1\nElementType = MET_UCHAR\nElementDataFile = y.raw\n',
        'a/y.raw': '2',
        'a/z.mhd': 'NDims = 3\nDimSize = 1 1 1\nElementType = MET_UCHAR\nElementDataFile = z.raw\n',
        'a/z.raw': '3',
        'b/x.nii': '4',
        'b/z.nii': '5',
      },
      { inputs: ['a', 'b'] },
      ['x', 'z'],
    ],
  ])(
    'With --skip-incomplete, cases that lack a file of a group are left out where %s',
    async (_, files, given, names) => {
      await expect(casesOf(files, given)).rejects.toThrow('--skip-incomplete');
      const cases = await casesOf(files, given, 'infer', true);
      expect(Object.keys(cases)).toEqual(names);
      for (const sent of Object.values(cases)) expect(sent).toHaveLength(2);
    },
  );

  test('A single mask belongs to every case, so none lacks it', async () => {
    const files = ['p/a.nii', 'p/b.nii', 'gt/a.nii', 'a.nii'];
    const given = { inputs: ['p'], gt: ['gt'], mask: ['a.nii'] };
    await expect(casesOf(files, given, 'evaluate')).rejects.toThrow(
      "1 of 2 cases has no file in --gt: 'p/b.nii'; give the files",
    );
    expect(Object.keys(await casesOf(files, given, 'evaluate', true))).toEqual(['a']);
  });
});

test('The notes do not list series, which the table shows, and no series is read after an interruption', async () => {
  await using root = await temporary();
  const slices = (series: string) => dicomSeries(2, { series }, (image) => `in/${series}/${image}`);
  await plant(root.path, { ...slices('1'), ...slices('2') });
  const operation = operationOf('infer');
  const files = [{ field: fieldWithRole(operation, 'paths'), groups: [[path.join(root.path, 'in')]] }];
  const reporter = memoryReporter();
  const finding = { output: null, isEach: true, isListed: true, reporter };
  const find = (signal?: AbortSignal) =>
    imaging.find({ operation, archive: null, files }, { ...finding, signal });
  expect([(await find()).cases.length, reporter.notes]).toEqual([2, []]);
  const before = reporter.moves.length;
  await expect(find(AbortSignal.abort(new Error('Interrupted')))).rejects.toThrow('Interrupted');
  expect(reporter.moves.length).toBe(before);
});

test('A file in the directory of the results is refused', async () => {
  await expect(casesOf(['Out/a.nii'], { inputs: ['Out'] })).rejects.toThrow(
    "'Out/a.nii' is in the directory that results go to, where one of them could replace it",
  );
});

describe('files of two people or sessions', () => {
  const tree = (kind: string, ...people: string[]) =>
    people.map((person) => `d/${person}/${person.replaceAll('/', '_')}_${kind}.nii`);

  test.each<[string, string[], Record<string, string[]>]>([
    [
      'two single files',
      ['b/sub-01/sub-01_T1w.nii', 'b/sub-02/sub-02_FLAIR.nii'],
      { inputs: ['b/**/*_T1w.nii', 'b/**/*_FLAIR.nii'] },
    ],
    [
      'another session',
      [...tree('T1w', 'sub-01/ses-1', 'sub-02/ses-1'), ...tree('FLAIR', 'sub-01/ses-2', 'sub-02/ses-2')],
      { inputs: ['d/**/*_T1w.nii', 'd/**/*_FLAIR.nii'] },
    ],
    [
      'people with the same numbers',
      [...tree('T1w', 'pat01', 'pat02'), ...tree('FLAIR', 'con01', 'con02')],
      { inputs: ['d/**/*_T1w.nii', 'd/**/*_FLAIR.nii'] },
    ],
    [
      'equal names in folders that say otherwise',
      ['d/t1/A/2.nii', 'd/t1/B/1.nii', 'd/flair/A/1.nii', 'd/flair/B/2.nii'],
      { inputs: ['d/t1', 'd/flair'] },
    ],
    [
      'single files in plain folders',
      ['d/A/t1.nii', 'd/B/flair.nii'],
      { inputs: ['d/*/t1.nii', 'd/*/flair.nii'] },
    ],
  ])('Files of two people or sessions are never one case: %s', async (_, files, given) => {
    await expect(casesOf(files, given)).rejects.toThrow(/has no file in group 2|have no file in group 2/);
    await expect(casesOf(files, given, 'infer', true)).rejects.toThrow('No case has a file in each group');
  });

  test('Files of two people are one case if both are named on the command line', async () => {
    const files = ['b/sub-01/sub-01_T1w.nii', 'b/sub-02/sub-02_FLAIR.nii'];
    expect(Object.values(await casesOf(files, { inputs: files }))).toEqual([
      files.map((file) => `${file}=${path.basename(file)}`),
    ]);
  });

  test('A session that is missing in one group does not affect the other cases', async () => {
    const files = [...tree('T1w', 'A/v1', 'A/v2', 'B/v1'), ...tree('FLAIR', 'A/v1', 'B/v1')];
    const given = { inputs: ['d/**/*_T1w.nii', 'd/**/*_FLAIR.nii'] };
    await expect(casesOf(files, given)).rejects.toThrow(
      "1 of 3 cases has no file in group 2 of --inputs: 'd/A/v2/A_v2_T1w.nii'",
    );
    expect(Object.keys(await casesOf(files, given, 'infer', true))).toEqual([
      'A/v1/A_v1_T1w',
      'B/v1/B_v1_T1w',
    ]);
  });
});
