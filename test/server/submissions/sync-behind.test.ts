import { symlinkSync } from 'node:fs';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { DiskWatch } from '../../../src/server/submissions/index.js';
import { UploadTurns } from '../../../src/server/submissions/limits.js';
import { dropWritten, SyncBehind, UploadedFile } from '../../../src/server/submissions/uploaded-file.js';
import { plant, temporary } from '../../support/temporary.js';

const mebibyte = 1 << 20;

/**
 * Whether a file was synced while so many bytes were written to it. A link cannot be opened, so each sync of it is an error,
 * which is told at the end.
 */
async function settled(turns: UploadTurns, file: string, ...written: readonly number[]): Promise<void> {
  const behind = new SyncBehind(turns);
  for (const bytes of written) behind.wrote(file, bytes);
  await behind.settled();
}

test('a file is synced while it arrives, each time that so many bytes are written', async () => {
  await using directory = await temporary();
  await plant(directory.path, { real: 'x' });
  const link = path.join(directory.path, 'link');
  symlinkSync('real', link);
  const turns = new UploadTurns();
  await settled(turns, link, 7 * mebibyte);
  await expect(settled(turns, link, 4 * mebibyte, 4 * mebibyte)).rejects.toMatchObject({ code: 'ELOOP' });
  // The sync before this one has given its turn back.
  await expect(settled(turns, link, 8 * mebibyte)).rejects.toMatchObject({ code: 'ELOOP' });
  await settled(turns, path.join(directory.path, 'real'), 8 * mebibyte);
});

test('bytes of other files do not count', async () => {
  await using directory = await temporary();
  const link = path.join(directory.path, 'link');
  symlinkSync('nowhere', link);
  const behind = new SyncBehind(new UploadTurns());
  for (const name of ['a', 'b', 'c']) behind.wrote(`${link}/${name}`, 7 * mebibyte);
  await behind.settled();
});

test('a file that is gone is no failure: its upload has ended', async () => {
  await using directory = await temporary();
  await settled(new UploadTurns(), path.join(directory.path, 'gone'), 8 * mebibyte);
});

test('one upload at a time syncs', async () => {
  await using directory = await temporary();
  const link = path.join(directory.path, 'link');
  symlinkSync('nowhere', link);
  const turns = new UploadTurns();
  const [first, second] = [new SyncBehind(turns), new SyncBehind(turns)];
  first.wrote(link, 8 * mebibyte);
  second.wrote(link, 8 * mebibyte);
  await second.settled();
  await expect(first.settled()).rejects.toMatchObject({ code: 'ELOOP' });
});

test.each([
  [0, 'abcdefg'],
  [2, 'cdefg'],
  [3, 'defg'],
  [4, 'efg'],
  [6, 'g'],
])('after a write of only %i bytes, the others are left', (written, left) => {
  const pieces = ['abc', 'def', 'g'].map((each) => Buffer.from(each));
  dropWritten(pieces, written);
  expect(Buffer.concat(pieces).toString()).toBe(left);
});

test('a write that fails while the next piece is awaited is the error of that piece', async () => {
  await using directory = await temporary();
  const disk = new DiskWatch(directory.path, async () => false);
  const target = path.join(directory.path, 'gone', 'ct.nii');
  const file = new UploadedFile(target, disk, new SyncBehind(new UploadTurns()));
  file.take(Buffer.alloc(mebibyte));
  // An error that nobody looks at would end the process here.
  await setImmediate();
  await expect(file.take(Buffer.alloc(mebibyte))).rejects.toMatchObject({ code: 'ENOENT' });
  await file.abandon();
});
