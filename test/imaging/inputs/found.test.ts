import { symlinkSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { sentFilesOf } from '../../../src/client/submit/staging.js';
import { operationOf } from '../../../src/contract/operations.js';
import { collectUnits } from '../../../src/imaging/inputs/collect.js';
import { Obstacles } from '../../../src/imaging/inputs/entries.js';
import { findFiles, findVolumes } from '../../../src/imaging/inputs/index.js';
import { Selector } from '../../../src/imaging/inputs/selection.js';
import { ownPlace } from '../../client/support/own-place.js';
import { metaHeader } from '../../support/headers.js';
import { plant } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';

const root = ownPlace();
const { at, short } = root;
const fieldOf = (name: string, of: 'evaluate' | 'fine_tune' = 'evaluate') => {
  const field = operationOf(of).fields.find((each) => each.name === name);
  if (!field) throw new Error(`no field ${name}`);
  return field;
};
type Groups = Readonly<Record<string, readonly (readonly string[])[]>>;
const find = (groups: Groups, options: Parameters<typeof findFiles>[1] = {}, more: object = {}) =>
  findFiles(
    {
      files: Object.entries(groups).map(([name, all]) => ({
        ...{ field: fieldOf(name), groups: all.map((group) => group.map(at)) },
      })),
      archive: null,
      ...more,
    },
    options,
  );
const sentenceOf = (found: Promise<unknown>) =>
  found.then(
    () => 'it is sent',
    (error: Error) => short(error.message),
  );

describe('found files', () => {
  test('Found files are listed along with those that cannot be sent, if that is requested', async () => {
    await plant(root.path, {
      'in/a.nii': 'x',
      'in/b.nii': '',
      'in/c.mhd': metaHeader('c.raw'),
      'in/d.mhd': metaHeader('d.raw', 2),
      'in/d.raw': 'x',
      'in/e.mhd': metaHeader('e.raw'),
      'in/e.raw': 'x',
    });
    const found = await find({ inputs: [['in']] }, { listsRefused: true });
    expect(
      found.volumes[0]?.groups[0]?.map((unit) => [unit.name, unit.isHalf, unit.headers.map(short)]),
    ).toEqual([
      ['a.nii', false, []],
      ['e.mhd', false, []],
      ['e.raw', true, ['in/e.mhd']],
    ]);
    expect(
      found.refused.map(({ path: file, sentence }) => [short(file), short(sentence).slice(0, 40)]),
    ).toEqual([
      ['in/b.nii', "'in/b.nii' is empty (0 bytes)"],
      ['in/c.mhd', "'in/c.mhd' has its voxels in 'c.raw', wh"],
      ['in/d.raw', "'in/d.raw' has 1 bytes, and its header s"],
    ]);
    expect(await sentenceOf(find({ inputs: [['in']] }))).toMatch(/^'in\/b\.nii' is empty \(0 bytes\)/);
    const each = await find({ inputs: [['in/a.nii', 'in/b.nii']] }, { isEach: true });
    expect(each.volumes[0]?.groups[0]).toMatchObject([
      { name: 'a.nii' },
      { name: 'b.nii', fault: 'is empty (0 bytes)' },
    ]);
    expect(each.refused).toEqual([]);
  });

  test('Found files are refused if they would get names that their headers do not know', async () => {
    const header = (name: string) => metaHeader(name);
    await plant(root.path, {
      'a/x.mhd': 'ENVI',
      'b/x.mhd': 'ENVI',
      'c/y.mhd': header('y.raw'),
      'c/y.raw': 'x',
    });
    expect(await sentenceOf(find({ inputs: [['a/x.mhd', 'b/x.mhd']] }))).toMatch(
      /^'a\/x\.mhd' shares its name with another file and says inside which file has its voxels, so neither can be renamed; give them different names, or make one file of each \(\.mha, \.nrrd\); 1 more/,
    );
    expect(await sentenceOf(find({ inputs: [['a/x.mhd', 'b/x.mhd']] }, { isEach: true }))).toBe('it is sent');
  });

  test('Found files are refused if a result could replace them, including those of a data set', async () => {
    await plant(root.path, { 'Out/a.nii': 'x', 'set/Out/b.nii': 'x' });
    const place = { directory: at('Out'), mayReplace: true };
    expect(await sentenceOf(find({ inputs: [['Out/a.nii']] }, { output: place }))).toMatch(
      /^'Out\/a\.nii' is in the directory/,
    );
    expect(
      await sentenceOf(find({ inputs: [['Out/a.nii']] }, { output: { ...place, mayReplace: false } })),
    ).toBe('it is sent');
    const archive = { field: fieldOf('dataset', 'fine_tune'), path: at('set') };
    const inSet = { directory: at('set/Out'), mayReplace: true };
    expect(await sentenceOf(find({}, { output: inSet }, { archive }))).toMatch(
      /^'set\/Out\/b\.nii' is in the directory/,
    );
  });

  test('A found archive has the name of its directory, and sent files are listed by field', async () => {
    await plant(root.path, {
      'set/a.nii': 'x',
      'my.zip': zipOf({ 'a.nii': 'x' }),
      'in/a.nii': 'NRRD0004\n\n',
      'in/b.txt': 'x',
    });
    symlinkSync('../in/a.nii', at('set/link.nii'));
    const field = fieldOf('dataset', 'fine_tune');
    const ofSet = async (name: string) =>
      sentFilesOf(await find({}, {}, { archive: { field, path: at(name) } }));
    const { followed } = await find({}, {}, { archive: { field, path: at('set') } });
    expect(followed).toEqual([{ path: at('set/link.nii'), target: at('in/a.nii') }]);
    expect(await ofSet('set/')).toEqual({
      sent: { dataset: [[{ path: at('set/'), name: 'set.zip' }]] },
      skipped: [],
    });
    expect(await ofSet('my.zip')).toEqual({
      sent: { dataset: [[{ path: at('my.zip'), name: 'my.zip' }]] },
      skipped: [],
    });
    expect(sentFilesOf(await find({ inputs: [['in'], ['in/a.nii']] }))).toEqual({
      sent: { inputs: Array(2).fill([{ path: at('in/a.nii'), name: 'a.nii' }]) },
      skipped: [at('in/b.txt')],
    });
  });

  test('Found groups of different sizes list what each case lacks, or skip those cases', async () => {
    await plant(root.path, {
      'in/a_T1.nii': 'x',
      'in/b_T1.nii': 'x',
      'gt/b_seg.nii': 'x',
      'gt/c_seg.nii': 'x',
    });
    const groups = { inputs: [['in']], gt: [['gt']] };
    const lacks =
      "1 of 2 cases has no file in --gt: 'in/a_T1.nii'; 1 file of --gt belongs to no case: 'gt/c_seg.nii'";
    expect(await sentenceOf(find(groups))).toBe(
      `${lacks}; give the files of a case the same names, add what is missing, leave these out, or name all files in the order in which they belong together`,
    );
    const { volumes, notes } = await find(groups, { isEach: true, skipsIncomplete: true });
    expect(volumes.map((each) => each.groups.flat().map(({ name }) => name))).toEqual([
      ['b_T1.nii'],
      ['b_seg.nii'],
    ]);
    expect(notes.map((note) => short(note.replace('Left out: ', ''))).join('; ')).toBe(lacks);
    expect((await find({ inputs: [['in']], gt: [['in']] })).notes).toEqual([]);
  });
});

describe('collected files', () => {
  const collect = async (paths: readonly string[], options: object = {}) => {
    const obstacles = new Obstacles();
    const found = await collectUnits(paths.map(at), { obstacles, ...options });
    return {
      units: found.units.map((unit) => short(unit.path)),
      skipped: found.skipped.map(short),
      sentences: obstacles.all.map(({ sentence }) => short(sentence)),
    };
  };

  test('A directory without a volume is refused, in one sentence for all of its files', async () => {
    await plant(root.path, { 'one/a.txt': 'x', 'two/a.txt': 'x', 'two/b.json': '{}' });
    expect((await collect(['one'])).sentences).toEqual([
      "'one/a.txt' is not a volume, and there is no volume beside it; --all-files sends it",
    ]);
    expect((await collect(['two'])).sentences).toEqual([
      "'two/a.txt' is not a volume, nor are 1 more, and there is no volume beside them; --all-files sends them",
    ]);
    const shown = await findVolumes([at('two')]).catch((error: Error) => short(error.message));
    expect(shown).toBe("'two/a.txt' is not a volume, nor are 1 more, and there is no volume beside them");
  });

  test('Files that a pattern matches are selected like those in directories, and named files are not', async () => {
    await plant(root.path, { 'in/sub-1_a.nii': 'x', 'in/sub-2_a.nii': 'x', 'in/sub-2.txt': 'x' });
    const selector = () => new Selector({ participants: ['2'] });
    expect(await collect(['in/*'], { selector: selector() })).toEqual({
      ...{ units: ['in/sub-2_a.nii'], skipped: ['in/sub-2.txt'], sentences: [] },
    });
    expect((await collect(['in'], { selector: selector() })).units).toEqual(['in/sub-2_a.nii']);
    expect((await collect(['in/sub-1_a.nii'], { selector: selector() })).units).toEqual(['in/sub-1_a.nii']);
    expect((await collect(['in/\ufffd.nii'])).sentences).toEqual([
      "No such file or directory: 'in/\ufffd.nii'; a file whose name is not UTF-8 must be renamed first",
    ]);
  });

  test('A slice next to a directory with a volume is a file by itself only if it lies among volumes', async () => {
    const slice = Buffer.concat([Buffer.alloc(128), Buffer.from('DICM'), Buffer.alloc(16)]);
    await plant(root.path, {
      'in/ct/1.dcm': slice,
      'in/a.nii': 'x',
      'in/ct/x/b.nii': 'x',
      'other/1.dcm': slice,
    });
    const obstacles = new Obstacles();
    const { units } = await collectUnits([at('in'), at('other')], { obstacles });
    expect(units.map((unit) => `${unit.kind} ${short(unit.path)}`)).toEqual([
      ...['file in/a.nii', 'file in/ct/1.dcm', 'file in/ct/x/b.nii', 'series other'],
    ]);
  });
});
