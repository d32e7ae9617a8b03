import { symlinkSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { UploadTurns } from '../../../src/server/uploads/limits.js';
import { SyncBehind } from '../../../src/server/uploads/uploaded-file.js';
import { plant, temporary } from '../../support/temporary.js';

const mebibyte = 1 << 20;

/** What is told of a file that bytes are written to. A link cannot be opened, so each sync of it is told as an error. */
async function told(file: string, ...written: readonly number[]): Promise<unknown[]> {
  const errors: unknown[] = [];
  const behind = new SyncBehind(new UploadTurns(), (cause) => errors.push(cause));
  for (const bytes of written) behind.wrote(file, bytes);
  await behind.settled();
  return errors;
}

test('a file is synced while it arrives, each time that so many bytes are written', async () => {
  await using directory = await temporary();
  await plant(directory.path, { real: 'x' });
  const link = path.join(directory.path, 'link');
  symlinkSync('real', link);
  expect(await told(link, 7 * mebibyte)).toEqual([]);
  expect(await told(link, 4 * mebibyte, 4 * mebibyte)).toMatchObject([{ code: 'ELOOP' }]);
  // The sync before this one has given its turn back.
  expect(await told(link, 8 * mebibyte)).toMatchObject([{ code: 'ELOOP' }]);
  expect(await told(path.join(directory.path, 'real'), 8 * mebibyte)).toEqual([]);
});

test('bytes of other files do not count', async () => {
  await using directory = await temporary();
  const link = path.join(directory.path, 'link');
  symlinkSync('nowhere', link);
  const errors: unknown[] = [];
  const behind = new SyncBehind(new UploadTurns(), (cause) => errors.push(cause));
  for (const name of ['a', 'b', 'c']) behind.wrote(`${link}/${name}`, 7 * mebibyte);
  await behind.settled();
  expect(errors).toEqual([]);
});

test('a file that is gone is no failure: its upload has ended', async () => {
  await using directory = await temporary();
  expect(await told(path.join(directory.path, 'gone'), 8 * mebibyte)).toEqual([]);
});

test('one sync at a time is under way', async () => {
  await using directory = await temporary();
  const link = path.join(directory.path, 'link');
  symlinkSync('nowhere', link);
  expect(await told(link, 8 * mebibyte, 8 * mebibyte)).toHaveLength(1);
});
