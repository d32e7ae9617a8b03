import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ServiceError } from '../../../src/contract/index.js';
import { DiskSpace, writeFault } from '../../../src/server/uploads/disk-space.js';
import { smallDisk } from '../../support/small-disk.js';

const mebibyte = 1 << 20;
const disk = smallDisk(16, 4096);
const at = (...names: string[]) => path.join(disk ?? '', ...names);
const full = () => Object.assign(new Error('No space left'), { code: 'ENOSPC' });

test.skipIf(disk === null)(
  'A reserve of bytes and files stays free, and what is promised counts as used',
  async () => {
    const asked: unknown[] = [];
    const space = new DiskSpace(at(), async (...words) => {
      asked.push(words);
      return false;
    });
    const { free, bytes, files } = space.freeNow();
    expect([free - bytes, files]).toEqual([2 * mebibyte, expect.closeTo(4096 - 512, -2)]);
    {
      using first = space.reservationFor('ana');
      await first.take(bytes - 5, 'this upload');
      using second = space.reservationFor('bob');
      await second.take(5, 'this upload');
      await expect(second.take(7, 'a copy')).rejects.toThrow(
        "The server's disk has too little room for a copy; try again later",
      );
      expect(asked).toEqual([[7, 'bob']]);
      // What is written is no longer promised, and the rest is given back in the end.
      await first.wrote(1000);
      expect(space.promised).toBe(bytes - 1000);
    }
    expect(space.promised).toBe(0);
  },
);

test.skipIf(disk === null)('The disk is checked every two mebibytes while a request writes', async () => {
  const filler = at('filler');
  let rooms = 1;
  const space = new DiskSpace(at(), async () => {
    rooms -= 1;
    if (rooms === 0) rmSync(filler);
    return rooms === 0;
  });
  using reservation = space.reservationFor('ana');
  await reservation.take(3 * mebibyte, 'this upload');
  writeFileSync(filler, Buffer.alloc(15 * mebibyte));
  await reservation.wrote(2 * mebibyte - 1);
  expect(rooms).toBe(1);
  await reservation.wrote(1);
  expect(rooms).toBe(0);
  writeFileSync(filler, Buffer.alloc(15 * mebibyte));
  await expect(reservation.wrote(2 * mebibyte)).rejects.toThrow(
    /^The server's disk has 1\.0 MiB free, which it keeps for running jobs: too little for this upload; try again later$/,
  );
  rmSync(filler);
});

test.skipIf(disk === null)('Room is made as long as that helps, and only for a full disk', async () => {
  let made = 0;
  const space = new DiskSpace(at(), async () => {
    made += 1;
    return made < 3;
  });
  using reservation = space.reservationFor(null);
  let tries = 0;
  const attempt = (cause: () => Error, successAt: number) => async () => {
    tries += 1;
    if (tries < successAt) throw cause();
    return tries;
  };
  const needed = () => 1;
  expect(await reservation.withSpace(needed, attempt(full, 3))).toBe(3);
  const refused = () => new ServiceError('diskFull', 'It is full');
  await expect(reservation.withSpace(needed, attempt(refused, 9))).rejects.toThrow('It is full');
  const other = () => new Error('Another');
  await expect(reservation.withSpace(needed, attempt(other, 9))).rejects.toThrow('Another');
  expect(made).toBe(3);
});

test.skipIf(disk === null)('A disk without inodes is said to have none', async () => {
  mkdirSync(at('d'));
  expect(() => {
    for (let count = 0; count < 5000; count += 1) writeFileSync(at('d', String(count)), '');
  }).toThrow();
  const fault = Object.assign(full(), { path: at('d', 'x') });
  expect(writeFault(fault)).toMatchObject({ code: 'diskFull', detail: expect.stringContaining('inodes') });
  expect(writeFault(full())).not.toBeInstanceOf(ServiceError);
  using reservation = new DiskSpace(at(), async () => false).reservationFor('ana');
  await expect(reservation.take(1, 'x')).rejects.toThrow(
    "The server's disk has too few inodes (files) left for x; try again later, or ask its admin to remove files there",
  );
});
