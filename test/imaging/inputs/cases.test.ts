import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { operationOf } from '../../../src/contract/index.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import { plant, temporary } from '../../support/temporary.js';

/** The cases of files that are planted, in groups of paths by the names of fields. */
async function casesOf(names: readonly string[], groups: Readonly<Record<string, readonly string[]>>) {
  await using root = await temporary();
  await plant(root.path, Object.fromEntries(names.map((name) => [name, 'x'])));
  const { fields } = operationOf('evaluate');
  const files = fields.flatMap((field) => {
    const given = groups[field.name]?.map((each) => path.join(root.path, each));
    return given ? [{ field, groups: [given] }] : [];
  });
  try {
    return (await findFiles({ files, archive: null }, { isEach: true })).cases;
  } catch (error) {
    throw new Error((error as Error).message.replaceAll(root.path, ''));
  }
}

describe('cases', () => {
  test.each([
    ['their path below what was named', 'A/t1', 'in/A/t1.nii.gz'],
    [
      'their entities, where name and folders agree',
      'sub-1_ses-2_T1w',
      'in/sub-1/ses-2/anat/sub-1_ses-2_T1w.nii',
    ],
    ['their path, where they do not', 'sub-2/anat/sub-1_T1w', 'in/sub-2/anat/sub-1_T1w.nii'],
    ['parts that directories can have', 'x/case/a_b', 'in/-.x/--/a:b.nii'],
    ['parts that are not too long', 'a'.repeat(200), `in/${'a'.repeat(201)}.nii`],
  ])('Cases are named by %s', async (_, name, file) => {
    expect((await casesOf([file], { inputs: ['in'] })).map((each) => each.name)).toEqual([name]);
  });

  test.each([
    [
      ['in/x.nii', 'in/x.mha'],
      "'/in/x.mha' and '/in/x.nii' would both be the case 'x': name the directory above both",
    ],
    [['in/A.nii', 'in/a/t1.nii'], "The result of '/in/a/t1.nii' would lie in that of '/in/A.nii'"],
  ])('Cases of %j are refused because their results would collide', async (names, why) => {
    await expect(casesOf(names, { inputs: ['in'] })).rejects.toThrow(why);
  });

  test('Cases have the labels of their paths and of their ground truth, and a mask that is for all', async () => {
    const names = [
      'in/sub-01/ses-2/x.nii',
      'in/sub-02/y.nii',
      'gt/sub-01/x.nii',
      'gt/sub-02/ses-3/y.nii',
      'mask.nii',
    ];
    const cases = await casesOf(names, { inputs: ['in'], gt: ['gt'], mask: ['mask.nii'] });
    expect(cases.map(({ name, subject, session }) => [name, subject, session])).toEqual([
      ['sub-01/ses-2/x', '01', '2'],
      ['sub-02/y', '02', '3'],
    ]);
    const files = cases.map(({ files: { volumes } }) =>
      volumes.flatMap(({ groups }) => groups.flat().map((unit) => path.basename(unit.path))),
    );
    expect(files).toEqual([
      ['x.nii', 'x.nii', 'mask.nii'],
      ['y.nii', 'y.nii', 'mask.nii'],
    ]);
  });
});
