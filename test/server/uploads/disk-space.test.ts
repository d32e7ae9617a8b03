import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ServiceError } from '../../../src/contract/index.js';
import { DiskSpace, writeFault } from '../../../src/server/uploads/disk-space.js';
import { smallDisk } from '../../support/small-disk.js';

const mebibyte = 1 << 20;
const disk = smallDisk(16, 4096);
const at = (...names: string[]) => path.join(disk ?? '', ...names);

/** A disk of whose files this one may be removed; what is asked of it is noted. */
function diskWith(evictable: string | null, bytes = 0) {
  const asked: [string, number, unknown][] = [];
  const space = new DiskSpace(at(), {
    evictable: async (owner, more) => {
      asked.push(['evictable', more, owner]);
      return bytes;
    },
    makeRoom: async (missing, owner) => {
      asked.push(['makeRoom', missing, owner]);
      if (evictable === null || bytes === 0) return false;
      rmSync(evictable);
      bytes = 0;
      return true;
    },
  });
  return { space, asked };
}

test.skipIf(disk === null)('A reserve stays free, and what is promised counts as used', async () => {
  const { space, asked } = diskWith(null);
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
    expect(asked).toEqual([['evictable', 7, 'bob']]);
    // What is written is no longer promised, and the rest is given back in the end.
    await first.use(1000);
    expect([space.promised, first.bytes]).toEqual([bytes - 1000, bytes - 1005]);
  }
  expect(space.promised).toBe(0);
});

test.skipIf(disk === null)(
  'A promise may rely on removable data, which is removed only when bytes are written',
  async () => {
    const old = at('old');
    writeFileSync(old, Buffer.alloc(4 * mebibyte));
    const { space, asked } = diskWith(old, 4 * mebibyte);
    const { bytes } = space.freeNow();
    using first = space.reservationFor('ana');
    await first.take(bytes + 3 * mebibyte, 'this upload');
    expect([space.promised, space.owed]).toEqual([bytes, 3 * mebibyte]);
    using second = space.reservationFor('bob');
    await expect(second.take(mebibyte + 1, 'a copy')).rejects.toMatchObject({ code: 'diskFull' });
    await second.take(mebibyte, 'a copy');
    expect(asked.filter(([what]) => what === 'makeRoom')).toEqual([]);
    const file = at('new');
    for (let left = bytes; left > 0; left -= 2 * mebibyte) {
      await first.use(Math.min(left, 2 * mebibyte));
      writeFileSync(file, Buffer.alloc(Math.min(left, 2 * mebibyte)), { flag: 'a' });
    }
    expect(asked.filter(([what]) => what === 'makeRoom')).toEqual([]);
    await first.use(2 * mebibyte);
    // No more than what has arrived beyond what was free.
    expect(asked.filter(([what]) => what === 'makeRoom')).toEqual([['makeRoom', 2 * mebibyte, 'ana']]);
    rmSync(file);
  },
);

test.skipIf(disk === null)('The disk is checked every two mebibytes while a request writes', async () => {
  const filler = at('filler');
  const { space, asked } = diskWith(filler, 1);
  using reservation = space.reservationFor('ana');
  await reservation.take(3 * mebibyte, 'this upload');
  await reservation.use(1);
  writeFileSync(filler, Buffer.alloc(15 * mebibyte));
  await reservation.use(2 * mebibyte - 1);
  expect(asked).toEqual([]);
  await reservation.use(1);
  expect(asked).toEqual([['makeRoom', expect.any(Number), 'ana']]);
  writeFileSync(filler, Buffer.alloc(15 * mebibyte));
  await expect(reservation.use(2 * mebibyte)).rejects.toThrow(
    /^The server's disk has 1\.0 MiB free, which it keeps for running jobs: too little for this upload; try again later$/,
  );
  rmSync(filler);
});

test.skipIf(disk === null)('A disk without free inodes is reported as such', async () => {
  const full = () => Object.assign(new Error('No space left'), { code: 'ENOSPC' });
  mkdirSync(at('d'));
  expect(() => {
    for (let count = 0; count < 5000; count += 1) writeFileSync(at('d', String(count)), '');
  }).toThrow();
  const fault = Object.assign(full(), { path: at('d', 'x') });
  expect(writeFault(fault)).toMatchObject({ code: 'diskFull', detail: expect.stringContaining('inodes') });
  expect(writeFault(full())).not.toBeInstanceOf(ServiceError);
  using reservation = diskWith(null).space.reservationFor('ana');
  await expect(reservation.take(1, 'x')).rejects.toThrow(
    "The server's disk has too few inodes (files) left for x; try again later, or ask its admin to remove files there",
  );
});
