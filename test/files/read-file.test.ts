import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import path from 'node:path';
import { expect, test } from 'vitest';
import { hashFile } from '../../src/files/hash-file.js';
import { firstBytes, readScriptStart, readSmallFile } from '../../src/files/read-file.js';
import { plant, temporary } from '../support/temporary.js';

test('Only regular files have first bytes', async () => {
  await using root = await temporary();
  await plant(root.path, { file: 'abcdef', empty: '', 'directory/': '' });
  execFileSync('mkfifo', [path.join(root.path, 'fifo')]);
  const first = (name: string, most: number) => firstBytes(path.join(root.path, name), most).toString();
  expect([first('file', 3), first('file', 6), first('file', 10), first('empty', 3)]).toEqual([
    'abc',
    'abcdef',
    'abcdef',
    '',
  ]);
  expect([first('directory', 3), first('fifo', 3), first('missing', 3)]).toEqual(['', '', '']);
  expect(firstBytes('/dev/zero', 3)).toEqual(Buffer.alloc(0));
});

test.each<[string, string[]]>([
  ['#!/usr/bin/env python3\nprint()\n', ['/usr/bin/env', 'python3']],
  ['#!  /bin/sh  -e \n', ['/bin/sh', '-e']],
  ['#!/bin/sh', ['/bin/sh']],
  ['echo #!/bin/sh\n', []],
  ['\n#!/bin/sh\n', []],
])('The script %j has the shebang words %j', async (text, shebang) => {
  await using root = await temporary();
  await plant(root.path, { script: text });
  expect(readScriptStart(path.join(root.path, 'script'))).toEqual({ shebang, text });
});

test('A small file is read up to 64 KiB, or up to the requested number of bytes', async () => {
  await using root = await temporary();
  // Each piece that is read differs.
  const text = Array.from({ length: 16 * 1024 }, (_, index) => `${index}`.padStart(4, ' '))
    .join('')
    .slice(0, 64 * 1024);
  await plant(root.path, { most: text, more: `${text}x`, empty: '', 'directory/': '' });
  execFileSync('mkfifo', [path.join(root.path, 'fifo')]);
  const read = (name: string, most?: number) => () => readSmallFile(path.join(root.path, name), most);
  expect(read('most')()).toBe(text);
  expect(read('empty')()).toBe('');
  expect(read('more')).toThrow('it is longer than 64 KiB');
  expect(read('more', 65 * 1024)()).toBe(`${text}x`);
  expect(read('most', 1024)).toThrow('it is longer than 1 KiB');
  expect(read('directory')).toThrow('it is not a regular file');
  expect(read('fifo')).toThrow('it is not a regular file');
  expect(read('missing')).toThrow('ENOENT');
});

test('A file is hashed from its first byte to its last', async () => {
  await using root = await temporary();
  const mebibyte = 1 << 20;
  const bytes = Buffer.concat([Buffer.alloc(mebibyte, 1), Buffer.alloc(mebibyte, 2), Buffer.alloc(5, 3)]);
  await plant(root.path, { file: bytes, empty: '' });
  const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');
  const hash = (name: string) => hashFile(path.join(root.path, name));
  expect(await hash('file')).toEqual({ size: bytes.length, sha256: sha256(bytes) });
  expect(await hash('empty')).toEqual({ size: 0, sha256: sha256(Buffer.alloc(0)) });
});
