import { expect, test } from 'vitest';
import { ScanMatcher } from '../../../src/imaging/matching/match.js';

const named = (stem: string, ...folders: string[]) => ({ stem, folders });

test('A result fits the scans that have all the telling words of its folders, and no other', () => {
  const first = named('t1', 'sub-01', 'ses-1');
  const second = named('t1', 'sub-02', 'ses-2');
  const matcher = new ScanMatcher([first, second]);
  expect(matcher.fit(named('mask', 'sub-01', 'ses-1'))).toEqual({ scans: [first], isSaid: true });
  expect(matcher.fit(named('mask', 'sub-01', 'ses-2'))).toEqual({ scans: [], isSaid: true });
  expect(matcher.fit(named('mask', 'out')).isSaid).toBe(false);
  // Names say it too, where folders do not.
  const together = [named('sub-01_t1', 'in'), named('sub-02_t1', 'in')] as const;
  const fit = new ScanMatcher(together).fit(named('lesions_sub-02', 'out'));
  expect(fit).toEqual({ scans: [together[1]], isSaid: true });
  // A mask of another one in the folder of the first.
  expect(matcher.fit(named('sub-02_mask', 'sub-01'))).toEqual({ scans: [], isSaid: true });
});
