import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { appendLine, appendWhole, lastLines, openLines } from '../../src/files/lines.js';
import { smallDisk } from '../support/small-disk.js';
import { temporary } from '../support/temporary.js';

const disk = smallDisk(1);

// Not every machine allows mounting.
test.skipIf(disk === null)(
  'A full disk accepts no partial line, and accepts the next line once there is space',
  () => {
    const file = path.join(disk ?? '', 'lines');
    const descriptor = openSync(file, 'a');
    try {
      appendWhole(descriptor, Buffer.from('first\n'));
      const filler = path.join(disk ?? '', 'filler');
      const { bavail, bsize } = statfsSync(disk ?? '');
      writeFileSync(filler, Buffer.alloc((bavail - 1) * bsize));
      const large = Buffer.alloc(1 << 18, 'x');
      expect(() => appendWhole(descriptor, large)).toThrow(/ENOSPC/);
      expect(readFileSync(file, 'utf8')).toBe('first\n');
      rmSync(filler);
      appendWhole(descriptor, Buffer.from('last\n'));
      expect(readFileSync(file, 'utf8')).toBe('first\nlast\n');
    } finally {
      closeSync(descriptor);
    }
  },
);

test('Only a regular file can be read as lines, and other files do not block', async () => {
  await using directory = await temporary();
  const name = (each: string) => path.join(directory.path, each);
  mkdirSync(name('directory'));
  execFileSync('mkfifo', [name('fifo')]);
  for (const each of ['directory', 'fifo']) {
    expect(() => openLines(name(each))).toThrow(/EISDIR|not a regular file/);
    expect(() => lastLines(name(each), 1000)).toThrow('not a regular file');
  }
  expect(() => openLines(name('absent'), false)).toThrow('ENOENT');
  symlinkSync('lines', name('link'));
  appendLine(name('link'), 'first');
  expect(readFileSync(name('lines'), 'utf8')).toBe('first\n');
});
