import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { filesOfUnit, type NamedUnit, volumesOf } from '../../../src/client/found-files.js';
import { operationOf } from '../../../src/contract/operations.js';
import { divideIntoCases } from '../../../src/imaging/inputs/cases.js';
import { pairCases, refuseIncomplete } from '../../../src/imaging/inputs/incomplete.js';
import { plant, temporary } from '../../support/temporary.js';

const fieldOf = (name: string) => {
  const field = operationOf('evaluate').fields.find((each) => each.name === name);
  if (!field) throw new Error(`no field ${name}`);
  return field;
};
const unit = (file: string, more: object = {}) =>
  ({
    ...{
      kind: 'file',
      path: file,
      name: path.basename(file),
      size: 1,
      format: 'NIfTI',
      isHalf: false,
      headers: [],
    },
    ...more,
  }) as NamedUnit;

describe('cases', () => {
  const found = (groups: Readonly<Record<string, readonly (readonly NamedUnit[])[]>>) =>
    Object.entries(groups).map(([name, all]) => ({ field: fieldOf(name), groups: all }));

  const base = '/in';
  test.each<[string, string, NamedUnit]>([
    ['its path below what was named', 'A/t1', unit('/in/A/t1.nii.gz', { base })],
    ['what was typed of a file', 'scans/a', unit('./scans/a.nii')],
    ['what was typed of a file elsewhere', 'x/a', unit('../x/a.nii')],
    ['the root of a file as it was typed', 'data/a', unit('/data/a.nii')],
    ['its entities', 'sub-1_ses-2_acq-x_T1w', unit('/d/sub-1/ses-2/anat/sub-1_ses-2_acq-x_T1w.nii')],
    [
      'its path where the session is in the folders alone',
      'sub-1/ses-2/anat/sub-1_T1w',
      unit('/in/sub-1/ses-2/anat/sub-1_T1w.nii', { base }),
    ],
    [
      'its path where folders and name are of two people',
      'sub-2/anat/sub-1_T1w',
      unit('/in/sub-2/anat/sub-1_T1w.nii', { base }),
    ],
    [
      'its path outside of a folder of a kind of data',
      'sub-1/sub-1_T1w',
      unit('/in/sub-1/sub-1_T1w.nii', { base }),
    ],
    ['parts that directories can have', 'x/case/a_b', unit('/in/-.x/--/a:b.nii', { base })],
    ['parts that are not too long', 'a'.repeat(200), unit(`/in/${'a'.repeat(201)}.nii`, { base })],
    [
      'the directory of a store that was named',
      's',
      unit('/in/s.zarr', { kind: 'store', base: '/in/s.zarr', files: [] }),
    ],
    [
      'the number and the description of a series',
      'p1/3_T1-MPRAGE',
      unit('/in/p1', {
        kind: 'series',
        wanted: 'p1',
        files: [],
        base,
        series: { number: 3, description: 'T1 MPRAGE', remarks: [] },
      }),
    ],
    [
      'the directory of a series that has neither',
      'p1',
      unit('/in/p1', {
        kind: 'series',
        wanted: 'p1',
        files: [],
        base,
        series: { number: null, description: '', remarks: [] },
      }),
    ],
  ])('Cases have %s as their name', (_, name, volume) => {
    expect(divideIntoCases(found({ inputs: [[volume]] })).map((each) => each.name)).toEqual([name]);
  });

  test.each([
    [['/in/x.nii', '/in/x.mha'], "'/in/x.nii' and '/in/x.mha' would both be the case 'x'"],
    [['/in/x.nii', '/in/X.nii'], "'/in/x.nii' and '/in/X.nii' would both be the case 'X'"],
    [['/in/A.nii', '/in/a/t1.nii'], "The result of '/in/a/t1.nii' would lie in that of '/in/A.nii'"],
  ])('Cases whose names or places are the same are refused: %j', (files, why) => {
    const units = files.map((each) => unit(each, { base }));
    expect(() => divideIntoCases(found({ inputs: [units] }))).toThrow(why);
  });

  test('Cases have the labels of their paths, their files and the fault of one of these, and what is for all', () => {
    const [first, second] = [unit('/in/sub-01/ses-2/x.nii'), unit('/in/02/y.mhd')];
    const half = unit('/in/02/y.raw', { isHalf: true, headers: ['/in/02/y.mhd'] });
    const bad = unit('/gt/sub-03_b.nii', { fault: 'is empty' });
    const mask = unit('/m/sub-09_mask.nii');
    const cases = divideIntoCases(
      found({ inputs: [[first, second, half]], gt: [[unit('/gt/a.nii'), bad]], mask: [[mask]] }),
    );
    expect(cases.map(({ name, subject, session, fault }) => [name, subject, session, fault])).toEqual([
      ['in/sub-01/ses-2/x', '01', '2', null],
      ['in/02/y', '03', null, "'/gt/sub-03_b.nii' is empty"],
    ]);
    const groups = cases.map(({ files }) =>
      files.volumes.map((each) => each.groups.flat().map(({ path: at }) => at)),
    );
    expect(groups).toEqual([
      [['/in/sub-01/ses-2/x.nii'], ['/gt/a.nii'], ['/m/sub-09_mask.nii']],
      [['/in/02/y.mhd', '/in/02/y.raw'], ['/gt/sub-03_b.nii'], ['/m/sub-09_mask.nii']],
    ]);
    expect(volumesOf([first, second, half])).toEqual([[first], [second, half]]);
    // Sent alone, files keep the names that they would share with those of other cases.
    const alone = divideIntoCases(
      found({ inputs: [['a', 'b'].map((each) => unit(`/in/${each}/T1.nii`, { name: `${each}_T1.nii` }))] }),
    );
    expect(
      alone.map(({ name, files }) => [name, files.volumes[0]?.groups[0]?.map((each) => each.name)]),
    ).toEqual([
      ...[
        ['in/a/T1', ['T1.nii']],
        ['in/b/T1', ['T1.nii']],
      ],
    ]);
  });

  test('Cases of groups of other numbers are refused, also of one where the group is needed', () => {
    const divide = (name: 'gt' | 'mask', count: number) => () =>
      divideIntoCases(
        found({
          inputs: [[unit('/in/a.nii'), unit('/in/b.nii')]],
          [name]: [Array.from({ length: count }, (_, at) => unit(`/g/${at}.nii`))],
        }),
      );
    expect(divide('mask', 1)).not.toThrow();
    expect(divide('gt', 1)).toThrow(
      "--each takes one file of each group for a case, and --gt has 1 for 2 cases: '/g/0.nii' with '/in/a.nii', '/in/b.nii'; " +
        'give both groups the same number of files, and the files of a case the same names',
    );
    expect(divide('mask', 3)).toThrow('--mask has 3 for 2 cases');
  });

  test('Cases know the files of a volume, and whether one was not fetched', async () => {
    const store = unit('/in/s', {
      kind: 'store',
      files: [
        { name: '0/', path: '/x' },
        { name: '0/1', path: '/y', size: 3 },
      ],
    });
    expect(filesOfUnit(store)).toEqual([{ name: 's/0/1', path: '/y', size: 3 }]);
    expect(filesOfUnit(unit('/in/a.nii'))).toEqual([{ name: 'a.nii', path: '/in/a.nii', size: 1 }]);
    await using root = await temporary();
    await plant(root.path, { 'a.nii': 'x', 'b.nii.dvc': 'x' });
    const has = (...names: string[]) =>
      divideIntoCases(found({ inputs: names.map((name) => [unit(path.join(root.path, name))]) }))[0]?.isAway;
    expect([has('a.nii'), has('a.nii', 'b.nii.dvc')]).toEqual([false, true]);
  });
});

test('Cases that lack a file are named, thirty at most, with what to do about them', () => {
  const of = (count: number, name: (at: number) => string) =>
    Array.from({ length: count }, (_, at) => ({ ...unit(`/in/${name(at)}.nii`), name: `${name(at)}.nii` }));
  const group = (name: string, units: NamedUnit[]) => ({ field: fieldOf(name), number: 1, units });
  const lackingOf = (count: number) =>
    pairCases(
      [
        group(
          'inputs',
          of(count + 2, (at) => `c${at}x`),
        ),
        group(
          'gt',
          of(2, (at) => `c${at}x`),
        ),
      ],
      new Set(),
    ).lacking[0];
  expect(lackingOf(30)).toMatch(
    /^30 of 32 cases have no file in --gt: '\/in\/c2x\.nii', .*, '\/in\/c31x\.nii'$/,
  );
  expect(lackingOf(32)).toMatch(/'\/in\/c31x\.nii' and 2 more$/);
  refuseIncomplete([], true);
  expect(() => refuseIncomplete(['one', 'two'], true)).toThrow(
    'one; two; give the files of a case the same names, add what is missing, or leave these out with --skip-incomplete',
  );
  expect(() => refuseIncomplete(['one'], false)).toThrow(
    /^one; give .* add what is missing, or leave these out$/,
  );
});
