import { closeSync, openSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { appendWhole } from '../../src/files/append-whole.js';
import { smallDisk } from '../support/small-disk.js';

const disk = smallDisk(1);

// Not every machine allows mounting.
test.skipIf(disk === null)(
  'a disk that fills takes no part of what does not fit, and the next fits again',
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
