import { describe, expect, test } from 'vitest';
import type { OperationName } from '../../../src/contract/operations.js';
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
  ] as const)('keeps its group where that is clear: %s %s', async (operation, line, expected) => {
    expect(await groups(operation, line)).toEqual(expected);
  });

  test.each([
    ['infer', '--inputs t1 flair', "'flair' follows '-i t1'", '-i t1,flair', '-i t1 -i flair'],
    [
      'infer',
      '-i s/a.nii.gz s/b.nii.gz',
      "'s/b.nii.gz' follows",
      "-i 's/*.nii.gz'",
      '-i s/a.nii.gz -i s/b.nii.gz',
    ],
    ['infer', 's -i a.nii b.nii', "'b.nii' follows '-i a.nii'", "-i '*.nii'", '-i a.nii -i b.nii'],
    [
      'pipeline',
      '--gt g/1.nii g/2.nii p',
      "'g/2.nii' and 1 more follow",
      "--gt '*'",
      'an input is named before --gt',
    ],
    [
      'evaluate',
      'p --mask m/1.nii m/2.nii --gt g',
      "'m/2.nii' follows '--mask m/1.nii'",
      "--mask 'm/*.nii'",
      '--mask m/1.nii,m/2.nii',
    ],
    ['infer', '-i s/1 s/2 s/3 s/4', "'s/2' and 2 more follow '-i s/1'", "-i 's/*'", 'write -i before each'],
    ['infer', '-i a b,c.nii', "'b,c.nii' follows", "(-i '*')", 'write -i before each'],
    [
      'evaluate',
      '-i t1 --gpu 0 flair',
      "'flair' stands behind -i",
      'before the first -i',
      '-i flair for another group',
    ],
    ['evaluate', '-i t1 --gt g --cpu 1 flair', "'flair' stands behind -i", 'before the first -i', '-i flair'],
  ] as const)(
    'is refused if its group is not clear, with the right spelling: %s %s',
    async (operation, line, ...said) => {
      const refused = groups(operation, line);
      for (const words of said) await expect(refused).rejects.toThrow(words);
      await expect(refused).rejects.toMatchObject({ exitCode: 2 });
    },
  );

  test('is quoted for the shell, with spaces and quotation marks', async () => {
    const refused = request('infer', '-i', 'a b.nii', "it's.nii");
    await expect(refused).rejects.toThrow(`-i 'a b.nii' -i 'it'\\''s.nii'`);
  });
});
