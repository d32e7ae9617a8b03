import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { ServerEvents } from '../../../src/server/events.js';
import { DiskSpace } from '../../../src/server/uploads/disk-space.js';
import { directoryName, UploadStore } from '../../../src/server/uploads/upload-store.js';
import { openBelow } from '../../support/open-files.js';
import { temporary } from '../../support/temporary.js';
import { TestClock } from '../../support/test-clock.js';

const hour = 3600;
const minute = 60;
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex');

let root: Awaited<ReturnType<typeof temporary>>;
let clock: TestClock;
beforeEach(async () => {
  root = await temporary();
  clock = new TestClock();
});
afterEach(() => root[Symbol.asyncDispose]());

const told: string[] = [];

/** What a start finds in the data directory of a test; uploads are kept for an hour after their last use. */
function opened(owners: readonly (string | null)[] = ['ana', 'bob']) {
  told.length = 0;
  const report = (problem: string, cause: unknown) => told.push(`${problem}: ${cause}`);
  const events = new ServerEvents(report);
  const whole: unknown[] = [];
  events.on('uploaded', (what) => whole.push(what));
  const store = new UploadStore({ dataDirectory: root.path, keep: hour * 1000, clock, events, report });
  onTestFinished(() => store.close());
  store.load(owners);
  return { store, whole, ana: store.of('ana'), bob: store.of('bob') };
}
type Owned = ReturnType<typeof opened>['ana'];

const how = () => ({
  checksum: null,
  space: new DiskSpace(root.path, async () => false).reservationFor('ana'),
});

/** Begins an upload of this content, with the first bytes of it. */
async function begin(owned: Owned, content: string, bytes = content.length) {
  const upload = owned.begun(sha256(content), content.length) ?? owned.begin(sha256(content), content.length);
  using _turn = upload.takeTurn();
  await upload.append((sink) => pipeline(Readable.from([Buffer.from(content.slice(0, bytes))]), sink), how());
  return upload;
}

const names = () => readdirSync(path.join(root.path, 'uploads', directoryName('ana'))).sort();

test('an upload that came whole is told once, and keeps its bytes from the moment that it is begun', async () => {
  const { ana, bob, store, whole } = opened();
  expect([store.keep, store.usage()]).toEqual([hour * 1000, []]);
  const half = await begin(ana, 'of ana', 2);
  expect([half.offset, half.isComplete, ana.bytes, ana.count]).toEqual([2, false, 6, 1]);
  expect(whole).toEqual([]);
  await begin(bob, 'bob');
  expect(whole).toEqual([{ owner: 'bob', bytes: 3 }]);
  expect(store.usage()).toEqual([
    { owner: 'ana', uploads: 1, bytes_kept: 6 },
    { owner: 'bob', uploads: 1, bytes_kept: 3 },
  ]);
  expect(names()).toEqual([`${sha256('of ana')}.6.part`]);
  await ana.remove(half);
  expect([ana.bytes, names(), store.usage().length]).toEqual([0, [], 1]);
  // A second removal counts no bytes twice.
  await ana.remove(half);
  expect([ana.bytes, openBelow(root.path)]).toEqual([0, []]);
});

test('a next server finds what there is, by owner, with the time of its last use', async () => {
  const first = opened();
  const used = await begin(first.ana, 'whole');
  await begin(first.ana, 'a part', 3);
  await begin(first.bob, 'of bob');
  clock.pass(10 * minute);
  used.use();
  first.store.close();
  const owned = path.join(root.path, 'uploads', directoryName('ana'));
  // Two of one name, one torn, and what is no upload.
  writeFileSync(path.join(owned, `${sha256('whole')}.9.part`), 'who');
  writeFileSync(path.join(owned, `${sha256('torn')}.2.part`), 'torn');
  writeFileSync(path.join(owned, 'notes.txt'), 'of an admin');
  mkdirSync(path.join(owned, sha256('directory')));
  writeFileSync(path.join(root.path, 'uploads', 'README'), 'of an admin');
  const removed = path.join(root.path, 'uploads', 'removed', 'half');
  mkdirSync(removed);
  const { ana, store } = opened(['ana']);
  expect(store.usage()).toEqual([{ owner: 'ana', uploads: 2, bytes_kept: 11 }]);
  const [there, part] = [ana.find(sha256('whole')), ana.find(sha256('a part'))];
  expect([there.isComplete, there.offset, part.isComplete, part.offset, part.length]).toEqual([
    true,
    5,
    false,
    3,
    6,
  ]);
  expect(ana.expiry(there).getTime() - clock.now()).toBeCloseTo(hour * 1000, -1);
  expect(ana.expiry(part).getTime() - clock.now()).toBeCloseTo(50 * minute * 1000, -3);
  await expect.poll(names).toEqual([sha256('whole'), `${sha256('a part')}.6.part`].sort());
  expect(new Set(told.map((line) => /^Set aside '(.{6})/.exec(line)?.[1]))).toEqual(
    new Set(['README', sha256('directory').slice(0, 6), 'notes.']),
  );
  // What was being removed is gone, and what belongs to an owner without a token.
  await expect.poll(() => existsSync(removed)).toBe(false);
  await expect.poll(() => existsSync(path.join(root.path, 'uploads', directoryName('bob')))).toBe(false);
});

test('an upload expires an hour after its last use, unless it is in use, and a clock set back keeps none longer', async () => {
  const { ana, store } = opened();
  store.start();
  const [old, held] = [await begin(ana, 'old'), await begin(ana, 'held')];
  clock.pass(30 * minute);
  const late = await begin(ana, 'late');
  const release = held.hold();
  const turn = late.takeTurn();
  clock.pass(30 * minute - 0.001);
  expect(ana.find(old.sha256)).toBe(old);
  clock.pass(0.001);
  expect(() => ana.find(old.sha256)).toThrow('You have no upload with this name; begin it');
  await expect.poll(() => existsSync(old.file)).toBe(false);
  clock.pass(40 * minute);
  expect([ana.find(held.sha256), ana.find(late.sha256), ana.count]).toEqual([held, late, 2]);
  release();
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

test('room is made by evicting the least recently used uploads of the owner, but none that was just used', async () => {
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

test('one request writes at a time, and a removed file is no upload any more', async () => {
  const { ana } = opened();
  const upload = await begin(ana, 'content', 3);
  {
    using turn = upload.takeTurn();
    expect(() => upload.takeTurn()).toThrow(
      'Another request is writing this upload; ask for its offset in a moment',
    );
    expect([turn.awaited.aborted, upload.isInUse]).toEqual([true, true]);
    expect(() => ana.begun(upload.sha256, 9)).toThrow('Another request is writing');
  }
  expect(upload.isInUse).toBe(false);
  // What still has one that was removed changes nothing of the next of its name.
  await ana.remove(upload);
  const next = await begin(ana, 'content', 3);
  upload.use();
  expect(ana.find(upload.sha256)).toBe(next);
  rmSync(upload.file);
  expect(() => ana.find(upload.sha256)).toThrow('You have no upload');
  expect([ana.bytes, told]).toEqual([0, []]);
});

test('what is more, or not what was checked, or another content, leaves what was there before', async () => {
  const { ana } = opened();
  const upload = await begin(ana, 'content', 3);
  const append = async (bytes: string, digest: string | null = null) => {
    using _turn = upload.takeTurn();
    const sent = (sink: Parameters<Parameters<typeof upload.append>[0]>[0]) =>
      pipeline(Readable.from([Buffer.from(bytes)]), sink);
    const sum = createHash('sha1').update(digest ?? '');
    const checksum = digest === null ? null : { algorithm: 'sha1', digest: sum.digest() };
    await upload.append(sent, { ...how(), checksum });
  };
  await expect(append('tents')).rejects.toThrow('More than the announced 7 bytes arrived');
  await expect(append('xx', 'te')).rejects.toThrow('do not match the checksum that came with them');
  expect([upload.offset, statSync(upload.file).size]).toEqual([3, 3]);
  clock.pass(30 * minute);
  await append('te', 'te');
  expect(ana.expiry(upload).getTime() - clock.now()).toBe(hour * 1000);
  expect([upload.offset, upload.isComplete]).toEqual([5, false]);
  await append('nt');
  expect([upload.offset, upload.isComplete, names()]).toEqual([7, true, [sha256('content')]]);
  const wrong = await begin(ana, 'right', 2);
  using _turn = wrong.takeTurn();
  const rest = wrong.append((sink) => pipeline(Readable.from([Buffer.from('ong')]), sink), how());
  await expect(rest).rejects.toThrow(`The 5 bytes that arrived do not have the SHA-256 ${wrong.sha256}`);
  expect([ana.count, existsSync(wrong.file), openBelow(root.path)]).toEqual([1, false, []]);
});

test('what was written of a body that breaks off is kept', async () => {
  const { ana } = opened();
  const upload = ana.begin(sha256('content'), 7);
  const broken = async (bytes: string) => {
    using _turn = upload.takeTurn();
    const sent = upload.append(async (sink) => {
      for (const byte of bytes) sink.write(Buffer.from(byte));
      throw new Error('It broke off');
    }, how());
    await expect(sent).rejects.toThrow('It broke off');
    return [upload.offset, statSync(upload.file).size, upload.isComplete];
  };
  expect(await broken('con')).toEqual([3, 3, false]);
  expect(await broken('te')).toEqual([5, 5, false]);
  expect(await broken('nt')).toEqual([7, 7, false]);
  expect((await ana.findSettled(upload.sha256)).isComplete).toBe(true);
});

test('a submission holds the uploads that it names, each once, and uses them', async () => {
  const { ana } = opened();
  const [one] = [await begin(ana, 'one'), await begin(ana, 'half', 2)];
  clock.pass(50 * minute);
  {
    using held = ana.hold();
    const missing = [sha256('half'), sha256('never')];
    await expect(held.takeAll([one.sha256, ...missing, ...missing, one.sha256])).rejects.toMatchObject({
      uploads: missing,
    });
    expect(one.isInUse).toBe(true);
  }
  expect([one.isInUse, ana.expiry(one).getTime() - clock.now()]).toEqual([false, hour * 1000]);
  using held = ana.hold();
  expect([...(await held.takeAll([one.sha256, one.sha256]))]).toEqual([[one.sha256, one]]);
});

test('the uploads of an owner end with the token', async () => {
  const { ana, bob, store } = opened();
  await begin(ana, 'of ana');
  await begin(bob, 'of bob');
  store.keepOnly(['bob', null]);
  expect(store.usage()).toEqual([{ owner: 'bob', uploads: 1, bytes_kept: 6 }]);
  expect(store.of('ana').count).toBe(0);
  await expect.poll(() => existsSync(path.join(root.path, 'uploads', directoryName('ana')))).toBe(false);
  // Nothing expires that the next server finds.
  store.start();
  store.close();
  clock.pass(2 * hour);
  expect(bob.count).toBe(1);
});
