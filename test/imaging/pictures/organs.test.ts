import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { VolumeFile } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { nameInGroup, organGroups, organKey, organsOf } from '../../../src/imaging/matching/organs.js';
import type { Draft } from '../../../src/imaging/matching/pair.js';
import type { ShownCase } from '../../../src/imaging/pictures/shown-case.js';
import { rowsOf, withRows } from '../../../src/imaging/pictures/table-rows.js';
import { temporary } from '../../support/temporary.js';

const affine = [
  [1, 0, 0, 0],
  [0, 1, 0, 0],
  [0, 0, 1, 0],
] as const;

/** A mask of these voxels, two in each of its slices. */
const maskOf = (file: string, values: readonly number[] = [0, 0, 0, 0], width = 2): VolumeFile => ({
  ...{ path: file, format: 'NIfTI', size: [width, 1, 2], affine, components: 1, frames: 1 },
  ...{ hasOrientation: true, modality: null, labels: null },
  async *slices({ only = [0, 1] } = {}) {
    for (const k of only) yield { k, values: Float32Array.from(values.slice(2 * k, 2 * k + 2)) };
  },
});

const named = (name: string, folder = 'a', width = 2) => ({
  name,
  file: maskOf(path.join(folder, `${name}.nii`), undefined, width),
});

/** The names of the masks of each group, with what stands in front of them. */
const grouped = (names: readonly (string | ReturnType<typeof named>)[], known?: readonly string[]) =>
  organGroups(
    names.map((each) => (typeof each === 'string' ? named(each) : each)),
    known,
  ).map(({ masks, prefix }) => [prefix, masks.map(({ name }) => name)]);

test('Masks of one folder, grid and patient are organs together', () => {
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

test('A mask that names no organ belongs to them where nearly all others do', () => {
  expect(grouped(['liver', 'spleen', 'other'])).toEqual([['', ['liver', 'spleen', 'other']]]);
  expect(grouped(['liver', 'spleen', 'one', 'two'])).toEqual([['', ['liver', 'spleen']]]);
  expect(grouped(['liver', 'spleen', 'segmentation'])).toEqual([['', ['liver', 'spleen']]]);
  expect(grouped(['liver', 'spleen', named('other', 'a', 3)])).toEqual([['', ['liver', 'spleen']]]);
  expect(grouped(['p1_liver', 'p1_spleen', 'other'])).toEqual([['p1', ['p1_liver', 'p1_spleen']]]);
  expect(grouped(['liver', 'spleen', named('other', 'b')])).toEqual([['', ['liver', 'spleen']]]);
});

test('Organs are one segmentation, whose labels are in the order of their names', async () => {
  const masks = [
    { name: 'p1_spleen', file: maskOf('a/p1_spleen.nii', [0, 5, 1, 0]) },
    { name: 'p1_liver', file: maskOf('a/p1_liver.nii', [1, 1, 0, 0]) },
  ];
  const organs = organsOf({ masks, prefix: 'p1' });
  expect([organs.path, organs.labels]).toEqual([
    'a',
    [
      { value: 1, name: 'liver', colour: null },
      { value: 2, name: 'spleen', colour: null },
    ],
  ]);
  const read = async (slices: AsyncIterable<{ k: number; values: ArrayLike<number> }>) => {
    const all: number[][] = [];
    for await (const { k, values } of slices) all.push([k, ...Array.from(values)]);
    return all;
  };
  // The last one is drawn where they overlap; layers have each whole.
  expect(await read(organs.slices())).toEqual([
    [0, 1, 2],
    [1, 2, 0],
  ]);
  expect(await read(organs.slices({ only: [1] }))).toEqual([[1, 2, 0]]);
  expect(organs.layers && (await read(organs.layers()))).toEqual([
    [0, 1, 1],
    [1, 0, 0],
    [0, 0, 2],
    [1, 2, 0],
  ]);
  // What reads no further leaves no file open.
  let closed = 0;
  const watched = masks.map(({ name, file }) => ({
    name,
    file: {
      ...file,
      async *slices() {
        try {
          yield* file.slices();
        } finally {
          closed += 1;
        }
      },
    },
  }));
  for await (const _ of organsOf({ masks: watched, prefix: 'p1' }).slices()) break;
  expect(closed).toBe(2);
  // More than a byte can tell apart.
  const many = Array.from({ length: 256 }, (_, at) => ({
    name: `rib_${String(at).padStart(3, '0')}`,
    file: maskOf('a/rib.nii', at === 255 ? [0, 1, 0, 0] : [0, 0, 0, 0]),
  }));
  expect(await read(organsOf({ masks: many, prefix: '' }).slices({ only: [0] }))).toEqual([[0, 0, 256]]);
  await expect(read(organs.slices({ frame: 1 }))).rejects.toThrow('a holds one segmentation.');
  expect(nameInGroup('p1 - left kidney', 'p1')).toBe('left kidney');
  expect(organKey('Kidney_left')).toBe(organKey('kidney-LEFT'));
});

const caseOf = (name: string, notes: readonly string[] = []): ShownCase => ({
  ...{ name, scan: null, masks: [], maps: [], notes, recorded: null, status: null },
});

test('Cases have what their tables say of them, and those without a volume are there too', async () => {
  await using directory = await temporary();
  const [one, two] = [path.join(directory.path, 'one'), path.join(directory.path, 'two')];
  const table = (...rows: readonly string[]) => ['case,status,reason', ...rows, ''].join('\r\n');
  for (const [place, text] of [
    [one, table('a,done,', 'B,failed,out of memory', 'c,waiting,', String.raw`x\x09y,done,`)],
    [two, table('a,edited,somebody has changed it', 'd,failed,', 'e,done,')],
  ] as const) {
    mkdirSync(place);
    writeFileSync(path.join(place, 'cases.csv'), text);
  }
  const rows = rowsOf([directory.path, one, path.join(one, 'cases.csv')]);
  expect(rows.map(({ name, table: place }) => [name, path.basename(place)])).toEqual([
    ...[
      ['a', 'one'],
      ['B', 'one'],
      ['c', 'one'],
      [String.raw`x\x09y`, 'one'],
      ['a', 'two'],
      ['d', 'two'],
      ['e', 'two'],
    ],
  ]);
  const draft = (...inTables: Draft['inTables']) => ({ inTables }) as Draft;
  const cases = [caseOf('a', ['found']), caseOf('b'), caseOf('other'), caseOf('B'), caseOf('x\ty')];
  const drafts = [draft({ table: two, name: 'a' }), ...Array.from({ length: 4 }, () => draft())];
  const shown = withRows(cases, drafts, rows).map(({ name, status, notes }) => [name, status, ...notes]);
  expect(shown).toEqual([
    ['B', 'failed', 'It failed: out of memory'],
    ['B', null],
    ['a', 'edited', 'somebody has changed it', 'found'],
    ['a', 'done', 'Its result has no volume that can be drawn'],
    ['c', 'waiting', 'It is not computed yet'],
    ['d', 'failed', 'It failed'],
    ['e', 'done', 'Its result has no volume that can be drawn'],
    ['other', null],
    [String.raw`x\x09y`, 'done'],
  ]);
  expect(withRows(cases, drafts, [])).toEqual(cases);
});
