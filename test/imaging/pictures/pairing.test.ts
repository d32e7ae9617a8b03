import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Affine } from '@remote-app/volumes';
import { describe, expect, test } from 'vitest';
import { hashFile } from '../../../src/files/index.js';
import {
  caseNameOf,
  foldersOf,
  recordedMaker,
  recordedMeanings,
  resultOf,
  ScanSearch,
} from '../../../src/imaging/matching/find-scan.js';
import { type Item, pair } from '../../../src/imaging/matching/pair.js';
import { plant } from '../../support/temporary.js';
import { volumeOf } from './phantom.js';
import { ownStudy } from './study.js';

const at = ownStudy();
const short = (each: string | null) => each && path.relative(at(''), each);

describe('the result that a file is part of', () => {
  test('The result that a file is part of is the directory above it with a record, a log or a zip, three levels up at most', async () => {
    await plant(at(''), {
      'a/Out/remote-app-record.json': '{}',
      'a/Out/x/y/f.nii': 'x',
      'a/Out/x/y/z/f.nii': 'x',
      'b/result.zip': 'x',
      'c/remote-app-log.txt': 'x',
      'd/f.nii': 'x',
    });
    expect(resultOf(at('a/Out/x/y/f.nii'))).toEqual({
      ...{
        record: at('a/Out/remote-app-record.json'),
        path: at('a/Out'),
        root: at('a'),
        isAmongOthers: false,
      },
    });
    expect([resultOf(at('a/Out/x/y/z/f.nii')), resultOf(at('d/f.nii'))]).toEqual([null, null]);
    expect(['b/f.nii', 'c/f.nii'].map((name) => resultOf(at(name))?.path)).toEqual(['b', 'c'].map(at));
  });

  test('The result that a file is part of is among others in BIDS, with the table of the cases above it', async () => {
    const name = 'out/sub-01/ses-1/anat/sub-01_desc-brain';
    const record = JSON.stringify({
      case: 'sub-01_ses-1',
      app: 'brain',
      finished_at: '2026',
      labels: { '1': { name: 'GM' } },
    });
    await plant(at(''), {
      [`${name}_record.json`]: record,
      [`${name}_mask.nii`]: 'x',
      'out/cases.csv': 'case\r\n',
      'out/sub-02/anat/sub-02_desc-brain_mask.nii': 'x',
      'other/sub-01_desc-brain_record.json': '{}',
      'other/sub-01_desc-brain_mask.nii': 'x',
    });
    const result = resultOf(at(`${name}_mask.nii`));
    expect(result).toEqual({
      ...{ record: at(`${name}_record.json`), path: at(name), root: at('out'), isAmongOthers: true },
    });
    expect(result && caseNameOf(result)).toBe('sub-01_ses-1');
    expect(recordedMaker(at(`${name}_record.json`))).toEqual({
      app: 'brain',
      app_version: null,
      finished_at: '2026',
    });
    const units = { inputs: null, outputs: null };
    expect(recordedMeanings(at(`${name}_record.json`))).toEqual({ labels: { '1': { name: 'GM' } }, units });
    expect([
      recordedMaker(null),
      recordedMaker(at('none')),
      recordedMeanings(null),
      recordedMeanings(at('none')),
    ]).toEqual([...[null, null, { labels: {}, units }, { labels: {}, units }]]);
    expect(resultOf(at('out/sub-02/anat/sub-02_desc-brain_mask.nii'))).toBeNull();
    const other = resultOf(at('other/sub-01_desc-brain_mask.nii'));
    // Its record names no case.
    expect([other?.root, other && caseNameOf(other)]).toEqual([at('other'), null]);
  });
});

describe('the scan of a result', () => {
  const named = (file: string) => ({
    ...{ stem: path.basename(file).replace(/\..*/, '').toLowerCase(), folders: foldersOf(file) },
  });
  const find = async (file: string, { only = null as readonly string[] | null, known = [file] } = {}) => {
    const search = new ScanSearch(known.map(at), only?.map(at) ?? null);
    const { paths, changed, isRecorded } = await search.find(named(at(file)), at(file));
    return [paths.map(short), isRecorded, changed.map(short)];
  };
  const record = async (directory: string, inputs: Readonly<Record<string, string>>, more: object = {}) => {
    const all = await Promise.all(
      Object.entries(inputs).map(async ([name, file]) => ({ name, ...(await hashFile(at(file))), ...more })),
    );
    await plant(at(''), { [`${directory}/remote-app-record.json`]: JSON.stringify({ inputs: all }) });
  };

  test('The scan of a result is what its record names, by its content, wherever it is below', async () => {
    await plant(at(''), {
      'a/c1.nii': 'one',
      'b/deep/er/c1.nii': 'two',
      'Out/m.nii': 'm',
      'here/c1.nii': 'six',
    });
    await record('Out', { 'c1.nii': 'b/deep/er/c1.nii' });
    expect(await find('Out/m.nii')).toEqual([['b/deep/er/c1.nii'], true, []]);
    // What has its name alone is of another content.
    writeFileSync(at('b/deep/er/c1.nii'), 'TWO');
    expect(await find('Out/m.nii')).toEqual([[], false, ['here/c1.nii', 'a/c1.nii', 'b/deep/er/c1.nii']]);
    expect(await find('Out/m.nii', { only: ['a/c1.nii'] })).toEqual([[], true, ['a/c1.nii']]);
    await record('Out', { 'c1.nii': 'here/c1.nii' });
    expect(await find('Out/m.nii')).toEqual([['here/c1.nii'], true, []]);
    // A volume that is known to be no scan is none.
    expect(await find('Out/m.nii', { known: ['Out/m.nii', 'here/c1.nii'] })).toEqual([
      ...[[], false, ['a/c1.nii', 'b/deep/er/c1.nii']],
    ]);
  });

  test('The scan of a result is that of several inputs whose name fits, of the first group without one, and no other field', async () => {
    await plant(at(''), { 'a/c1.nii': '1', 'a/c2.nii': '2', 'Out/c2_mask.nii': 'm', 'Out/x.nii': 'm' });
    await record('Out', { 'c1.nii': 'a/c1.nii', 'c2.nii': 'a/c2.nii' });
    expect(await find('Out/c2_mask.nii')).toEqual([['a/c2.nii'], true, []]);
    expect((await find('Out/x.nii'))[1]).toBe(false);
    await record('Out', { 'c1.nii': 'a/c1.nii' }, { group: 0 });
    expect(await find('Out/x.nii')).toEqual([['a/c1.nii'], true, []]);
    for (const more of [{ group: 1 }, { field: 'mask' }]) {
      await record('Out', { 'c1.nii': 'a/c1.nii' }, more);
      expect((await find('Out/x.nii'))[1]).toBe(false);
    }
  });

  test('The scan of a result is a directory, by one of its files', async () => {
    await plant(at(''), {
      'a/ct/1.dcm': 'one',
      'a/ct/2.dcm': 'two',
      'b/ct/1.dcm': 'xxx',
      'b/ct.nii': '',
      'Out/m.nii': 'm',
    });
    await record('Out', { 'ct/1.dcm': 'a/ct/1.dcm', 'ct/2.dcm': 'a/ct/2.dcm' });
    expect(await find('Out/m.nii')).toEqual([['a/ct'], true, []]);
  });

  test('The scan of a result is found by its name two levels down, but not among results, and in the tree of derivatives', async () => {
    await plant(at(''), {
      'Out/c1_seg.nii': 'm',
      'Out/result.zip': 'x',
      'scans/c1.nii': 'x',
      'scans/more/c2.nii': 'x',
      'scans/.c1.nii': 'x',
      'Out2/c1.nii': 'x',
      'Out2/result.zip': 'x',
      'Out/c2_seg.nii': 'm',
    });
    expect(await find('Out/c1_seg.nii')).toEqual([['scans/c1.nii'], false, []]);
    expect(await find('Out/c2_seg.nii')).toEqual([[], false, []]);
    const name = 'bids/derivatives/brain/sub-1/anat/sub-1_desc-brain';
    await plant(at(''), {
      [`${name}_record.json`]: '{}',
      [`${name}_mask.nii`]: 'm',
      'bids/derivatives/brain/cases.csv': 'case\r\n',
      'bids/sub-1/anat/sub-1_T1w.nii': 'x',
    });
    // What comes behind some thousand others is not found, and what comes before them is.
    await plant(at(''), { 'many/d/': '' });
    for (let file = 0; file < 2000; file += 1) writeFileSync(at(`many/d/${file}.txt`), '');
    await plant(at(''), { 'many/Out/a_seg.nii': 'm', 'many/Out/z_seg.nii': 'm', 'many/Out/result.zip': 'x' });
    await plant(at(''), { 'many/a.nii': 'x', 'many/zz/z.nii': 'x' });
    expect(await find('many/Out/a_seg.nii')).toEqual([['many/a.nii'], false, []]);
    expect((await find('many/Out/z_seg.nii'))[0]).not.toContain('many/zz/z.nii');
    // A record says which one it is.
    await record('many/Out', { 'z.nii': 'many/zz/z.nii' });
    expect(await find('many/Out/z_seg.nii')).toEqual([['many/zz/z.nii'], true, []]);
    const search = new ScanSearch([at(`${name}_mask.nii`)], null);
    writeFileSync(
      at(`${name}_record.json`),
      JSON.stringify({
        inputs: [{ name: 'sub-1_T1w.nii', ...(await hashFile(at('bids/sub-1/anat/sub-1_T1w.nii'))) }],
      }),
    );
    const { paths } = await search.find(named(at(`${name}_mask.nii`)), at(`${name}_mask.nii`));
    expect(paths.map(short)).toEqual(['bids/sub-1/anat/sub-1_T1w.nii']);
  });
});

describe('volumes that belong together', () => {
  const grid = (left: number): Affine => [
    [1, 0, 0, left],
    [0, 1, 0, 0],
    [0, 0, 1, 0],
  ];
  const item = (file: string, kind: 'scan' | 'mask' | 'map' = 'scan', left = 0): Item => {
    const name = path.basename(file).replace(/\..*/, '');
    return {
      ...{ name, stem: name.toLowerCase(), folders: foldersOf(at(file)) },
      file: volumeOf(new Uint8Array(1), [1, 1, 1], { path: at(file), affine: grid(left) }),
      ...{ isMask: kind === 'mask', isBinary: false, isOfResult: kind === 'map' },
    };
  };
  const paired = async (...items: readonly Item[]) =>
    (await pair(items, async () => [])).map(({ scan, masks, maps, notes }) => [
      scan?.name ?? null,
      masks.map(({ name }) => name).join(' '),
      maps.map(({ name }) => name).join(' '),
      ...notes,
    ]);

  test('Volumes that belong together are a scan with its masks and maps, and what fits no other', async () => {
    expect(
      await paired(
        item('in/a.nii'),
        item('in/b.nii'),
        item('o/a_seg.nii', 'mask'),
        item('o/b_map.nii', 'map'),
      ),
    ).toEqual([
      ['a', 'a_seg', ''],
      ['b', '', 'b_map'],
    ]);
    // One is left, and takes what is left.
    expect(
      await paired(item('in/a.nii'), item('in/b.nii'), item('o/a.nii', 'mask'), item('p/x.nii', 'mask', 9)),
    ).toEqual([
      ['a', 'a', ''],
      ['b', 'x', ''],
    ]);
    expect(await paired(item('p/x.nii', 'mask'), item('p/y.nii', 'mask'))).toEqual([
      [null, 'x', ''],
      [null, 'y', ''],
    ]);
  });

  test('Volumes that belong together are told apart by their grids, and not at all where these are the same', async () => {
    const three = [item('in/1/c.nii'), item('in/2/d.nii'), item('in/3/e.nii')];
    expect(await paired(...three, item('o/x.nii', 'mask'))).toEqual([
      ...['c', 'd', 'e'].map((name) => [name, '', '']),
      [
        ...[null, 'x', ''],
        "x fits '../in/1/c.nii', '../in/2/d.nii' and '../in/3/e.nii' equally well, and is drawn on none of them",
      ],
    ]);
    expect(await paired(item('in/c.nii', 'scan', 5), item('in/d.nii'), item('o/x.nii', 'mask', 5))).toEqual([
      ['c', 'x', ''],
      ['d', '', ''],
    ]);
    // Sequences of one examination show the same.
    const two = [item('s/p1/t1.nii'), item('s/p1/t2.nii'), item('s/p2/t1.nii', 'scan', 9)];
    expect(await paired(...two, item('o/p1/x.nii', 'mask'))).toEqual([
      ['t1', 'x', '', 'x fits t2 as well'],
      ['t2', '', ''],
      ['t1', '', ''],
    ]);
  });

  test('Volumes that belong together are maps of maps, of the scan in the end', async () => {
    const items = [item('in/a.nii'), item('in/a_mean.nii'), item('in/a_mean_std.nii'), item('in/b.nii')];
    expect(await paired(...items)).toEqual([
      ['a', '', 'a_mean a_mean_std'],
      ['b', '', ''],
    ]);
    expect(await paired(item('in/a.nii'), item('in/b.nii'), item('o/other.nii', 'map'))).toEqual([
      ...[
        ['a', '', ''],
        ['b', '', ''],
        ['other', '', ''],
      ],
    ]);
    expect(await paired(item('in/a.nii'), item('o/other.nii', 'map'))).toEqual([['a', '', 'other']]);
    // A scan whose name goes on from that of its result is not made from it.
    expect(await paired(item('in/a_t1w.nii'), item('o/a.nii', 'map'))).toEqual([['a_t1w', '', 'a']]);
  });

  test('Volumes that belong together say how a scan was found that nobody named, if it is one volume and no mask', async () => {
    await plant(at(''), { 'scans/c1.nii': 'x', 'Out/result.zip': 'x' });
    const opened: (string | null)[] = [];
    const found = async (...volumes: readonly Item[]) =>
      (
        await pair([item('Out/c1_seg.nii', 'mask')], async (target) => {
          opened.push(short(target));
          return volumes;
        })
      ).map(({ scan, notes, recorded }) => [scan?.name ?? null, notes, recorded]);
    const scan = item('scans/c1.nii');
    const note = 'The scan is ../scans/c1.nii, found by its name';
    expect(await found(scan)).toEqual([['c1', [note], null]]);
    expect(opened).toEqual(['scans/c1.nii']);
    expect(await found(scan, scan)).toEqual([[null, [], null]]);
    expect(await found(item('scans/c1.nii', 'mask'))).toEqual([[null, [], null]]);
    expect(await found()).toEqual([[null, [], null]]);
    await plant(at(''), {
      'Out/remote-app-record.json': JSON.stringify({
        inputs: [{ name: 'c1.nii', ...(await hashFile(at('scans/c1.nii'))) }],
      }),
    });
    const byRecord = 'The scan is ../scans/c1.nii, found by the record';
    expect(await found(scan)).toEqual([['c1', [byRecord], byRecord]]);
    // Said once for several results.
    const both = [item('Out/c1_seg.nii', 'mask'), item('Out/c1_other.nii', 'mask')];
    const [drawn, ...more] = await pair(both, async () => [scan]);
    expect([drawn?.masks.length, drawn?.notes, more]).toEqual([2, [byRecord], []]);
  });
});
