import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { extractArchive } from '../../src/archive/extract.js';
import { plant, temporary } from '../support/temporary.js';
import { type Entry, zip } from '../support/zip.mjs';

/** Extracts these entries into `out` as a client does, by the rules of a platform. */
async function extract(root: string, entries: readonly Entry[], platform: NodeJS.Platform = 'linux') {
  const archive = path.join(root, 'out', 'result.zip');
  mkdirSync(path.dirname(archive), { recursive: true });
  writeFileSync(archive, zip(entries));
  return extractArchive(archive, path.join(root, 'out'), {
    maxBytes: 1 << 20,
    maxEntries: 1000,
    reserved: ['result.zip'],
    lenient: true,
    platform,
  });
}

/** The files under `out`, by name. */
function extracted(root: string): Record<string, string> {
  const out = path.join(root, 'out');
  const names = readdirSync(out, { recursive: true, encoding: 'utf8' });
  const files = names.filter((name) => name !== 'result.zip' && lstatSync(path.join(out, name)).isFile());
  return Object.fromEntries(files.sort().map((name) => [name, readFileSync(path.join(out, name), 'utf8')]));
}

/** Entries whose content is their name. */
const named = (...names: string[]): Entry[] => names.map((name) => ({ name, content: name }));

describe('a result', () => {
  test('A result keeps every name that is possible on the system', async () => {
    await using root = await temporary();
    const names = [
      'T1:mask.nii',
      'T2:mask.nii',
      'aux.nii.gz',
      'con.json',
      'd/x. ',
      ' lead',
      'Mask.nii',
      'mask.nii',
    ];
    const { notes } = await extract(root.path, named(...names, 'x/'.repeat(100)));
    expect(extracted(root.path)).toEqual(Object.fromEntries(names.sort().map((name) => [name, name])));
    expect(notes).toEqual([]);
  });

  test('A result loses line feeds, other control characters and backslashes from its names, with a note', async () => {
    await using root = await temporary();
    const { notes, files } = await extract(root.path, named('a\nb', 'a\\b', 'a_b', 'd\te/x\u007f', 'n\0'));
    expect(extracted(root.path)).toEqual({
      a_b: 'a_b',
      a_b_1: 'a\nb',
      a_b_2: 'a\\b',
      'd_e/x_': 'd\te/x\u007f',
      n_: 'n\0',
    });
    expect(files).toBe(5);
    expect(notes).toHaveLength(4);
    expect(notes[1]).toContain("was extracted as 'a_b_2': its own name cannot be used here");
  });

  test('On Windows, a result gets distinct names that Windows allows', async () => {
    await using root = await temporary();
    const names = ['T1:x', 'T1?x', 'T1_x', 'aux.nii.gz', 'dir?/a', 'dir:/a', 'dot.', 'Mask.nii', 'mask.nii'];
    const { notes, files } = await extract(root.path, named(...names), 'win32');
    expect(extracted(root.path)).toEqual({
      'Mask.nii': 'Mask.nii',
      T1_x: 'T1_x',
      T1_x_1: 'T1:x',
      T1_x_2: 'T1?x',
      '_aux.nii.gz': 'aux.nii.gz',
      'dir_/a': 'dir?/a',
      'dir_/a_1': 'dir:/a',
      dot_: 'dot.',
      'mask_1.nii': 'mask.nii',
    });
    expect(files).toBe(names.length);
    expect(notes).toHaveLength(7);
    expect(notes).toContain("'T1:x' was extracted as 'T1_x_1': its own name cannot be used here");
  });

  test('A result gets different names for those that macOS treats as the same', async () => {
    await using root = await temporary();
    await extract(root.path, named('\u00e9.nii', 'e\u0301.nii', 'd/A', 'D/a'), 'darwin');
    expect(Object.values(extracted(root.path)).sort()).toEqual(
      ['D/a', 'd/A', 'e\u0301.nii', '\u00e9.nii'].sort(),
    );
    expect(Object.keys(extracted(root.path)).map((name) => name.normalize('NFC').toLowerCase())).toHaveLength(
      4,
    );
  });

  test('A result with an entry named like its archive gets another name for it', async () => {
    await using root = await temporary();
    const { notes } = await extract(root.path, named('result.zip', 'result_1.zip', 'd/result.zip'));
    expect(extracted(root.path)).toEqual({
      'result_1.zip': 'result_1.zip',
      'result_2.zip': 'result.zip',
      'd/result.zip': 'd/result.zip',
    });
    expect(notes).toEqual(["'result.zip' was extracted as 'result_2.zip': its own name cannot be used here"]);
    expect(readFileSync(path.join(root.path, 'out', 'result.zip')).readUInt32LE(0)).toBe(0x04034b50);
  });

  test('A result with a directory named like its archive gets another name for all of it, however the name is written', async () => {
    await using root = await temporary();
    const names = ['result.zip/a', 'd/result.zip', 'result.zip/b', 'RESULT.zip/c'];
    await extract(root.path, named(...names), 'darwin');
    expect(extracted(root.path)).toEqual({
      'd/result.zip': 'd/result.zip',
      'result_1.zip/a': 'result.zip/a',
      'result_1.zip/b': 'result.zip/b',
      'result_1.zip/c': 'RESULT.zip/c',
    });
    expect(lstatSync(path.join(root.path, 'out', 'result.zip')).isFile()).toBe(true);
  });

  test('A result leaves out only a file that cannot be written', async () => {
    await using root = await temporary();
    const long = 'é'.repeat(128);
    const deep = 'd/'.repeat(2500);
    const entries = named('a', long, `b/${long}`, `${deep}x`, 'file', 'file/below', 'z');
    const { files, notes } = await extract(root.path, entries);
    expect(extracted(root.path)).toEqual({ a: 'a', file: 'file', z: 'z' });
    expect(files).toBe(3);
    expect(notes.filter((note) => note.endsWith(' was not extracted: its name is too long'))).toHaveLength(3);
    expect(notes).toHaveLength(4);
  });

  test.for(['../a', '/a', 'a/../../b', 'a//b', ''])(
    'A name that leads outside the destination is refused: %o',
    async (name) => {
      await using root = await temporary();
      await expect(extract(root.path, named('first', name))).rejects.toMatchObject({ fault: 'unsafe' });
      await expect(extract(root.path, named('first', name), 'win32')).rejects.toMatchObject({
        fault: 'unsafe',
      });
      expect(readdirSync(path.join(root.path, 'out'))).toEqual(['result.zip']);
    },
  );

  test('A result with two entries of one name, or with a link, is refused', async () => {
    await using root = await temporary();
    await expect(extract(root.path, named('a', 'b', 'a'))).rejects.toMatchObject({ fault: 'unsafe' });
    const link = { name: 'link', content: '/etc', mode: 0o120777 };
    await expect(extract(root.path, [...named('a'), link])).rejects.toMatchObject({ fault: 'unsafe' });
  });

  test('A result follows no link in the destination, and does not wait for a FIFO', async () => {
    await using root = await temporary();
    await plant(root.path, { 'out/kept': '', 'elsewhere/x': 'untouched', outside: 'untouched' });
    const out = path.join(root.path, 'out');
    symlinkSync('../elsewhere', path.join(out, 'd'));
    symlinkSync('../outside', path.join(out, 'a'));
    execFileSync('mkfifo', [path.join(out, 'fifo')]);
    const { notes } = await extract(root.path, named('d/x', 'd/e/y', 'a', 'fifo', 'z'));
    // The file behind the link is unchanged.
    expect(extracted(root.path)).toEqual({ 'd/x': 'untouched', kept: '', z: 'z' });
    expect(notes).toHaveLength(4);
    expect(readFileSync(path.join(root.path, 'elsewhere/x'), 'utf8')).toBe('untouched');
    expect(readFileSync(path.join(root.path, 'outside'), 'utf8')).toBe('untouched');
    expect(existsSync(path.join(root.path, 'elsewhere/e'))).toBe(false);
  });

  test('A result with names written by an old zip program is read correctly', async () => {
    await using root = await temporary();
    const archive = path.join(root.path, 'old.zip');
    // Code page 437, without the flag that says UTF-8: 0x82 is é.
    const bytes = zip([{ name: 'caf\u0001.txt', content: 'x' }]);
    for (let at = bytes.indexOf('caf\u0001'); at >= 0; at = bytes.indexOf('caf\u0001')) bytes[at + 3] = 0x82;
    for (const [signature, flags] of [
      ['PK\u0003\u0004', 7],
      ['PK\u0001\u0002', 9],
    ] as const) {
      bytes[bytes.indexOf(signature) + flags] = 0;
    }
    writeFileSync(archive, bytes);
    await extractArchive(archive, path.join(root.path, 'old'), {
      maxBytes: 1 << 20,
      maxEntries: 9,
      lenient: true,
    });
    expect(readdirSync(path.join(root.path, 'old'))).toEqual(['café.txt']);
  });
});
