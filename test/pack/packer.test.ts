import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Packer } from '../../src/pack/packer.js';
import { plant, temporary } from '../support/temporary.js';

test('more directories than are packed at once are all packed, and an aborted one is not', async () => {
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

test('an aborted packing leaves no file, and the next one gets its turn', async () => {
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

test('small results do not wait for large ones', async () => {
  await using root = await temporary();
  const giant = path.join(root.path, 'giant');
  const small = path.join(root.path, 'small');
  await plant(root.path, { 'giant/': '', 'small/a': 'a' });
  // A sparse file of zeros, which takes minutes to pack.
  await open(path.join(giant, 'zeros.raw'), 'w').then(async (file) => {
    await file.truncate(64 * 1024 ** 3);
    await file.close();
  });
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
