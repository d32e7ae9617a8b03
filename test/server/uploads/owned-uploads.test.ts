import { createHash } from 'node:crypto';
import { existsSync, utimesSync } from 'node:fs';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { ServerEvents } from '../../../src/server/events.js';
import { DiskSpace, UploadStore } from '../../../src/server/uploads/index.js';
import { temporary } from '../../support/temporary.js';
import { TestClock } from '../../support/test-clock.js';

const hour = 3600;
const minute = 60;

let root: Awaited<ReturnType<typeof temporary>>;
let clock: TestClock;
beforeEach(async () => {
  root = await temporary();
  clock = new TestClock();
  disk = new DiskSpace(root.path, { evictable: async () => 0, makeRoom: async () => false });
});
afterEach(() => root[Symbol.asyncDispose]());

/** What a start finds in the data directory of a test; uploads are kept for an hour after their last use. */
function opened() {
  const report = expect.fail;
  const events = new ServerEvents(report);
  const store = new UploadStore({ dataDirectory: root.path, keep: hour * 1000, clock, events, report });
  onTestFinished(() => store.close());
  store.load(['ana', 'bob']);
  return { store, ana: store.of('ana'), bob: store.of('bob') };
}

const nameOf = (text: string) => createHash('sha256').update(text).digest('hex');

/** The disk of a server that can remove nothing. */
let disk: DiskSpace;

/** A body that has arrived. */
const bodyOf = (text: string) => ({
  body: Readable.from([Buffer.from(text)]),
  arrived: Promise.resolve(),
  refused: new AbortController().signal,
});

/** Begins an upload of this content and sends it. */
async function begin(owned: ReturnType<UploadStore['of']>, content: string) {
  const upload = owned.begin(nameOf(content), content.length, disk.reservationFor('ana'));
  using _turn = upload.takeTurn();
  const space = await upload.reserve(disk);
  await upload.append(bodyOf(content), null, space);
  return upload;
}

test('An upload expires an hour after its last use unless it is in use, even if the clock is set back', async () => {
  const { ana, store } = opened();
  store.start();
  const [old, held] = [await begin(ana, 'old'), await begin(ana, 'held')];
  clock.pass(30 * minute);
  const late = await begin(ana, 'late');
  held.pin();
  const turn = late.takeTurn();
  clock.pass(30 * minute - 0.001);
  expect(ana.find(old.sha256)).toBe(old);
  clock.pass(0.001);
  expect(() => ana.find(old.sha256)).toThrow('You have no upload with this name; begin it');
  await expect.poll(() => existsSync(old.file)).toBe(false);
  clock.pass(40 * minute);
  expect([ana.find(held.sha256), ana.find(late.sha256), ana.count]).toEqual([held, late, 2]);
  held.unpin();
  turn[Symbol.dispose]();
  clock.pass(10 * minute);
  expect([ana.count, ana.bytes]).toEqual([0, 0]);
  const next = await begin(ana, 'next');
  store.close();
  // As its file has a time that has not come yet.
  utimesSync(next.file, clock.now() / 1000 + 10 * hour, clock.now() / 1000 + 10 * hour);
  const again = opened().ana;
  expect(again.expiry(again.find(next.sha256)).getTime() - clock.now()).toBe(hour * 1000);
});

test('The least recently used uploads of an owner are evicted for a new one, except those that were just used', async () => {
  const { ana, bob, store } = opened();
  const [one, two] = [await begin(ana, 'one'), await begin(ana, 'two')];
  await begin(bob, 'of bob');
  clock.pass(10 * minute - 1);
  one.use();
  expect([ana.makeRoom(1, 6), store.evictable(), ana.count]).toEqual([false, [], 2]);
  clock.pass(1);
  // Nine bytes would be too many; exactly as many as there may be are not.
  expect([ana.makeRoom(3, 6), ana.count, ana.find(one.sha256) === one]).toEqual([true, 1, true]);
  expect(() => ana.find(two.sha256)).toThrow();
  expect([ana.makeRoom(3, 6), ana.count]).toEqual([true, 1]);
  clock.pass(10 * minute);
  // Of all owners, the upload that was used least recently first.
  expect(store.evictable().map(({ owner, bytes }) => [owner, bytes])).toEqual([
    ['bob', 6],
    ['ana', 3],
  ]);
  await store.evictable()[0]?.remove();
  expect([bob.count, ana.count]).toEqual([0, 1]);
  store.trim('ana', 3);
  expect(ana.count).toBe(1);
  store.trim('ana', 2);
  store.trim('nobody', 0);
  expect(ana.count).toBe(0);
});

test('The length of an upload is reserved until it is complete or removed, or unused for ten minutes', async () => {
  const { ana, bob, store } = opened();
  store.start();
  const claim = async (owned: typeof ana, text: string) => {
    const upload = owned.begin(nameOf(text), text.length, disk.reservationFor(owned.name));
    using _turn = upload.takeTurn();
    await upload.reserve(disk);
    return upload;
  };
  const [one, two] = [await claim(ana, 'four'), await claim(ana, 'other')];
  await claim(bob, 'of bob');
  expect(disk.promised).toBe(15);
  // Asking again for what is promised reserves nothing more.
  await one.reserve(disk);
  await one.append(bodyOf('fo'), null, await one.reserve(disk));
  expect([one.offset, disk.promised]).toEqual([2, 13]);
  await one.append(bodyOf('ur'), null, await one.reserve(disk));
  expect([one.isComplete, disk.promised]).toEqual([true, 11]);
  store.keepOnly(['ana']);
  expect(disk.promised).toBe(5);
  clock.pass(10 * minute);
  expect([ana.find(two.sha256), disk.promised]).toEqual([two, 0]);
  await two.reserve(disk);
  expect(disk.promised).toBe(5);
  await ana.remove(two);
  expect(disk.promised).toBe(0);
});
