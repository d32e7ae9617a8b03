import { createWriteStream, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import unzipper from 'unzipper';
import { expect, test } from 'vitest';
import { archiveEnd } from '../../src/archive/read-archive.js';
import { ZipWriter } from '../../src/archive/zip-writer.js';
import { temporary } from '../support/temporary.js';

test('an archive of very many files is complete, and does not block the event loop for long', {
  timeout: 120_000,
}, async () => {
  await using root = await temporary();
  const archive = path.join(root.path, 'a.zip');
  const stats = statSync(root.path);
  const writer = new ZipWriter(createWriteStream(archive), undefined);
  // Readers treat this number as the sign of zip64.
  const count = 65_535;
  const name = (index: number) => `a directory of a usual name/${index}`;
  for (let index = 0; index < count; index += 1) {
    await writer.addBytes(name(index), stats, Buffer.alloc(0));
  }
  globalThis.gc?.();
  const before = process.memoryUsage();
  // Turns of the event loop while the central directory is written.
  let turns = 0;
  let isWriting = true;
  const finished = writer.finish().finally(() => {
    isWriting = false;
  });
  while (isWriting) {
    await setImmediate();
    turns += 1;
  }
  await finished;
  expect(turns).toBeGreaterThan(10);
  // Written part by part, it would take 17 pieces of memory for each file, all at the same time.
  expect(process.memoryUsage().heapUsed - before.heapUsed).toBeLessThan(32 << 20);

  await using file = await open(archive);
  expect((await archiveEnd(file)).entries).toBe(count);
  const { files } = await unzipper.Open.file(archive);
  expect(files).toHaveLength(count);
  expect([files[0]?.path, files.at(-1)?.path]).toEqual([name(0), name(count - 1)]);
});
