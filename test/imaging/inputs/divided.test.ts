import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { filesOfUnit, type NamedUnit, volumesOf } from '../../../src/client/found-files.js';
import { operationOf } from '../../../src/contract/operations.js';
import { divideIntoCases } from '../../../src/imaging/inputs/cases.js';
import { refuseIncomplete, withoutIncomplete } from '../../../src/imaging/inputs/incomplete.js';
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
  const namesOf = (...groups: readonly (readonly string[])[]) =>
    divideIntoCases(found({ inputs: groups.map((group) => group.map((each) => unit(each))) })).map(
      ({ name }) => name,
    );

  test.each<[string, string[], string[][]]>([
    ['the name of the file', ['a', 'b'], [['/in/a.nii', '/in/b.nii.gz']]],
    [
      'what all files share',
      ['s-1', 's-2'],
      [
        ['/x/s-1_T1.nii', '/x/s-2_T1.nii'],
        ['/y/s-1_T2.nii', '/y/s-2_T2.nii'],
      ],
    ],
    [
      'whole words of these',
      ['s', 't-2'],
      [
        ['/x/s_T1.nii', '/x/t-2.nii'],
        ['/y/s_T2.nii', '/y/t-2.nii'],
      ],
    ],
    [
      'also where one has no more',
      ['s1', 's2'],
      [
        ['/x/s1.nii', '/x/s2.nii'],
        ['/y/s1_b.nii', '/y/s2_b.nii'],
      ],
    ],
    [
      'the name of the first, where that says nothing',
      ['a1', 'b1'],
      [
        ['/x/a1.nii', '/x/b1.nii'],
        ['/y/x.nii', '/y/y.nii'],
      ],
    ],
    ['a name that is free', ['a', 'A_1'], [['/x/a.nii', '/y/A.mha']]],
    ['one that a directory can have', ['x', 'case', 'a_b'], [['/in/-.x.nii', '/in/--.nii', '/in/a:b.nii']]],
    ['one that is not too long', ['a'.repeat(200), 'b'], [[`/in/${'a'.repeat(201)}.nii`, '/in/b.nii']]],
  ])('have %s as their name', (_, names, groups) => {
    expect(namesOf(...groups)).toEqual(names);
  });

  test('have the labels of their paths, their files and the fault of one of these, and what is for all', () => {
    const [first, second] = [unit('/in/sub-01/ses-2/x.nii'), unit('/in/02/y.mhd')];
    const half = unit('/in/02/y.raw', { isHalf: true, headers: ['/in/02/y.mhd'] });
    const bad = unit('/gt/sub-03_b.nii', { fault: 'is empty' });
    const mask = unit('/m/sub-09_mask.nii');
    const cases = divideIntoCases(
      found({ inputs: [[first, second, half]], gt: [[unit('/gt/a.nii'), bad]], mask: [[mask]] }),
    );
    expect(cases.map(({ name, subject, session, fault }) => [name, subject, session, fault])).toEqual([
      ['x', '01', '2', null],
      ['y', '03', null, "'/gt/sub-03_b.nii' is empty"],
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
        ['a_T1', ['T1.nii']],
        ['b_T1', ['T1.nii']],
      ],
    ]);
  });

  test('of groups of other numbers are refused, also of one where the group is needed', () => {
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

  test('know the files of a volume, and whether one was not fetched', async () => {
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

test('cases that lack a file are named, thirty at most, with what to do about them', () => {
  const of = (count: number, name: (at: number) => string) =>
    Array.from({ length: count }, (_, at) => ({ ...unit(`/in/${name(at)}.nii`), name: `${name(at)}.nii` }));
  const group = (name: string, units: NamedUnit[]) => ({ field: fieldOf(name), number: 1, units });
  const lackingOf = (count: number) =>
    withoutIncomplete([
      group(
        'inputs',
        of(count + 2, (at) => `c${at}x`),
      ),
      group(
        'gt',
        of(2, (at) => `c${at}x`),
      ),
    ]).lacking[0];
  expect(lackingOf(30)).toMatch(
    /^30 of 32 cases have no file in --gt: '\/in\/c2x\.nii', .*, '\/in\/c31x\.nii'$/,
  );
  expect(lackingOf(32)).toMatch(/'\/in\/c31x\.nii' and 2 more$/);
  refuseIncomplete([], true);
  expect(() => refuseIncomplete(['one', 'two'], true)).toThrow(
    'one; two; add what is missing, or leave these out with --skip-incomplete',
  );
  expect(() => refuseIncomplete(['one'], false)).toThrow(/^one; add what is missing, or leave these out$/);
});
