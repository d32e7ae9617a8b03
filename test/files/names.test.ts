import { expect, test } from 'vitest';
import {
  differingParts,
  foldedName,
  freeName,
  isOfAnotherHome,
  isSafeName,
  Notes,
  windowsName,
} from '../../src/files/names.js';
import { plant, temporary } from '../support/temporary.js';

test.each([
  ['T1.nii', 'T1.nii'],
  ['T1:mask?.nii', 'T1_mask_.nii'],
  ['a<b>c"d|e*f\\g\u0001h\u001f', 'a_b_c_d_e_f_g_h_'],
  ['ends. .', 'ends___'],
  ['.hidden', '.hidden'],
  ['aux.nii.gz', '_aux.nii.gz'],
  ['NUL', '_NUL'],
  ['con .txt', '_con .txt'],
  ['com1', '_com1'],
  ['lpt³.log', '_lpt³.log'],
  ['conin$', '_conin$'],
  ['CONOUT$.x', '_CONOUT$.x'],
  ['auxiliary', 'auxiliary'],
  ['com', 'com'],
  ['my.aux', 'my.aux'],
])('The name %s becomes %s on Windows', (name, expected) => {
  expect(windowsName(name)).toBe(expected);
});

test.each<[string, string[], string]>([
  ['ct.nii.gz', [], 'ct.nii.gz'],
  ['ct.nii.gz', ['ct.nii.gz'], 'ct_1.nii.gz'],
  ['ct.nii.gz', ['ct.nii.gz', 'ct_1.nii.gz'], 'ct_2.nii.gz'],
  ['ct', ['ct'], 'ct_1'],
  // A dot in front is no suffix.
  ['.hidden', ['.hidden'], '.hidden_1'],
  ['x'.repeat(255), [], 'x'.repeat(255)],
  ['x'.repeat(256), [], 'x'.repeat(255)],
  [`${'x'.repeat(251)}.nii`, [`${'x'.repeat(251)}.nii`], `${'x'.repeat(249)}_1.nii`],
  // A character is not split: é has two bytes.
  [`${'é'.repeat(130)}.nii`, [], `${'é'.repeat(125)}.nii`],
  [`a.${'s'.repeat(100)}`, [], `a.${'s'.repeat(63)}`],
])('A file named %s gets a free name beside %j', (name, taken, expected) => {
  expect(freeName(name, new Map(), (each) => taken.includes(each))).toBe(expected);
});

test('Many files with the same name are numbered consecutively, and each number is tried once', () => {
  const counts = new Map<string, number>();
  const asked: string[] = [];
  const next = (name: string) => freeName(name, counts, (each) => asked.push(each) < 0);
  expect([next('a.nii'), next('a.nii'), next('b.nii'), next('a.nii')]).toEqual([
    'a.nii',
    'a_1.nii',
    'b.nii',
    'a_2.nii',
  ]);
  expect(asked).toEqual(['a.nii', 'a_1.nii', 'b.nii', 'a_2.nii']);
});

test.each<[string, boolean, boolean]>([
  ['a.nii', true, true],
  ['..a', true, true],
  ['', false, false],
  ['.', false, false],
  ['..', false, false],
  ['a/b', false, false],
  ['a\\b', false, false],
  ['a\u0000', false, false],
  ['a\u001fb', false, false],
  ['a\u007fb', false, false],
  ['x'.repeat(255), true, true],
  ['x'.repeat(256), false, false],
  ['é'.repeat(128), false, false],
  ['a:b', true, false],
  ['aux', true, false],
  ['a.', true, false],
])('The name %j is safe on Linux: %s; on Windows: %s', (name, onLinux, onWindows) => {
  expect([isSafeName(name, 'linux'), isSafeName(name, 'win32')]).toEqual([onLinux, onWindows]);
});

test('Names that some file systems treat as equal have the same key', () => {
  expect(foldedName('Ré.NII')).toBe(foldedName('re\u0301.nii'));
  expect(foldedName('a')).not.toBe(foldedName('b'));
});

test("The home of another user is distinguished from one's own and from a directory with that name", async () => {
  await using directory = await temporary();
  const given = ['~bob/scans', '~_b.o-b/x', '~/scans', '~bob', 'a/~bob/x', '~1/x', '/~bob/x'];
  expect(given.filter(isOfAnotherHome)).toEqual(['~bob/scans', '~_b.o-b/x']);
  await plant(directory.path, { '~bob/scans': '' });
  const before = process.cwd();
  process.chdir(directory.path);
  try {
    expect(isOfAnotherHome('~bob/scans')).toBe(false);
  } finally {
    process.chdir(before);
  }
});

test('Twenty notes are listed, and the others are counted', () => {
  const notes = new Notes();
  const sentences = Array.from({ length: 20 }, (_, index) => `note ${index}`);
  for (const each of sentences) notes.add(each);
  expect(notes.list()).toEqual(sentences);
  notes.add('one more');
  notes.add('another');
  expect(notes.list()).toEqual([...sentences, 'and 2 more']);
});

test.each<[string[], string[]]>([
  [
    ['sub-01_seg', 'sub-02_seg'],
    ['01', '02'],
  ],
  [
    ['case1', 'case12', 'case123'],
    ['1', '12', '123'],
  ],
  [
    ['x10', 'x20'],
    ['10', '20'],
  ],
  [
    ['t1b', 't1c'],
    ['b', 'c'],
  ],
  [
    ['a', 'b'],
    ['a', 'b'],
  ],
  [['only'], ['']],
])('The texts %j are distinguished by the parts %j, and numbers in them are not split', (texts, parts) => {
  expect(differingParts(texts)).toEqual(parts);
});
