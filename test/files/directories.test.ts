import { mkdirSync, statSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  filesBelow,
  isRealDirectory,
  makeDirectory,
  namesIn,
  treeEntries,
} from '../../src/files/directories.js';
import { plant, temporary } from '../support/temporary.js';

describe('a directory', () => {
  test('A directory is made with its parents, and may exist already', async () => {
    await using directory = await temporary();
    const target = path.join(directory.path, 'a', 'b', 'c');
    makeDirectory(target, 0o700);
    makeDirectory(target);
    // Its parents are as private as it is.
    const modes = ['a', 'a/b', 'a/b/c'].map((each) => statSync(path.join(directory.path, each)).mode & 0o777);
    expect(modes).toEqual([0o700, 0o700, 0o700]);
    mkdirSync(path.join(directory.path, 'real'));
    symlinkSync('real', path.join(directory.path, 'link'));
    makeDirectory(path.join(directory.path, 'link'));
    makeDirectory(path.join(directory.path, 'link', 'below'));
    expect(statSync(path.join(directory.path, 'real', 'below')).isDirectory()).toBe(true);
  });

  test("A directory that cannot be created fails with the system's error", async () => {
    await using directory = await temporary();
    await plant(directory.path, { file: '' });
    symlinkSync('nowhere', path.join(directory.path, 'dangling'));
    const make = (name: string) => () => makeDirectory(path.join(directory.path, name));
    expect(make('file')).toThrow('EEXIST');
    expect(make('file/a/b')).toThrow('ENOTDIR');
    expect(make('dangling')).toThrow('EEXIST');
    expect(make('dangling/a')).toThrow('EEXIST');
  });

  // Node's own `recursive` never returns here.
  test.skipIf(process.platform !== 'linux').each(['/proc/remote-app', '/proc/remote-app/a/b'])(
    'A directory that cannot be created in a kernel file system fails and does not hang: %s',
    (target) => {
      expect(() => makeDirectory(target)).toThrow('ENOENT');
    },
  );
});

test('Excluded directories are omitted from a listing at any depth', async () => {
  await using directory = await temporary();
  await plant(directory.path, { 'a/b/c': '', 'a/node_modules/d': '', 'node_modules/e/f': '', g: '' });
  const namesOf = (files: ReturnType<typeof filesBelow>) => files.map(({ name }) => name).sort();
  expect(namesOf(filesBelow(directory.path, (below) => path.basename(below) === 'node_modules'))).toEqual([
    'c',
    'g',
  ]);
  expect(namesOf(filesBelow(directory.path))).toEqual(['c', 'd', 'f', 'g']);
});

test('A real directory is distinguished from a link to one, and a directory that cannot be listed has no names', async () => {
  await using directory = await temporary();
  const at = (name: string) => path.join(directory.path, name);
  await plant(directory.path, { 'real/a': '', 'real/b': '', file: '' });
  symlinkSync('real', at('link'));
  expect(['real', 'link', 'file', 'missing'].filter((name) => isRealDirectory(at(name)))).toEqual(['real']);
  expect(namesIn(at('link')).sort()).toEqual(['a', 'b']);
  expect([namesIn(at('file')), namesIn(at('missing'))]).toEqual([[], []]);
});

test('A tree is walked level by level in name order and through links, visiting each directory once', async () => {
  await using directory = await temporary();
  await plant(directory.path, {
    'b/deep/file': '',
    'b/left/out': '',
    a: '',
    '.git/x': '',
    'node_modules/x': '',
    '__pycache__/x': '',
    '.hg/x': '',
    '.svn/x': '',
    'outside.d/x': '',
  });
  symlinkSync('..', path.join(directory.path, 'b', 'up'));
  symlinkSync('nowhere', path.join(directory.path, 'dangling'));
  const entries = [...treeEntries(directory.path, (each) => path.basename(each) === 'left')];
  expect(
    entries.map(({ file, stats, link }) => [
      path.relative(directory.path, file),
      stats && (stats.isDirectory() ? 'directory' : 'file'),
      link,
    ]),
  ).toEqual([
    ['', 'directory', null],
    ['a', 'file', null],
    ['b', 'directory', null],
    ['dangling', null, 'nowhere'],
    ['outside.d', 'directory', null],
    ['b/deep', 'directory', null],
    ['b/up', 'directory', '..'],
    ['outside.d/x', 'file', null],
    ['b/deep/file', 'file', null],
  ]);
});
