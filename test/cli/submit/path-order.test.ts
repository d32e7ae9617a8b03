import { describe, expect, test } from 'vitest';
import type { OperationName } from '../../../src/contract/operations.js';
import { plant, temporary } from '../../support/temporary.js';
import { request } from '../support/parse.js';

/** The groups of each field that a command line gives. */
async function groups(operation: OperationName, line: string): Promise<unknown> {
  const { files } = await request(operation, ...line.split(' '));
  return Object.fromEntries(files.map((each) => [each.field.name, each.groups]));
}

describe('a path without a flag', () => {
  test.each([
    ['infer', 'scans -i flair', { inputs: [['scans'], ['flair']] }],
    [
      'infer',
      'a.nii b.nii -i c.nii,d.nii -i e.nii',
      { inputs: [['a.nii', 'b.nii'], ['c.nii', 'd.nii'], ['e.nii']] },
    ],
    ['infer', '--gpu 0 scans --tta 2 -i flair --quiet', { inputs: [['scans'], ['flair']] }],
    [
      'evaluate',
      'scans --gt labels --mask body',
      { inputs: [['scans']], gt: [['labels']], mask: [['body']] },
    ],
    ['evaluate', '--gt labels --cpu 1 scans', { gt: [['labels']], inputs: [['scans']] }],
    ['evaluate', '--gt ./labels ./preds', { gt: [['./labels']], inputs: [['./preds']] }],
    ['evaluate', '--gt d/labels d/preds', { gt: [['d/labels']], inputs: [['d/preds']] }],
    [
      'evaluate',
      '--mask a.mha,b.mha x y --gt g',
      { mask: [['a.mha', 'b.mha']], inputs: [['x', 'y']], gt: [['g']] },
    ],
    [
      'evaluate',
      '--mask a.mha,b.mha x.mha y.mha --gt g',
      { mask: [['a.mha', 'b.mha']], inputs: [['x.mha', 'y.mha']], gt: [['g']] },
    ],
    ['evaluate', '--gt labels/1.nii preds/1.nii', { gt: [['labels/1.nii']], inputs: [['preds/1.nii']] }],
    ['evaluate', '--gt 1.nii.gz 1.mha', { gt: [['1.nii.gz']], inputs: [['1.mha']] }],
    ['evaluate', '--gt labels.nii preds', { gt: [['labels.nii']], inputs: [['preds']] }],
    ['infer', '-i t1 --gpu 0 flair', { inputs: [['flair'], ['t1']] }],
    ['infer', 'a.nii -i b.nii --tta 2 c.nii', { inputs: [['a.nii', 'c.nii'], ['b.nii']] }],
    ['evaluate', '-i t1 --gt g --cpu 1 flair', { inputs: [['flair'], ['t1']], gt: [['g']] }],
  ] as const)(
    'A path without a flag keeps its group unless a shell may have expanded it: %s %s',
    async (operation, line, expected) => {
      expect(await groups(operation, line)).toEqual(expected);
    },
  );

  test.each([
    ['infer', '-i t1.zarr t2.zarr', "'t2.zarr' follows '-i t1.zarr'", "-i '*.zarr'", 'write -i before each'],
    ['infer', '--inputs t1 flair', "'flair' follows '-i t1'", "-i '*'"],
    ['evaluate', '--gt case1 case2', "'case2' follows '--gt case1'", 'write an input before --gt'],
    ['evaluate', '--gt ana bob cat', "'bob' and 1 more follow", 'write an input before --gt'],
    ['evaluate', 'preds --gt ana bob', "'bob' follows", 'write an input before --gt'],
    ['infer', '-i s/a.nii.gz s/b.nii.gz', "'s/b.nii.gz' follows", "-i 's/*.nii.gz'"],
    ['infer', 's -i a.nii b.nii', "'b.nii' follows '-i a.nii'", "-i '*.nii'"],
    [
      'pipeline',
      '--gt g/1.nii g/2.nii p',
      "'g/2.nii' and 1 more follow",
      "--gt '*'",
      'write an input before --gt',
    ],
    ['evaluate', 'p --mask m/1.nii m/2.nii --gt g', "'m/2.nii' follows '--mask m/1.nii'", "--mask 'm/*.nii'"],
    ['infer', '-i s/1 s/2 s/3 s/4', "'s/2' and 2 more follow '-i s/1'", "-i 's/*'", 'write -i before each'],
    ['infer', '-i s/a.json s/a.nii s/b.json', "'s/a.nii' and 1 more follow", "-i 's/*'"],
  ] as const)(
    'A path without a flag is refused with the right spelling if a shell may have expanded a pattern: %s %s',
    async (operation, line, ...said) => {
      const refused = groups(operation, line);
      for (const words of said) await expect(refused).rejects.toThrow(words);
      await expect(refused).rejects.toMatchObject({ exitCode: 2 });
    },
  );

  test('A directory of another name keeps its group even with dots, and files with commas in their names may come from a pattern', async () => {
    await using place = await temporary();
    const at = (name: string) => `${place.path}/${name}`;
    await plant(place.path, { 'v1.labels/': '', 'v1.preds/': '', '1.2.840.1/': '', '1.2.840.2/': '' });
    await plant(place.path, { 'Doe, J.nii': '1', 'Roe, J.nii': '2' });
    const { files } = await request('evaluate', '--gt', at('v1.labels'), at('v1.preds'));
    expect(files.map((each) => each.groups)).toEqual([[[at('v1.preds')]], [[at('v1.labels')]]]);
    for (const names of [
      ['1.2.840.1', '1.2.840.2'],
      ['Doe, J.nii', 'Roe, J.nii'],
    ]) {
      await expect(request('infer', '-i', ...names.map(at))).rejects.toThrow(`${names[1]}' follows`);
    }
  });
});
