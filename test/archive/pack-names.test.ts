import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { extractArchive } from '../../src/archive/extract.js';
import { packDirectory, packListed } from '../../src/archive/pack.js';
import { lacks } from '../support/needs.mjs';
import { temporary } from '../support/temporary.js';
import { unzip } from '../support/unzip.mjs';

const limits = { maxBytes: 1 << 20, maxEntries: 1000, lenient: true };

const controls = ['line\nfeed\r', '\u001b]52;c;eA==\u0007'];
const nasty = [
  'd/T1:mask.nii',
  'd/T2:mask.nii',
  'a/b',
  ' leading',
  'trailing. ',
  '...',
  'aux.nii.gz',
  'con.json',
  ...controls,
  'é'.repeat(127),
  `${`${'deep'.repeat(50)}/`.repeat(5)}x`,
  '頭🧠/..x',
  '-rf',
  'name\u2028\u202e',
];

/** Writes files whose content is their name. */
function plantNamed(root: string, names: readonly string[]) {
  for (const name of names) {
    mkdirSync(path.join(root, path.dirname(name)), { recursive: true });
    writeFileSync(path.join(root, name), name);
  }
}

test.skipIf(lacks('python3'))('Python finds no error in the archive, and reads the same names', async () => {
  await using root = await temporary();
  const source = path.join(root.path, 'source');
  plantNamed(source, nasty);
  const archive = path.join(root.path, 'result.zip');
  await packDirectory(source, archive);
  const script = `import json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
print(json.dumps({each.orig_filename: archive.read(each).decode() for each in archive.infolist()}))`;
  const read = execFileSync('python3', ['-c', script, archive]).toString();
  expect(JSON.parse(read)).toEqual(Object.fromEntries(nasty.map((name) => [name, name])));
});

test.skipIf(lacks('unzip'))('Info-ZIP finds no error in the archive, and reads the same names', async () => {
  await using root = await temporary();
  const source = path.join(root.path, 'source');
  const names = ['d/T1:mask.nii', 'd/T2:mask.nii', 'é 頭🧠.nii', 'd/large.txt'];
  plantNamed(source, names);
  writeFileSync(path.join(source, 'd/large.txt'), 'row,'.repeat(100_000));
  const archive = path.join(root.path, 'result.zip');
  await packDirectory(source, archive);
  expect(execFileSync('unzip', ['-t', archive]).toString()).toContain('No errors detected');
  execFileSync('unzip', ['-q', archive, '-d', path.join(root.path, 'copy')]);
  execFileSync('diff', ['-r', source, path.join(root.path, 'copy')]);
});

test('A name that archiver would change is replaced by a unique one, with a note', async () => {
  await using root = await temporary();
  const source = path.join(root.path, 'source');
  const names = [
    'T1:mask.nii',
    'T2:mask.nii',
    'T1_mask.nii',
    'T1:mask_1.nii',
    'a\\b',
    'C:\\x',
    'd\\',
    'e:f/g\\h',
    '\\\\?\\y',
    '..\\z',
    'g/T1:mask.nii',
  ];
  plantNamed(source, names);
  const expected = {
    'T1_mask.nii': 'T1_mask.nii',
    'T1_mask_1.nii': 'T1:mask.nii',
    'T1_mask_1_1.nii': 'T1:mask_1.nii',
    'T2_mask.nii': 'T2:mask.nii',
    a_b: 'a\\b',
    C__x: 'C:\\x',
    d_: 'd\\',
    'e_f/g_h': 'e:f/g\\h',
    '__?_y': '\\\\?\\y',
    '.._z': '..\\z',
    'g/T1:mask.nii': 'g/T1:mask.nii',
  };
  const members = async (archive: string) =>
    Object.fromEntries(
      [...(await unzip(readFileSync(archive)))].map(([name, content]) => [name, `${content}`]),
    );

  const archive = path.join(root.path, 'a.zip');
  const { notes } = await packDirectory(source, archive);
  expect(await members(archive)).toEqual(expected);
  expect(notes).toHaveLength(10);
  expect(notes).toContain("A name that zip cannot carry was changed to 'T1_mask_1.nii'");

  const listed = names.map((name) => ({ name, path: path.join(source, name) }));
  expect((await packListed(listed, archive)).notes).toHaveLength(9);
  expect(await members(archive)).toEqual(expected);
});

test('A name that is not UTF-8 is replaced by a readable, unique one', async () => {
  await using root = await temporary();
  const source = path.join(root.path, 'source');
  mkdirSync(source);
  const latin = (name: string) => Buffer.concat([Buffer.from(`${source}/`), Buffer.from(name, 'latin1')]);
  writeFileSync(latin('cr\u00e2ne.nii'), 'latin');
  writeFileSync(path.join(source, 'cr\u00e2ne.nii'), 'utf-8');
  mkdirSync(latin('d\u00e9'));
  writeFileSync(Buffer.concat([latin('d\u00e9'), Buffer.from('/x')]), 'below');
  writeFileSync(latin('\u00ff'.repeat(255)), 'long');
  const archive = path.join(root.path, 'result.zip');
  const { notes } = await packDirectory(source, archive);
  const members = [...(await unzip(readFileSync(archive)))].map(([name, content]) => [name, `${content}`]);
  expect(Object.fromEntries(members)).toEqual({
    'cr\u00e2ne.nii': 'utf-8',
    'cr\u00e2ne_1.nii': 'latin',
    'd\u00e9/x': 'below',
    ['\u00ff'.repeat(127)]: 'long',
  });
  expect(notes).toHaveLength(3);
  expect(notes).toContain("A name that is not UTF-8 was changed to 'cr\u00e2ne_1.nii'");
  await extractArchive(archive, path.join(root.path, 'copy'), limits);
  expect(readFileSync(path.join(root.path, 'copy', 'cr\u00e2ne_1.nii'), 'utf8')).toBe('latin');
});
