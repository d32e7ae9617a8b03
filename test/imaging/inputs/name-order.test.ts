import { expect, test } from 'vitest';
import { byName } from '../../../src/files/index.js';

test.each([
  ['numbers count as numbers', ['case1_gt.nii', 'case2_gt.nii', 'case10_gt.nii']],
  ['so the endings do not matter', ['case1.nii', 'case2.nii', 'case10.nii']],
  ['numbers are of any length', ['s9', `s${'9'.repeat(400)}`, `s1${'0'.repeat(400)}`]],
  ['zeros before a number do not count', ['a1.nii', 'a01b.nii', 'a2.nii', 'a010.nii']],
  ['unless nothing else differs', ['a001', 'a01', 'a1']],
  [
    'all else counts by code units, in any locale',
    ['B.nii', 'a-b.nii', 'a.nii', 'a_b.nii', 'b.nii', 'ä.nii'],
  ],
  ['a name stands before those that begin with it', ['', 'a', 'a1', 'a1a', 'ab']],
])('%s', (_, names) => {
  for (const shuffled of [names.toReversed(), [...names.slice(1), ...names.slice(0, 1)]]) {
    expect(shuffled.sort(byName)).toEqual(names);
  }
});

test('The order is total: no two names are equal, and no three contradict each other', () => {
  const parts = ['', '0', '1', '01', '10', 'a', '.', '_'];
  const names = [...new Set(parts.flatMap((a) => parts.flatMap((b) => parts.map((c) => a + b + c))))].sort(
    byName,
  );
  for (const [at, name] of names.entries()) {
    expect(names.slice(at + 1).every((later) => byName(name, later) < 0 && byName(later, name) > 0)).toBe(
      true,
    );
  }
});
