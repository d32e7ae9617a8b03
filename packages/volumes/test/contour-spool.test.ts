import { existsSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporary } from '../../../test/support/temporary.js';
import { ContourSpool } from '../src/contour-spool.js';

test('Contours of several regions come back whole and in their order, from memory and from the file.', async () => {
  await using directory = await temporary();
  const [file, target] = ['spool', 'object'].map((name) => path.join(directory.path, name)) as [
    string,
    string,
  ];
  const contour = (fill: number, length: number) => Buffer.alloc(length, fill);
  // More than is held in memory, and than is copied at once; the last ones stay in memory.
  const large = [300_000, 1_500_000, 300_000].map((length, at) => contour(at + 1, length));
  {
    await using spool = await ContourSpool.open(file);
    for (const each of large) {
      await spool.add('liver', each);
      await spool.add('spleen', each);
    }
    await spool.add('liver', contour(9, 10));
    expect([spool.lengthOf('liver'), spool.lengthOf('none')]).toEqual([2_100_010, 0]);
    await using object = await open(target, 'w');
    for (const key of ['liver', 'none', 'spleen']) await spool.copyTo(key, object);
  }
  const whole = Buffer.concat([...large, contour(9, 10), ...large]);
  expect((await readFile(target)).equals(whole)).toBe(true);
  expect(existsSync(file)).toBe(false);
});
