import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { packDirectory } from '../../src/archive/pack.js';
import { Packer } from '../../src/archive/packer.js';
import { plant, temporary } from '../support/temporary.js';

test('More directories than can be packed at once are all packed, except an aborted one', async () => {
  await using root = await temporary();
  const source = path.join(root.path, 'source');
  await plant(source, { 'noise.bin': randomBytes(3_000_000) });
  const archives = path.join(root.path, 'archives');
  mkdirSync(archives);
  const packer = new Packer();
  const givenUp = new AbortController();
  const reason = new Error('given up');
  const archive = (index: number) => path.join(archives, `${index}.zip`);

  const orders = Array.from({ length: 9 }, (_, index) =>
    packer.pack(source, archive(index), index === 7 ? givenUp.signal : new AbortController().signal),
  );
  // It waits behind the first four, and can be aborted before its turn.
  givenUp.abort(reason);
  await expect(orders[7]).rejects.toBe(reason);
  expect(existsSync(archive(0))).toBe(false);

  const ended = await Promise.allSettled(orders);
  expect(ended.filter(({ status }) => status === 'fulfilled')).toHaveLength(8);
  expect(readdirSync(archives).sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 8].map((index) => `${index}.zip`));
});

test('An aborted packing leaves no file, and the next one gets its turn', async () => {
  await using root = await temporary();
  const source = path.join(root.path, 'source');
  await plant(source, { 'noise.bin': randomBytes(20_000_000) });
  const archives = path.join(root.path, 'archives');
  mkdirSync(archives);
  const packer = new Packer();
  const controls = Array.from({ length: 5 }, () => new AbortController());
  const orders = controls.map(({ signal }, index) =>
    packer.pack(source, path.join(archives, `${index}.zip`), signal),
  );
  for (const control of controls.slice(0, 4)) control.abort();
  const ended = await Promise.allSettled(orders);
  expect(ended.map(({ status }) => status)).toEqual([...Array(4).fill('rejected'), 'fulfilled']);
  expect(readdirSync(archives)).toEqual(['4.zip']);
});

/** Makes a sparse file of zeros in a directory of its own. */
async function plantZeros(directory: string, gibibytes: number): Promise<string> {
  mkdirSync(directory);
  await using file = await open(path.join(directory, 'zeros.raw'), 'w');
  await file.truncate(gibibytes * 1024 ** 3);
  return directory;
}

test('Large results take turns, so one that takes hours does not delay the others', async () => {
  await using root = await temporary();
  const giant = await plantZeros(path.join(root.path, 'giant'), 8192);
  // It needs a second turn.
  const large = await plantZeros(path.join(root.path, 'large'), 0.375);
  const packer = new Packer();
  const pack = (source: string, name: string, signal = new AbortController().signal) =>
    packer.pack(source, path.join(root.path, name), signal);
  const stops = [0, 1, 2].map(() => new AbortController());
  const giants = stops.map(({ signal }, index) => pack(giant, `giant-${index}.zip`, signal));
  const ended = Promise.allSettled(giants);
  expect(await pack(large, 'large.zip')).toMatchObject({ files: 1, bytes: 0.375 * 2 ** 30 });
  // Two of the three have a turn and one waits: each can be ended, and the turns go on to the next.
  for (const [index, stop] of stops.entries()) {
    stop.abort();
    await expect(giants[index]).rejects.toThrow('aborted');
  }
  await ended;
  expect(readdirSync(root.path).sort()).toEqual(['giant', 'large', 'large.zip']);
});

test('Empty directories and omitted entries count as work, as files do', async () => {
  await using root = await temporary();
  const source = path.join(root.path, 'source');
  await plant(source, { 'a/': '', 'b/': '', 'c.txt': 'c' });
  symlinkSync('/', path.join(source, 'd'));
  const counts: number[] = [];
  const onProgress = (entries: number) => {
    counts.push(entries);
  };
  const { files } = await packDirectory(source, path.join(root.path, 'all.zip'), { onProgress });
  expect([files, counts]).toEqual([1, [0, 1, 2, 3, 4]]);
});

test('Small results do not wait for large ones', async () => {
  await using root = await temporary();
  const small = path.join(root.path, 'small');
  await plant(root.path, { 'small/a': 'a' });
  const giant = await plantZeros(path.join(root.path, 'giant'), 64);
  const packer = new Packer();
  const stop = new AbortController();
  const giants = Array.from({ length: 6 }, (_, index) =>
    packer.pack(giant, path.join(root.path, `giant-${index}.zip`), stop.signal),
  );
  const ended = Promise.allSettled(giants);
  const { files } = await packer.pack(small, path.join(root.path, 'small.zip'), new AbortController().signal);
  expect(files).toBe(1);
  stop.abort();
  expect((await ended).map(({ status }) => status)).toEqual(Array(6).fill('rejected'));
  expect(readdirSync(root.path).sort()).toEqual(['giant', 'small', 'small.zip']);
});
