import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { operations, ServiceError } from '../../../src/contract/index.js';
import {
  DiskWatch,
  diskSpace,
  noSpace,
  uploadFault,
  withSpace,
} from '../../../src/server/submissions/disk-space.js';
import {
  checkFits,
  checkSpace,
  extractionLimits,
  framingAllowance,
  framingOfUpload,
  limitsOf,
  UploadQuota,
  within,
} from '../../../src/server/submissions/limits.js';
import { smallDisk } from '../../support/small-disk.js';
import { temporary } from '../../support/temporary.js';

const mebibyte = 1 << 20;
const settings = {
  maxFileSize: 2 * mebibyte,
  maxUploadSize: 6 * mebibyte,
  maxDatasetSize: null,
  requireDeidentified: false,
};
const plain = { maxFileSize: 2 * mebibyte, maxUploadSize: 6 * mebibyte };
const ofAdmin = "; an admin sets it with 'serve --max-dataset-size'";

test('a data set has limits of its own where the admin sets them, and says whose they are', () => {
  expect(limitsOf(settings, operations.infer)).toEqual({
    ...plain,
    maxExtractedSize: 60 * mebibyte,
    advice: '',
  });
  expect(limitsOf(settings, operations.fine_tune)).toEqual({
    ...plain,
    maxExtractedSize: 60 * mebibyte,
    advice: ofAdmin,
  });
  const large = { ...settings, maxDatasetSize: 90 * mebibyte };
  expect(limitsOf(large, operations.infer)).toEqual({
    ...plain,
    maxExtractedSize: 60 * mebibyte,
    advice: '',
  });
  const most = 90 * mebibyte;
  expect(limitsOf(large, operations.fine_tune)).toEqual({
    maxFileSize: most,
    maxUploadSize: most,
    maxExtractedSize: most,
    advice: ofAdmin,
  });
});

test('a smaller limit of an owner takes their place, with whose it is, and a larger one does not', () => {
  const limits = limitsOf(settings, operations.infer);
  const advice = " of the token 'ana'";
  expect(within(limits, { bytes: 6 * mebibyte, advice })).toBe(limits);
  expect(within(limits, { bytes: null, advice })).toBe(limits);
  expect(within(limits, { bytes: 3 * mebibyte, advice })).toEqual({
    ...limits,
    maxUploadSize: 3 * mebibyte,
    advice,
  });
  expect(within(limits, { bytes: mebibyte, advice })).toMatchObject({
    maxUploadSize: mebibyte,
    maxFileSize: mebibyte,
  });
  expect(extractionLimits({ ...limits, advice })).toMatchObject({ maxBytes: 60 * mebibyte, advice });
});

test('bytes count as they come: of each file, of all, and of what is around them', () => {
  const quota = new UploadQuota({ ...limitsOf(settings, operations.infer), advice: ' of mine' });
  quota.takeFile(2 * mebibyte, 2 * mebibyte, 'a.nii');
  expect(() => quota.checkFile(2 * mebibyte + 1, 'b.nii')).toThrow(
    "File 'b.nii' is larger than the limit of 2.0 MiB of mine",
  );
  expect(() => quota.takeFile(0, 2 * mebibyte + 1, 'b.nii')).toThrow("File 'b.nii' is larger");
  quota.takeFile(2 * mebibyte, 2 * mebibyte, 'b.nii');
  quota.takeFile(2 * mebibyte, 2 * mebibyte, 'c.nii');
  expect(() => quota.takeFile(1, 1, 'd.nii')).toThrow(
    'The upload is larger than the limit of 6.0 MiB of mine',
  );
  const most = 6 * mebibyte + framingAllowance(3);
  quota.checkRequest(most, 3);
  expect(() => quota.checkRequest(most + 1, 3)).toThrow('The upload is larger');
  expect([framingAllowance(0), framingAllowance(3) - framingAllowance(0)]).toEqual([1.5 * mebibyte, 3072]);
  // As many parts as files of 4 KiB, but no more than a form may have.
  expect([framingOfUpload(8193), framingOfUpload(2 ** 40)].map((each) => each - framingAllowance(0))).toEqual(
    [3 * 1024, 21_000 * 1024],
  );
});

test('a request that states too much is refused before it is read', async () => {
  await using directory = await temporary();
  const limits = limitsOf(settings, operations.infer);
  const most = 6 * mebibyte + framingOfUpload(6 * mebibyte);
  const check = (bytes: number | undefined) => checkSpace(bytes, directory.path, limits, async () => false);
  await check(most);
  await check(undefined);
  await expect(check(most + 1)).rejects.toThrow('The upload is larger than the limit of 6.0 MiB');
});

describe('room on the disk', () => {
  const full = () => Object.assign(new Error('No space left'), { code: 'ENOSPC' });

  test('is made as long as that helps, and for nothing but a full disk', async () => {
    let made = 0;
    const makeRoom = async () => {
      made += 1;
      return made < 3;
    };
    let tries = 0;
    const attempt = (cause: () => Error, successAt: number) => async () => {
      tries += 1;
      if (tries < successAt) throw cause();
      return tries;
    };
    expect(await withSpace(makeRoom, attempt(full, 3))).toBe(3);
    const refused = () => new ServiceError('diskFull', 'It is full');
    await expect(withSpace(makeRoom, attempt(refused, 9))).rejects.toThrow('It is full');
    expect(made).toBe(3);
    await expect(
      withSpace(
        makeRoom,
        attempt(() => new Error('Another'), 9),
      ),
    ).rejects.toThrow('Another');
    expect(made).toBe(3);
  });

  test.for([
    [
      { free: 5 * mebibyte, bytes: -1, files: 9 },
      "The server's disk has 5.0 MiB free, which it keeps for the jobs that run: too little for x; try again later",
    ],
    [
      { free: 5 * mebibyte, bytes: 3, files: 9 },
      "The server's disk has too little room for x; try again later",
    ],
    [
      { free: 5 * mebibyte, bytes: 0, files: -1 },
      "The server's disk has too few inodes (files) left for x; try again later, or ask its admin to remove files there",
    ],
    [
      { free: 5 * mebibyte, bytes: -1, files: -1 },
      "The server's disk has 5.0 MiB free, which it keeps for the jobs that run: too little for x; try again later",
    ],
  ] as const)('is lacking as of %o', ([space, sentence]) => {
    expect(noSpace(space, 'x').detail).toBe(sentence);
  });

  const disk = smallDisk(16, 4096);

  test.skipIf(disk === null)('is what a reserve leaves of it, in bytes and in files', async () => {
    const at = disk ?? '';
    const { free, bytes, files } = diskSpace(at);
    expect([free - bytes, files]).toEqual([2 * mebibyte, expect.closeTo(4096 - 512, -2)]);
    await checkFits(bytes, at, async () => false);
    await expect(checkFits(bytes + 1, at, async () => false)).rejects.toThrow(
      /too little room for an upload of 14\.0 MiB/,
    );
    let asked = 0;
    const watch = new DiskWatch(at, async () => {
      asked += 1;
      return false;
    });
    writeFileSync(path.join(at, 'filler'), Buffer.alloc(15 * mebibyte));
    // Looked at every two mebibytes; an empty file counts as a block.
    await watch.wrote(2 * mebibyte - 4096);
    expect(watch.isDue).toBe(false);
    watch.wroteFile(0);
    expect(watch.isDue).toBe(true);
    await expect(watch.check()).rejects.toThrow('too little for this upload');
    expect([watch.isDue, asked]).toEqual([false, 1]);
    mkdirSync(path.join(at, 'd'));
    expect(() => {
      for (let count = 0; count < 5000; count += 1) writeFileSync(path.join(at, 'd', String(count)), '');
    }).toThrow();
    const fault = Object.assign(new Error('No space left'), {
      code: 'ENOSPC',
      path: path.join(at, 'd', 'x'),
    });
    expect(uploadFault(fault)).toMatchObject({ code: 'diskFull', detail: expect.stringContaining('inodes') });
    expect(uploadFault(full())).not.toBeInstanceOf(ServiceError);
  });
});
