import { appendFile, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Affine, writeNifti } from '@remote-app/volumes';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { hashFile } from '../../../src/files/index.js';
import { findCasesToShow } from '../../../src/imaging/pictures/cases.js';
import { straight } from '../../support/affine.js';
import { recordText } from '../../support/record-facts.js';
import { plant, temporary } from '../../support/temporary.js';

/** What a volume of a test holds. */
type Kind = 'scan' | 'bytes' | 'faint' | 'mask' | 'empty' | 'map';

const side = 24;

/** Voxels as apps and scanners write them: noise, a ball of labels, nothing, fractions. */
function dataOf(kind: Kind) {
  const inBall = (at: number) => {
    const [x, y, z] = [at % side, Math.floor(at / side) % side, Math.floor(at / side / side)];
    return (x - 12) ** 2 + (y - 12) ** 2 + (z - 12) ** 2 < 64;
  };
  const noise = (at: number, most: number) => (at * 2654435761) % most;
  const count = side ** 3;
  const fill = <T extends Uint8Array | Int16Array | Float32Array>(
    to: T,
    value: (at: number) => number,
  ): T => {
    for (let at = 0; at < count; at += 1) to[at] = value(at);
    return to;
  };
  if (kind === 'scan') return fill(new Int16Array(count), (at) => noise(at, 1400));
  if (kind === 'bytes') return fill(new Uint8Array(count), (at) => (inBall(at) ? 150 + noise(at, 60) : 0));
  // The first slices, and the surroundings of the ball, are air with faint noise: mostly 1, sometimes 2.
  if (kind === 'faint')
    return fill(new Uint8Array(count), (at) => (inBall(at) ? 40 + noise(at, 180) : noise(at, 8) > 6 ? 2 : 1));
  if (kind === 'map') return fill(new Float32Array(count), (at) => noise(at, 1000) / 1000);
  return fill(new Uint8Array(count), (at) => (kind === 'mask' && inBall(at) ? (at % side < 12 ? 1 : 2) : 0));
}

const affine = (left: number): Affine => straight([1, 1, 1], [left, 0, 0]);

describe('cases', () => {
  let root: Awaited<ReturnType<typeof temporary>>;
  beforeEach(async () => {
    root = await temporary();
    await mkdir(at(''));
    vi.spyOn(process, 'cwd').mockReturnValue(at(''));
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await root[Symbol.asyncDispose]();
  });

  /** Scans are also looked for in the directory above, which is only theirs. */
  const at = (name: string) => path.join(root.path, 'study', name);

  /** Writes volumes; a number after the kind is where they lie. */
  async function write(volumes: Readonly<Record<string, Kind | `${Kind} ${number}`>>): Promise<void> {
    for (const [name, what] of Object.entries(volumes)) {
      const [kind = 'scan', left = 0] = what.split(' ') as [Kind, string];
      await mkdir(path.dirname(at(name)), { recursive: true });
      await writeNifti(at(name), {
        size: [side, side, side],
        affine: affine(Number(left)),
        data: dataOf(kind),
      });
    }
  }

  /** The cases of paths, with paths relative to the root. */
  async function casesOf(...paths: string[]) {
    const { cases } = await findCasesToShow(paths.map(at));
    const relative = (file: { path: string } | null) => file && path.relative(at(''), file.path);
    return cases.map(({ name, scan, masks, maps, notes }) => ({
      name,
      scan: relative(scan),
      mask: relative(masks[0]?.file ?? null),
      ...(masks.length > 1 ? { others: masks.slice(1).map(({ file }) => relative(file)) } : {}),
      ...(maps.length > 0 ? { maps: maps.map(({ file }) => relative(file)) } : {}),
      ...(notes.length > 0 ? { notes } : {}),
    }));
  }

  test.each([[['scan.nii.gz', 'mask.nii.gz']], [['mask.nii.gz', 'scan.nii.gz']], [['.']]])(
    'A scan and a mask are one case, whatever they are called: %j',
    async (paths) => {
      await write({ 'scan.nii.gz': 'scan', 'mask.nii.gz': 'mask' });
      expect(await casesOf(...paths)).toEqual([{ name: 'scan', scan: 'scan.nii.gz', mask: 'mask.nii.gz' }]);
    },
  );

  test('A mask on another grid goes with the only scan that was named', async () => {
    await write({ 'scan.nii': 'scan', 'mask.nii': 'mask 40' });
    expect(await casesOf('scan.nii', 'mask.nii')).toEqual([
      { name: 'scan', scan: 'scan.nii', mask: 'mask.nii' },
    ]);
  });

  test('An 8-bit image is a scan, and an empty segmentation is a mask', async () => {
    await write({ 'a.nii': 'bytes', 'b.nii': 'empty' });
    expect(await casesOf('b.nii', 'a.nii')).toEqual([{ name: 'a', scan: 'a.nii', mask: 'b.nii' }]);
  });

  test('A scan with faint noise in its air is still a scan', async () => {
    await write({ 'a_T1w.nii': 'faint', 'a_mask.nii': 'mask' });
    expect(await casesOf('.')).toEqual([{ name: 'a_T1w', scan: 'a_T1w.nii', mask: 'a_mask.nii' }]);
  });

  test('A scan that looks like labels is a scan if the record of its result says so, whether it is named or found', async () => {
    await write({ 'in/a.nii': 'mask', 'in/other.nii': 'scan', 'Out/a/mask.nii': 'empty' });
    const inputs = [{ name: 'a.nii', ...(await hashFile(at('in/a.nii'))) }];
    await plant(at(''), { 'Out/a/remote-app-record.json': recordText({ inputs }) });
    const shown = { name: 'a', scan: 'in/a.nii', mask: 'Out/a/mask.nii' };
    expect(await casesOf('in/a.nii', 'Out')).toEqual([shown]);
    expect(await casesOf('Out')).toEqual([
      { ...shown, notes: ['The scan is in/a.nii, found by the record'] },
    ]);
  });

  test('The scan of a result is the first group of its recorded inputs, not a mask that was sent with it', async () => {
    await write({ 'in/a.nii': 'scan', 'in/b.nii': 'scan 9', 'in/c.nii': 'scan 5', 'Out/s/x/m.nii': 'mask' });
    const input = async (name: string, more: object) => ({
      name,
      ...(await hashFile(at(`in/${name}`))),
      ...more,
    });
    const inputs = [
      await input('c.nii', { field: 'mask', group: 0 }),
      await input('a.nii', { group: 0 }),
      await input('b.nii', { group: 1 }),
    ];
    // Two levels above the file.
    await plant(at(''), { 'Out/s/remote-app-record.json': recordText({ inputs }) });
    const notes = ['The scan is in/a.nii, found by the record'];
    expect(await casesOf('Out')).toEqual([{ name: 'a', scan: 'in/a.nii', mask: 'Out/s/x/m.nii', notes }]);
  });

  test('Two scans are two cases, and a mask by itself is one', async () => {
    await write({ 'a.nii': 'scan', 'b.nii': 'scan', 'other/m.nii': 'mask' });
    expect(await casesOf('a.nii', 'b.nii')).toEqual([
      { name: 'a', scan: 'a.nii', mask: null },
      { name: 'b', scan: 'b.nii', mask: null },
    ]);
    expect(await casesOf('other/m.nii')).toEqual([{ name: 'm', scan: null, mask: 'other/m.nii' }]);
  });

  test.each([
    ['the same name', 'scans/c1.nii.gz', 'scans/c12.nii.gz', 'Out/c1.nii.gz', 'Out/c12.nii.gz'],
    ['a longer name', 'scans/c1.nii.gz', 'scans/c12.nii.gz', 'Out/c1_seg.nii.gz', 'Out/c12-labels.mha.nii'],
    ['a number of a channel', 'in/c1_0000.nii.gz', 'in/c2_0000.nii.gz', 'Out/c1.nii.gz', 'Out/c2.nii.gz'],
    [
      'a suffix of BIDS',
      'in/s-1_T1w.nii.gz',
      'in/s-2_T1w.nii.gz',
      'Out/s-1_dseg.nii.gz',
      'Out/s-2_dseg.nii.gz',
    ],
    ['a folder and a name', 'scans/c1.nii.gz', 'scans/c2.nii.gz', 'Out/c1/l.nii.gz', 'Out/c2/l.nii.gz'],
    ['two folders', 'scans/c1/t1.nii.gz', 'scans/c2/t1.nii.gz', 'Out/c1/l.nii.gz', 'Out/c2/l.nii.gz'],
    ['a name in the middle', 'in/c1.nii.gz', 'in/c2.nii.gz', 'Out/seg_c1.nii.gz', 'Out/seg_c2.nii.gz'],
  ])('Scans and masks are paired by %s', async (_, scan1, scan2, mask1, mask2) => {
    await write({ [scan1]: 'scan', [scan2]: 'scan', [mask2]: 'mask', [mask1]: 'mask' });
    const pairs = (await casesOf(mask2, mask1, scan2, scan1)).map(({ scan, mask }) => [scan, mask]);
    expect(pairs).toEqual([
      [scan2, mask2],
      [scan1, mask1],
    ]);
  });

  test('Cases with the same name are distinguished by their folders', async () => {
    await write({ 'in/c1/t1.nii': 'scan', 'in/c2/t1.nii': 'scan', 'in/c3/t2.nii': 'scan' });
    expect((await casesOf('in')).map(({ name }) => name)).toEqual(['c1_t1', 'c2_t1', 't2']);
  });

  test('The grid decides if names do not', async () => {
    await write({ 'a.nii': 'scan 0', 'b.nii': 'scan 40', 'x.nii': 'mask 40', 'y.nii': 'mask 0' });
    expect(await casesOf('a.nii', 'b.nii', 'x.nii', 'y.nii')).toEqual([
      { name: 'a', scan: 'a.nii', mask: 'y.nii' },
      { name: 'b', scan: 'b.nii', mask: 'x.nii' },
    ]);
  });

  test('A mask that belongs to no named scan is not drawn on another scan', async () => {
    await write({ 'in/c1.nii': 'scan', 'out/c1.nii': 'mask', 'out/c2.nii': 'mask' });
    expect(await casesOf('in', 'out')).toEqual([
      { name: 'c1', scan: 'in/c1.nii', mask: 'out/c1.nii' },
      { name: 'c2', scan: null, mask: 'out/c2.nii' },
    ]);
  });

  test('A mask of another subject in the folder of this one is drawn on neither scan', async () => {
    await write({ 'd/sub-1/t1.nii': 'scan', 'd/sub-2/t1.nii': 'scan', 'd/sub-1/sub-2_mask.nii': 'mask' });
    const lost = (await casesOf('d')).find(({ mask }) => mask === 'd/sub-1/sub-2_mask.nii');
    expect(lost).toMatchObject({ name: 'sub-2_mask', scan: null });
  });

  test('Rows with the same name in two tables each keep their own status', async () => {
    await write({ 'O1/c/m.nii': 'mask', 'O2/c/m.nii': 'mask' });
    for (const [name, row] of [
      ['O1', 'c,done,'],
      ['O2', 'c,edited,somebody has changed it'],
    ] as const)
      await plant(at(''), {
        [`${name}/cases.csv`]: `case,status,reason\r\n${row}\r\n`,
        [`${name}/c/remote-app-record.json`]: recordText({}),
      });
    // The rows of the first come first, whichever case does.
    const { cases } = await findCasesToShow([at('O2'), at('O1')]);
    const statuses = cases.map(({ masks, status }) => [
      path.relative(at(''), masks[0]?.file.path ?? ''),
      status,
    ]);
    expect(statuses.sort()).toEqual([
      ['O1/c/m.nii', 'done'],
      ['O2/c/m.nii', 'edited'],
    ]);
  });

  test('Of several sequences on one grid, the first is shown and the others are named', async () => {
    await write({ 'in/c1/t1.nii': 'scan', 'in/c1/t2.nii': 'scan', 'out/c1/labels.nii': 'mask' });
    expect((await casesOf('in', 'out'))[0]).toEqual({
      name: 't1',
      scan: 'in/c1/t1.nii',
      mask: 'out/c1/labels.nii',
      notes: ['labels fits t2 as well'],
    });
  });

  describe('parts of paths that differ between subjects', () => {
    const subjects = ['sub-00', 'sub-01', 'sub-02'];
    const both = (nameOf: (subject: string) => readonly [string, string]): Record<string, Kind> =>
      Object.fromEntries(
        subjects.flatMap((subject) => {
          const [scan, mask] = nameOf(subject);
          return [
            [scan, 'scan' as const],
            [mask, 'mask' as const],
          ];
        }),
      );
    test.each<[string, (subject: string) => readonly [string, string]]>([
      ['FreeSurfer', (s) => [`fs/${s}/mri/T1.nii`, `fs/${s}/mri/aseg.nii`]],
      [
        'derivatives of BIDS',
        (s) => [`bids/${s}/anat/${s}_T1w.nii`, `bids/derivatives/app/${s}/anat/${s}_desc-brain_mask.nii`],
      ],
      [
        'derivatives of BIDS with other names',
        (s) => [`bids/${s}/anat/${s}_T1w.nii`, `bids/derivatives/app/${s}/anat/labels.nii`],
      ],
      ['folders of a case', (s) => [`d/case_${s}/imaging/volume.nii`, `d/case_${s}/segmentation/volume.nii`]],
      ['files of a case', (s) => [`d/case_${s}/imaging.nii`, `d/case_${s}/segmentation.nii`]],
      [
        'folders of a kind',
        (s) => [`imagesTr/liver_${s.slice(-1)}.nii`, `labelsTr/liver_${s.slice(-1)}.nii`],
      ],
      ['a name in the folder of the other', (s) => [`raw/${s}/anat/t1.nii`, `out/${s}_seg.nii`]],
      ['a numbered label', (s) => [`d/case_${s.slice(-1)}/ct.nii`, `d/case_${s.slice(-1)}/label_2.nii`]],
    ])('The parts of paths that differ between subjects decide in the layout of %s', async (_, nameOf) => {
      await write(both(nameOf));
      const paths = await casesOf('.');
      const pairs = paths.map(({ scan, mask }) => [scan, mask]);
      expect(pairs.sort()).toEqual(subjects.map(nameOf).sort());
      expect(paths.flatMap(({ notes }) => notes ?? [])).toEqual([]);
    });

    test('The parts of paths that differ between sessions decide as well, and a tie is refused with both names', async () => {
      const scans = ['ses-1', 'ses-2'].map((ses) => `bids/sub-01/${ses}/anat/sub-01_${ses}_T1w.nii`);
      const [first = '', second = ''] = scans;
      await write({ [first]: 'scan', [second]: 'scan', 'out/sub-01_ses-2_mask.nii': 'mask' });
      expect(await casesOf('bids', 'out')).toMatchObject(
        [
          { scan: second, mask: 'out/sub-01_ses-2_mask.nii' },
          { scan: first, mask: null },
        ].reverse(),
      );
      await rm(at('out'), { recursive: true });
      await write({ 'out/sub-01_mask.nii': 'mask' });
      const [, , last] = await casesOf('bids', 'out');
      expect(last).toEqual({
        name: 'sub-01_mask',
        scan: null,
        mask: 'out/sub-01_mask.nii',
        notes: [`sub-01_mask fits '${first}' and '${second}' equally well, and is drawn on none of them`],
      });
    });

    test('A mask of none of several subjects is drawn on no scan', async () => {
      await write({ ...both((s) => [`d/${s}/mri/T1.nii`, `d/${s}/mri/aseg.nii`]), 'd/mri/aseg.nii': 'mask' });
      const lost = (await casesOf('d')).find(({ mask }) => mask === 'd/mri/aseg.nii');
      expect(lost).toMatchObject({ scan: null });
    });

    test('Maps of results go with the scan of their subject', async () => {
      await write(both((s) => [`in/${s}/T1.nii`, `Out/${s}/T1_mask.nii`]));
      await write(Object.fromEntries(subjects.map((s) => [`Out/${s}/T1_uncertainty.nii`, 'map'] as const)));
      const maps = (await casesOf('in', 'Out')).map(({ scan, maps }) => [scan, maps]);
      expect(maps).toEqual(subjects.map((s) => [`in/${s}/T1.nii`, [`Out/${s}/T1_uncertainty.nii`]]));
    });
  });

  test('Several results on one scan are layers of one case', async () => {
    await write({ 'c1.nii': 'scan', 'c1_liver.nii': 'mask', 'c1_spleen.nii': 'mask' });
    expect(await casesOf('.')).toEqual([
      { name: 'c1', scan: 'c1.nii', mask: 'c1_liver.nii', others: ['c1_spleen.nii'] },
    ]);
  });

  test('Maps go with the scan whose name they extend', async () => {
    await write({ 'c1.nii.gz': 'scan', 'c1_uncertainty.nii.gz': 'map', 'c1_seg.nii.gz': 'mask' });
    expect(await casesOf('.')).toEqual([
      { name: 'c1', scan: 'c1.nii.gz', mask: 'c1_seg.nii.gz', maps: ['c1_uncertainty.nii.gz'] },
    ]);
  });

  describe('without a scan among the paths', () => {
    const found = (place: string) => [`The scan is ${place}, found by its name`];

    test.each([
      ['beside the result', 'scans/c1.nii.gz', 'Out/c1.nii.gz'],
      ['in a folder of the case', 'scans/c1/t1.nii.gz', 'Out/c1/labels.nii.gz'],
      ['right beside the result', 'c1.nii.gz', 'Out/c1_seg.nii.gz'],
    ])('The scan of a result is found %s', async (_, scan, mask) => {
      await write({ [scan]: 'scan', [mask]: 'mask', 'scans/other.nii.gz': 'scan' });
      await plant(at(''), { 'Out/result.zip': 'zip', 'Out/Evaluation.json': '{}' });
      const [only, ...others] = await casesOf('Out');
      expect(others).toEqual([]);
      expect(only).toMatchObject({ scan, mask });
      expect(only?.notes?.[0]).toContain(path.basename(scan));
    });

    test('A map of a result goes with the scan that is found, even under its name', async () => {
      await write({ 'c1.nii': 'scan', 'Out/c1.nii': 'map', 'Out/c1_seg.nii': 'mask' });
      await plant(at(''), { 'Out/result.zip': 'zip' });
      expect(await casesOf('Out')).toEqual([
        { name: 'c1', scan: 'c1.nii', mask: 'Out/c1_seg.nii', maps: ['Out/c1.nii'], notes: found('c1.nii') },
      ]);
    });

    describe('the record next to the result', () => {
      test('A result is not drawn on a scan that has changed, whether that is named or found', async () => {
        await write({ 'in/c1.nii': 'scan', 'Out/c1/mask.nii': 'mask' });
        await record('Out/c1', { 'c1.nii': 'in/c1.nii' });
        await plant(at(''), { 'Out/cases.csv': 'case,status,reason\r\nc1,done,\r\n' });
        await appendFile(at('in/c1.nii'), 'x');
        const note =
          "The result in 'Out/c1' is not drawn: its remote-app-record.json names another content of the scan, and 'in/c1.nii' is not what it was then";
        expect(await casesOf('in', 'Out')).toEqual([
          { name: 'c1', scan: 'in/c1.nii', mask: null, notes: [note] },
        ]);
        expect(await casesOf('Out')).toEqual([{ name: 'c1', scan: null, mask: null, notes: [note] }]);
      });

      test('Failed, waiting and edited cases of the table are shown, and labels have the names of the record', async () => {
        await write({ 'in/a.nii': 'scan', 'Out/a/mask.nii': 'mask' });
        await record('Out/a', { 'a.nii': 'in/a.nii' });
        const text = JSON.parse(await readFile(at('Out/a/remote-app-record.json'), 'utf8'));
        const labels = { 1: { name: 'Liver', color: '#ff0000' } };
        const units = { inputs: 'HU', outputs: null };
        await writeFile(at('Out/a/remote-app-record.json'), JSON.stringify({ ...text, labels, units }));
        const rows = [
          'case,status,reason',
          'a,edited,x',
          'b,failed,"no, ""head"""',
          "'-c,waiting,",
          'd,done,',
        ];
        await plant(at(''), { 'Out/cases.csv': rows.map((row) => `${row}\r\n`).join('') });
        const { cases } = await findCasesToShow([at('Out')]);
        expect(cases.map(({ name, status, masks }) => [name, status, masks.length])).toEqual([
          ['-c', 'waiting', 0],
          ['a', 'edited', 1],
          ['b', 'failed', 0],
          ['d', 'done', 0],
        ]);
        expect(cases.map(({ notes }) => notes[0])).toEqual([
          'It is not computed yet',
          'x',
          'It failed: no, "head"',
          'Its result has no volume that can be drawn',
        ]);
        expect(cases[1]?.masks[0]).toMatchObject({ terminology: labels, units });
      });

      test('Cases of a table on equal scans stay separate, and so do their marks', async () => {
        await write({ 'in/a.nii': 'scan', 'Out/a/mask.nii': 'mask', 'Out/b/mask.nii': 'mask' });
        await record('Out/a', { 'a.nii': 'in/a.nii' });
        await record('Out/b', { 'a.nii': 'in/a.nii' });
        await plant(at(''), { 'Out/cases.csv': 'case,status,reason\r\na,done,\r\nb,done,\r\n' });
        expect((await casesOf('Out')).map(({ name, scan }) => [name, scan])).toEqual([
          ['a', 'in/a.nii'],
          ['b', 'in/a.nii'],
        ]);
      });

      test('Cases with the same name in two tables are two cases without a scan, and one case on the same scan', async () => {
        await write({ 'O1/c/m.nii': 'mask', 'O2/c/m.nii': 'mask' });
        const names = ['O1', 'O2'];
        for (const name of names)
          await plant(at(''), {
            [`${name}/cases.csv`]: 'case,status,reason\r\nc,done,\r\n',
            [`${name}/c/remote-app-record.json`]: recordText({}),
          });
        // A table's names stay as they are, as rows are joined by them.
        expect((await casesOf(...names)).map(({ name, mask }) => [name, mask])).toEqual([
          ['c', 'O1/c/m.nii'],
          ['c', 'O2/c/m.nii'],
        ]);
        expect((await casesOf('O1/c', 'O2/c')).map(({ name }) => name)).toEqual(['c', 'c']);
        await write({ 'in/x.nii': 'scan', 'O3/d/m.nii': 'mask' });
        await record('O1/c', { 'x.nii': 'in/x.nii' });
        await record('O3/d', { 'x.nii': 'in/x.nii' });
        await plant(at(''), { 'O3/cases.csv': 'case,status,reason\r\nd,edited,somebody has changed it\r\n' });
        const together = await casesOf('O1', 'O3');
        expect(together).toEqual([
          {
            ...{ name: 'c', scan: 'in/x.nii', mask: 'O1/c/m.nii', others: ['O3/d/m.nii'] },
            notes: ['somebody has changed it', ...recorded('in/x.nii')],
          },
        ]);
      });

      const recorded = (place: string) => [`The scan is ${place}, found by the record`];
      /** Writes a record that names files, as they were sent under these names. */
      async function record(directory: string, sent: Readonly<Record<string, string>>, more: object = {}) {
        const inputs = await Promise.all(
          Object.entries(sent).map(async ([name, file]) => ({
            name,
            ...(await hashFile(at(file))),
            ...more,
          })),
        );
        await writeFile(at(`${directory}/remote-app-record.json`), recordText({ inputs }));
      }

      test('Of several scans, the one with the recorded name and size is used', async () => {
        await write({
          'a/c1.nii': 'scan',
          'b/c1.nii': 'scan',
          'b/head.nii': 'scan',
          'Out/labels.nii': 'mask',
        });
        await record('Out', { 'head.nii': 'b/head.nii' });
        expect(await casesOf('Out')).toEqual([
          { name: 'head', scan: 'b/head.nii', mask: 'Out/labels.nii', notes: recorded('b/head.nii') },
        ]);
        await record('Out', { 'head.nii': 'b/head.nii' }, { size: 1 });
        expect((await casesOf('Out'))[0]?.scan).toBe(null);
        for (const text of ['{"inputs": 3', '{"inputs": 3}', '[]', '{"inputs": [{"name": "head.nii"}]}']) {
          await writeFile(at('Out/remote-app-record.json'), text);
          expect((await casesOf('Out'))[0]?.scan).toBe(null);
        }
      });

      test('Of several scans with the same name and size, the one with the recorded content is used', async () => {
        await write({
          'p1/t1.nii': 'scan',
          'p2/t1.nii': 'bytes',
          'p3/t1.nii': 'scan 9',
          'Out/labels.nii': 'mask',
        });
        await writeFile(at('p2/t1.nii'), Buffer.alloc((await stat(at('p1/t1.nii'))).size));
        await record('Out', { 't1.nii': 'p3/t1.nii' });
        expect((await casesOf('Out'))[0]).toMatchObject({ scan: 'p3/t1.nii', notes: recorded('p3/t1.nii') });
      });

      test('Of several given scans with the same name, the one with the recorded content is used', async () => {
        const cases = ['p1', 'p2', 'p3'];
        for (const [index, each] of cases.entries()) {
          await write({ [`in/${each}/scan.nii`]: 'scan', [`Out/${each}/scan.nii`]: 'mask' });
          await appendFile(at(`in/${each}/scan.nii`), String(index));
          await record(`Out/${each}`, { 'scan.nii': `in/${each}/scan.nii` });
        }
        const pairs = async (...paths: string[]) =>
          (await casesOf(...paths)).map(({ scan, mask }) => `${mask} on ${scan}`);
        expect(await pairs('in', 'Out')).toEqual(
          cases.map((each) => `Out/${each}/scan.nii on in/${each}/scan.nii`),
        );
        await rm(at('in/p2'), { recursive: true });
        expect((await casesOf('Out/p2'))[0]?.scan).toBe(null);
      });

      test('Each of many scans is found in a BIDS tree, and its case has the name from the table', async () => {
        const subjects = ['sub-1', 'sub-2'];
        for (const each of subjects) {
          const scan = `study/bids/${each}/ses-1/anat/${each}_ses-1_T1w.nii`;
          await write({ [scan]: 'scan', [`Out/${each}/mask.nii`]: 'mask', [`Out/${each}/brain.nii`]: 'map' });
          await write({ [`study/bids/${each}/ses-1/anat/${each}_ses-1_FLAIR.nii`]: 'scan 9' });
          await record(`Out/${each}`, { [path.basename(scan)]: scan });
        }
        await plant(at(''), { 'Out/cases.csv': 'case\r\n' });
        expect(await casesOf('Out')).toEqual(
          subjects.map((each) => {
            const scan = `study/bids/${each}/ses-1/anat/${each}_ses-1_T1w.nii`;
            const [mask, maps] = [`Out/${each}/mask.nii`, [`Out/${each}/brain.nii`]];
            return { name: each, scan, mask, maps, notes: recorded(scan) };
          }),
        );
      });
    });

    test('No scan is used if several fit equally well', async () => {
      await write({ 'a/c1.nii': 'scan', 'b/c1.nii': 'scan', 'Out/c1.nii': 'mask' });
      const [only] = await casesOf('Out');
      expect(only).toMatchObject({ name: 'c1', scan: null, mask: 'Out/c1.nii' });
      expect(only?.notes).toEqual([
        "c1 fits 'a/c1.nii' and 'b/c1.nii' equally well, and is drawn on none of them",
      ]);
    });

    test('Of several scans, the one with the grid of the result is used', async () => {
      await write({ 'a/c1.nii': 'scan 40', 'b/c1.nii': 'scan', 'Out/c1.nii': 'mask' });
      expect((await casesOf('Out'))[0]).toMatchObject({ scan: 'b/c1.nii', mask: 'Out/c1.nii' });
    });

    test('The search covers no more than some thousand entries on two levels', async () => {
      await write({ 'deep/er/still/c1.nii': 'scan', 'Out/c1.nii': 'mask' });
      expect((await casesOf('Out'))[0]?.scan).toBe(null);
    });
  });

  test('A file that is not a volume is named, and does not hide the others', async () => {
    await write({ 'a.nii': 'scan' });
    await plant(at(''), { 'broken.nii.gz': 'not gzip', 'Out/result.zip': 'zip' });
    const { cases, problems } = await findCasesToShow([
      at('a.nii'),
      at('broken.nii.gz'),
      at('Out/result.zip'),
    ]);
    expect(cases.map(({ name }) => name)).toEqual(['a']);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain('broken.nii.gz');
  });

  test('Paths without a volume are refused', async () => {
    await plant(at(''), { 'Out/Evaluation.json': '{}' });
    await expect(findCasesToShow([at('Out')])).rejects.toThrow(
      /Evaluation\.json' is not a volume, and there is no volume beside it$/,
    );
    await expect(findCasesToShow([at('nothing')])).rejects.toThrow(/No such file or directory/);
  });
});
