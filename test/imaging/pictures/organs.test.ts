import path from 'node:path';
import { expect, test } from 'vitest';
import { organGroups } from '../../../src/imaging/matching/organs.js';
import { volumeOf } from './phantom.js';

const named = (name: string, folder = 'a', width = 2) => ({
  name,
  file: volumeOf(new Uint8Array(width), [width, 1, 1], { path: path.join(folder, `${name}.nii`) }),
});

/** The names of the masks of each group, with what stands in front of them. */
const grouped = (names: readonly (string | ReturnType<typeof named>)[], known?: readonly string[]) =>
  organGroups(
    names.map((each) => (typeof each === 'string' ? named(each) : each)),
    known,
  ).map(({ masks, prefix }) => [prefix, masks.map(({ name }) => name)]);

test('Masks with the same folder, grid and patient are organs of one case', () => {
  expect(grouped(['liver', 'kidney_left', 'rib_left_12'])).toEqual([
    ['', ['liver', 'kidney_left', 'rib_left_12']],
  ]);
  expect(grouped(['p1_liver', 'p1_left_kidney', 'p2-liver', 'p2-spleen'])).toEqual([
    ['p1', ['p1_liver', 'p1_left_kidney']],
    ['p2', ['p2-liver', 'p2-spleen']],
  ]);
  expect(grouped(['left_kidney', 'right upper lung', 'spleen'])).toEqual([
    ['', ['left_kidney', 'right upper lung', 'spleen']],
  ]);
  expect(grouped(['liver', named('spleen', 'b'), named('heart', 'a', 3)])).toEqual([]);
  expect(grouped(['p1_rib3', 'p1_upper_left_rib4'])).toEqual([['p1', ['p1_rib3', 'p1_upper_left_rib4']]]);
  expect(grouped(['liver'])).toEqual([]);
  // Two masks of one organ are not two organs.
  expect(grouped(['liver_rater1', 'liver_rater2'])).toEqual([]);
  expect(grouped(['liver_fold_0', 'liver_seg'])).toEqual([]);
  expect(grouped(['liver_pred', 'spleen_pred'])).toEqual([['', ['liver_pred', 'spleen_pred']]]);
  // Names of the app's labels, whatever words they have.
  expect(grouped(['Zone one', 'zone_two'], ['zone one', 'Zone-Two'])).toEqual([
    ['', ['Zone one', 'zone_two']],
  ]);
  expect(grouped(['zone_one', 'zone_two'])).toEqual([]);
});

test('A mask that names no organ is included if nearly all others name one', () => {
  expect(grouped(['liver', 'spleen', 'other'])).toEqual([['', ['liver', 'spleen', 'other']]]);
  expect(grouped(['liver', 'spleen', 'one', 'two'])).toEqual([['', ['liver', 'spleen']]]);
  expect(grouped(['liver', 'spleen', 'segmentation'])).toEqual([['', ['liver', 'spleen']]]);
  expect(grouped(['liver', 'spleen', named('other', 'a', 3)])).toEqual([['', ['liver', 'spleen']]]);
  expect(grouped(['p1_liver', 'p1_spleen', 'other'])).toEqual([['p1', ['p1_liver', 'p1_spleen']]]);
  expect(grouped(['liver', 'spleen', named('other', 'b')])).toEqual([['', ['liver', 'spleen']]]);
});
