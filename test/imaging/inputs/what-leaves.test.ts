import { rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { archiveFault, findDataSet } from '../../../src/imaging/inputs/data-set.js';
import { Obstacles } from '../../../src/imaging/inputs/entries.js';
import { leadsElsewhere, verdictOn } from '../../../src/imaging/inputs/leaving.js';
import { readStore } from '../../../src/imaging/inputs/zarr.js';
import { plant, temporary } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';

describe('what may leave', () => {
  const sentence = async (content: Buffer, layout: object, name = 'x', count = 1) => {
    await using root = await temporary();
    await plant(root.path, { [name]: content });
    const verdict = await verdictOn({
      ...{ role: 'data', path: path.join(root.path, name), isLink: false, root: root.path, count },
      layout: { before: 0, voxels: 1, isPacked: false, ...layout },
    });
    return verdict.leaves ? null : verdict.why;
  };
  const remedy = 'name it as well if it is meant';

  test('What may leave is as large as its header says, by the byte', async () => {
    const zeros = (count: number) => Buffer.alloc(count);
    expect(await sentence(zeros(1_000_000), { voxels: 1_000_000 })).toBeNull();
    expect(await sentence(zeros(999_999), { voxels: 1_000_000 })).toBe(
      `has 999999 bytes, and its header says 976.6 KiB (1000000 bytes); ${remedy}`,
    );
    expect(await sentence(zeros(5), { before: 3, voxels: 2 })).toBeNull();
    expect(await sentence(zeros(5), { voxels: 10 }, 'x', 2)).toBeNull();
    // A pair may have the offset of a single file in its header.
    expect(await sentence(zeros(4), { before: 352, voxels: 4, isPacked: null })).toBeNull();
    expect(await sentence(zeros(4), { before: 352, voxels: 4 })).toMatch(/^has 4 bytes/);
    expect(await sentence(zeros(4), { before: null })).toBe(
      `is named by a header that does not say how many bytes it has; ${remedy}`,
    );
  });

  test('What may leave is unpacked where it is packed, no further than it should be', async () => {
    const packed = gzipSync(Buffer.alloc(9));
    expect(await sentence(packed, { voxels: 9, isPacked: true })).toBeNull();
    expect(await sentence(packed, { voxels: 9, isPacked: null }, 'x.gz')).toBeNull();
    expect(await sentence(packed, { voxels: 8, isPacked: true })).toBe(
      `has more unpacked, and its header says 8 bytes; ${remedy}`,
    );
    expect(await sentence(packed, { voxels: 10, isPacked: true })).toBe(
      `has 9 bytes unpacked, and its header says 10 bytes; ${remedy}`,
    );
    expect(await sentence(Buffer.from('\u001f\u008bno gzip', 'latin1'), { isPacked: true })).toBe(
      'cannot be unpacked: it is damaged, or is not what its header says',
    );
    expect(await sentence(gzipSync('a text of words'), { voxels: 15, isPacked: true })).toBe(
      `is text, although a header names it for its voxels; ${remedy}`,
    );
    expect(await sentence(packed, { voxels: packed.length })).toBe(
      `is a packed file, although a header names it for its voxels; ${remedy}`,
    );
    expect(await sentence(Buffer.from('BZh9'), { isPacked: null }, 'x.bz2')).toBeNull();
    // What packed data could begin with, and no header of them.
    expect(await sentence(Buffer.from('xylem of words'), { voxels: 14, isPacked: null })).toMatch(/^is text/);
  });

  test('What may leave lies in what was named, and is not hidden in it, but for the metadata of a store', async () => {
    await using root = await temporary();
    await plant(root.path, {
      'in/a': 'x',
      'in/.hidden/a': 'x',
      'in/.zattrs': 'x',
      'in/s/.zgroup/a': 'x',
      'in/..a': 'x',
      'inner/a': 'x',
      '.git/annex/objects/k': 'x',
      '.git/modules/m/annex/objects/k': 'x',
      'other/.git/annex/objects/k': 'x',
    });
    const at = (name: string) => path.join(root.path, name);
    const outside = (name: string, of = 'in') => leadsElsewhere(at(name), at(of));
    expect(['in/a', 'in', 'in/.zattrs', 'in/s/.zgroup/a'].map((name) => outside(name))).toEqual(
      Array(4).fill(false),
    );
    expect(
      ['in/.hidden/a', 'in/..a', 'inner/a', '.git/annex/objects/k'].map((name) => outside(name)),
    ).toEqual(Array(4).fill(true));
    const leaves = async (target: string) => {
      symlinkSync(at(target), at('in/link'));
      const verdict = await verdictOn({
        ...{ role: 'key', path: at('in/link'), isLink: true, root: at('in'), isImplied: true },
      });
      rmSync(at('in/link'));
      return verdict;
    };
    for (const own of ['.git/annex/objects/k', '.git/modules/m/annex/objects/k'])
      expect(await leaves(own)).toEqual({ leaves: true, target: at(own) });
    expect(await leaves('in/a')).toEqual({ leaves: true, target: null });
    expect(await leaves('other/.git/annex/objects/k')).toEqual({
      leaves: false,
      why: `leads to '${at('other/.git/annex/objects/k')}', outside of what was named, and is followed only to whole volumes`,
    });
  });
});

describe('a store of Zarr', () => {
  const store = async (files: Record<string, string>) => {
    await using root = await temporary();
    await plant(
      root.path,
      Object.fromEntries(Object.entries(files).map(([name, text]) => [`s.zarr/${name}`, text])),
    );
    const obstacles = new Obstacles();
    const { files: found, strays } = await readStore(path.join(root.path, 's.zarr'), obstacles);
    const short = (each: string) => each.replace(`${root.path}/`, '');
    return {
      files: found.map(({ name }) => name),
      strays: strays.map(short),
      sentences: obstacles.all.map(({ sentence }) => short(sentence)),
    };
  };
  const array3 = (encoding: object, shape: readonly number[] = [4, 3]) =>
    JSON.stringify({
      ...{ zarr_format: 3, node_type: 'array', shape, chunk_key_encoding: encoding },
      chunk_grid: { name: 'regular', configuration: { chunk_shape: [2, 3] } },
    });

  test('A store of Zarr has the separator of its kind where it names none', async () => {
    expect(await store({ 'zarr.json': array3({ name: 'default' }), 'c/1/0': '1', 'c.1.0': 'x' })).toEqual({
      ...{ files: ['zarr.json', 'c/1/0'], strays: ['s.zarr/c.1.0'], sentences: [] },
    });
    expect((await store({ 'zarr.json': array3({ name: 'v2' }), '1.0': '1', '1/0': 'x' })).files).toEqual([
      ...['zarr.json', '1.0'],
    ]);
    // An array without axes has one chunk.
    const scalar = array3({ name: 'default' }, []).replace('[2,3]', '[]');
    expect((await store({ 'zarr.json': scalar, c: '1', 0: 'x' })).files).toEqual(['zarr.json', 'c']);
    const scalar2 = '{"zarr_format": 2, "shape": [], "chunks": []}';
    expect((await store({ '.zarray': scalar2, c: 'x', 0: '1', 1: 'x' })).files).toEqual(['.zarray', '0']);
    const array2 = '{"zarr_format": 2, "shape": [3, 3], "chunks": [2, 2]}';
    expect(
      (await store({ '.zarray': array2, '1.0': '1', '1/1': '1', '2.0': 'x', '01.0': 'x' })).files,
    ).toEqual([...['.zarray', '1/1', '1.0']]);
  });

  test.each([
    ['zarr.json', array3({ name: 'default' }, [4])],
    ['zarr.json', array3({ name: 'other' })],
    ['.zgroup', '{"zarr_format": 3}'],
    ['.zarray', '{"zarr_format": 2, "shape": [3], "chunks": [0]}'],
    ['.zarray', '{"zarr_format": 2, "shape": [3, 3], "chunks": [1]}'],
    ['.zattrs', '[]'],
    ['.zmetadata', '{}'],
  ])('A store of Zarr is refused with metadata that are none: %s %s', async (name, text) => {
    const { sentences } = await store({
      ...(name === '.zgroup' ? {} : { '0/.zgroup': '{"zarr_format": 2}' }),
      [name]: text,
    });
    expect(sentences[0]).toBe(`'s.zarr/${name}' is not valid metadata of a Zarr store`);
  });

  test('A store of Zarr has all metadata of a group, and is looked into 32 levels deep', async () => {
    const deep = (levels: number) => `${Array(levels).fill('d').join('/')}/.zgroup`;
    const group = '{"zarr_format": 2}';
    const { files, sentences } = await store({
      ...{
        '.zgroup': group,
        '.zattrs': '{"a": [NaN, -Infinity]}',
        '.zmetadata': '{"metadata": {}}',
        [deep(32)]: group,
      },
    });
    expect([files, sentences]).toEqual([['.zattrs', '.zgroup', '.zmetadata', deep(32)], []]);
    expect((await store({ '.zgroup': group, [deep(33)]: group })).sentences).toEqual([
      `'s.zarr/${Array(33).fill('d').join('/')}' lies in more than 32 directories of a store`,
    ]);
  });
});

test('A data set has all files but hidden ones, its empty directories and its stores', async () => {
  await using root = await temporary();
  const at = (name: string) => path.join(root.path, name);
  await plant(root.path, {
    'set/b/a.nii': '12',
    'set/.hidden': 'x',
    'set/a.txt': '',
    'set/empty/': '',
    'set/s.zarr/.zgroup': '{"zarr_format": 2}',
    'set/s.zarr/notes': 'x',
    'set/t/.zgroup': '{"zarr_format": 2}',
    'set.ZIP': zipOf({ 'a.nii': 'x' }),
    'no.zip': 'x',
    'file.nii': 'x',
    'nothing/.a': 'x',
    'bad/empty.nii': '',
  });
  symlinkSync('..', at('set/b/up'));
  const find = async (name: string) => {
    const obstacles = new Obstacles();
    const set = await findDataSet(at(name), obstacles);
    return { set, sentences: obstacles.all.map(({ sentence }) => sentence.replace(`${root.path}/`, '')) };
  };
  const whole = await find('set');
  expect(whole.set).toMatchObject({ path: at('set'), strays: [at('set/s.zarr/notes')], followed: [] });
  expect(whole.set?.files?.map(({ name, size }) => [name, size])).toEqual([
    ['a.txt', 0],
    ['b/a.nii', 2],
    ['empty/', undefined],
    ['s.zarr/.zgroup', 18],
    ['t/.zgroup', 18],
  ]);
  expect(whole.sentences).toEqual([]);
  expect((await find('set.ZIP')).set).toMatchObject({ path: at('set.ZIP'), files: null });
  expect(await find('none')).toEqual({ set: null, sentences: ["No such file or directory: 'none'"] });
  expect(await find('file.nii')).toEqual({
    ...{ set: null, sentences: ["'file.nii' is neither a directory nor a zip archive"] },
  });
  expect((await find('no.zip')).sentences).toEqual([
    expect.stringMatching(/^'no\.zip' cannot be read as a zip archive: /),
  ]);
  expect((await find('nothing')).sentences).toEqual(["'nothing' contains no file to send"]);
  expect((await find('bad')).sentences).toEqual(["'bad/empty.nii' is empty (0 bytes)"]);
  expect(await archiveFault(at('gone.zip'))).toMatch(/^cannot be read: /);
});
