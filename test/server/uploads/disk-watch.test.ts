import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { DiskWatch } from '../../../src/server/uploads/disk-space.js';
import { smallDisk } from '../../support/small-disk.js';

const mebibyte = 1 << 20;

test('an upload goes on during a check of the disk, and waits when it has written as much again', async () => {
  const errors: unknown[] = [];
  using watch = new DiskWatch(tmpdir(), (cause) => errors.push(cause));
  watch.look();
  await watch.settled();
  watch.count(mebibyte);
  watch.count(mebibyte - 1);
  expect(watch.isBehind).toBe(false);
  watch.count(1);
  expect(watch.isBehind).toBe(true);
  await watch.settled();
  expect(watch.isBehind).toBe(false);
  expect(errors).toEqual([]);
});

test('an upload waits for the first answer of the disk before it writes anything', async () => {
  using watch = new DiskWatch(tmpdir(), () => {});
  watch.look();
  expect(watch.isBehind).toBe(true);
  await watch.settled();
  expect(watch.isBehind).toBe(false);
});

const disk = smallDisk(24);

// Not every machine allows mounting.
describe.skipIf(disk === null)('on a disk of 24 MiB', () => {
  const watched = () => {
    const errors: unknown[] = [];
    const watch = new DiskWatch(disk ?? '', (cause) => errors.push(cause));
    return { watch, errors };
  };

  test('a check fails if more is on its way than fits, and nothing more may be written', async () => {
    const { watch, errors } = watched();
    using _ = watch;
    watch.expect(40 * mebibyte);
    await expect(watch.settled()).rejects.toMatchObject({ code: 'diskFull' });
    expect(errors).toMatchObject([{ code: 'diskFull' }]);
    watch.count(mebibyte);
    await expect(watch.settled()).rejects.toMatchObject({ code: 'diskFull' });
    expect(watch.isBehind).toBe(true);
  });

  test('uploads that end during a check leave nothing that those after them have to leave free', async () => {
    for (let number = 0; number < 20; number += 1) {
      const { watch } = watched();
      watch.look();
      watch.count(mebibyte);
      watch[Symbol.dispose]();
      await watch.settled();
    }
    const { watch, errors } = watched();
    using _ = watch;
    watch.expect(10 * mebibyte);
    await watch.settled();
    expect(errors).toEqual([]);
  });
});
