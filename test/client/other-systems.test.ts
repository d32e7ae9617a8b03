import path from 'node:path';
import { expect, test } from 'vitest';
import { typedParts } from '../../src/client/case-names.js';
import { matchesOf, splitPattern } from '../../src/imaging/inputs/glob.js';
import { Selector } from '../../src/imaging/inputs/selection.js';
import { imitate } from '../support/platform.js';
import { plant, temporary } from '../support/temporary.js';

test.each([
  ['C:\\scans\\A\\t1.nii', ['scans', 'A', 't1.nii']],
  ['D:t1.nii', ['t1.nii']],
  ['\\\\server\\share\\A\\t1.nii', ['A', 't1.nii']],
  ['..\\A/./t1.nii', ['A', 't1.nii']],
])('The case of %s on Windows has the same name as elsewhere, without a drive', (typed, parts) => {
  expect(typedParts(typed, path.win32)).toEqual(parts);
  expect(typedParts(`/${parts.join('/')}`, path.posix)).toEqual(parts);
});

test('A pattern with backslashes is matched on Windows in the directory that it begins with', async () => {
  await using root = await temporary();
  await plant(root.path, { 'A/t1.nii': '1', 'B/t1.nii': '2' });
  const pattern = `${root.path}/*/t1.nii`.replaceAll('/', '\\');
  using _ = imitate('win32');
  expect(splitPattern(pattern)).toEqual({ directory: root.path, rest: '*/t1.nii' });
  expect(await matchesOf(pattern)).toEqual(['A', 'B'].map((each) => path.join(root.path, each, 't1.nii')));
});

test.each(['in/sub-01/*', 'in\\sub-01\\*', 'sub-01'])(
  'Files that --exclude %s matches are not sent on Windows either, where paths have backslashes',
  (pattern) => {
    using _ = imitate('win32');
    const selector = new Selector({ exclude: [pattern] });
    expect(selector.keeps('in\\sub-01\\t1.nii')).toBe(false);
    expect(selector.keeps('in\\sub-02\\t1.nii')).toBe(true);
  },
);

test('A pattern with a drive starts at the root of that drive, not in its current directory', async () => {
  await using root = await temporary();
  await plant(root.path, { 'C:/A/t1.nii': '1' });
  const before = process.cwd();
  process.chdir(root.path);
  try {
    expect(splitPattern('C:/*.nii')).toEqual({ directory: 'C:/', rest: '*.nii' });
  } finally {
    process.chdir(before);
  }
});
