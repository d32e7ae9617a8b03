import { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { type DirectoryWalkOptions, walkDirectories } from '../../src/files/index.js';
import { plant, temporary } from '../support/temporary.js';

/** Directories relative to the root, each with the names that it contains. */
async function walk(root: string, options: DirectoryWalkOptions = {}) {
  const found: [string, string[]][] = [];
  for await (const { path: directory, entries } of walkDirectories(root, options)) {
    found.push([path.relative(root, directory.toString()), entries.map(({ name }) => name.toString())]);
  }
  return found;
}

test('A walk visits each directory before those in it, in the order of names, and follows no link by default', async () => {
  await using root = await temporary();
  await plant(root.path, { 'b/y': '', 'b/c/z': '', 'a/x': '', file: '' });
  symlinkSync('b', path.join(root.path, 'link'));
  expect(await walk(root.path)).toEqual([
    ['', ['a', 'b', 'file', 'link']],
    ['a', ['x']],
    ['b', ['c', 'y']],
    ['b/c', ['z']],
  ]);
});

test('A walk through circular links terminates, and visits each directory once', async () => {
  await using root = await temporary();
  const names = Array.from({ length: 30 }, (_, at) => `d${at}`);
  for (const name of names) mkdirSync(path.join(root.path, name));
  for (const from of names) {
    for (const to of names) symlinkSync(`../${to}`, path.join(root.path, from, to));
  }
  expect(await walk(root.path, { followsLinks: true })).toHaveLength(31);
});

test('A walk skips directories that it may not enter, and stops at its limit', async () => {
  await using root = await temporary();
  await plant(root.path, { 'a/x': '', 'b/y': '', 'c/z': '' });
  expect(await walk(root.path, { enters: ({ name }) => name.toString() !== 'b' })).toEqual([
    ['', ['a', 'b', 'c']],
    ['a', ['x']],
    ['c', ['z']],
  ]);
  await expect(walk(root.path, { maxEntries: 4 })).rejects.toThrow('more than 4 files and directories');
});
