import { execFileSync } from 'node:child_process';
import { closeSync, constants, linkSync, readFileSync, statSync, symlinkSync, writeSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openOwnFile, readOwnFile } from '../../src/files/own-file.js';
import { plant, temporary } from '../support/temporary.js';

const { O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_WRONLY } = constants;

test("A file that a job planted in place of one of the server's own is neither read nor written", async () => {
  await using root = await temporary();
  const at = (name: string) => path.join(root.path, name);
  await plant(root.path, { file: 'text', other: 'secret', 'directory/file': 'text' });
  symlinkSync('file', at('link'));
  symlinkSync('directory', at('linked'));
  linkSync(at('other'), at('second'));
  execFileSync('mkfifo', [at('fifo')]);
  const opened = (name: string, flags: number) => {
    try {
      closeSync(openOwnFile(at(name), flags));
      return 'opened';
    } catch (cause) {
      return (cause as Error).message.replaceAll(root.path, '');
    }
  };
  expect({
    read: ['file', 'link', 'directory', 'fifo', 'second'].map((each) => opened(each, O_RDONLY)),
    written: ['file', 'link', 'directory', 'fifo', 'second'].map((each) => opened(each, O_WRONLY)),
    both: opened('second', O_RDWR),
  }).toEqual({
    read: [
      'opened',
      "'link' is not a regular file",
      "'directory' is not a regular file of its own",
      "'fifo' is not a regular file of its own",
      'opened',
    ],
    written: [
      'opened',
      "'link' is not a regular file",
      "'directory' is not a regular file",
      "'fifo' is not a regular file",
      "'second' is not a regular file of its own",
    ],
    both: "'second' is not a regular file of its own",
  });
  expect(opened('linked/file', O_RDONLY)).toMatch(/^(ENOTDIR|ELOOP): /);
  expect(opened('missing', O_RDONLY)).toMatch(/^ENOENT: /);
});

test('A file of the server is readable only by its own user', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'file');
  const descriptor = openOwnFile(file, O_WRONLY | O_CREAT | O_EXCL);
  writeSync(descriptor, 'text');
  closeSync(descriptor);
  expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual(['text', 0o600]);
});

test('A file of the server is read up to a size limit, and with a second hard link only where allowed', async () => {
  await using root = await temporary();
  const at = (name: string) => path.join(root.path, name);
  await plant(root.path, { four: 'text', five: 'texts', first: 'text' });
  linkSync(at('first'), at('second'));
  expect(readOwnFile(at('four'), 4)).toBe('text');
  expect(() => readOwnFile(at('five'), 4)).toThrow("'five' is longer than 4 bytes");
  expect(readOwnFile(at('missing'), 4)).toBeUndefined();
  expect(() => readOwnFile(at('four/file'), 4)).toThrow('ENOTDIR');
  expect(readOwnFile(at('second'), 4)).toBe('text');
  expect(readOwnFile(at('four'), 4, true)).toBe('text');
  expect(() => readOwnFile(at('second'), 4, true)).toThrow("'second' has another name elsewhere");
});
