import { readFileSync, statSync, truncateSync } from 'node:fs';
import { appendFile, readFile, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Digests } from '../../src/client/digests.js';
import { filesBelow } from '../../src/files/index.js';
import { plant, temporary } from '../support/temporary.js';

const later = () => Date.now() + 60_000;

/** A memory of a minute later: files that were just written have been left alone for long enough. */
const memoryIn = (
  directory: string,
  how: { isTrusted?: boolean; version?: string; now?: () => number } = {},
) => new Digests(directory, { version: '1', now: later, ...how });

const sha256 = {
  abc: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
  abd: 'a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9',
};

describe('the digest of a file', () => {
  test('is remembered by the next command, until somebody writes to the file', async () => {
    await using root = await temporary();
    const file = path.join(root.path, 'ct.nii');
    await writeFile(file, 'abc');
    {
      using first = memoryIn(root.path);
      expect(await first.ofFile(file)).toEqual({ sha256: sha256.abc, size: 3, isRemembered: false });
    }
    expect(await memoryIn(root.path).ofFile(file)).toMatchObject({ sha256: sha256.abc, isRemembered: true });
    await writeFile(file, 'abd');
    expect(await memoryIn(root.path).ofFile(file)).toMatchObject({ sha256: sha256.abd, isRemembered: false });
  });

  test('is not that of another content of the same length that has the times of the first', async () => {
    await using root = await temporary();
    const file = path.join(root.path, 'ct.nii');
    await writeFile(file, 'abc');
    await utimes(file, 1e9, 1e9);
    using memory = memoryIn(root.path);
    await memory.ofFile(file);
    await writeFile(file, 'abd');
    await utimes(file, 1e9, 1e9);
    expect((await memory.ofFile(file)).sha256).toBe(sha256.abd);
  });

  test('is not remembered of a file that was written a moment ago: it may be written again in the same tick', async () => {
    await using root = await temporary();
    const file = path.join(root.path, 'ct.nii');
    await writeFile(file, 'abc');
    using memory = memoryIn(root.path, { now: Date.now });
    await memory.ofFile(file);
    expect(await memory.ofFile(file)).toMatchObject({ isRemembered: false });
  });

  test('is computed again by a command that does not trust the memory, and then remembered', async () => {
    await using root = await temporary();
    const file = path.join(root.path, 'ct.nii');
    await writeFile(file, 'abc');
    await memoryIn(root.path).ofFile(file);
    using suspicious = memoryIn(root.path, { isTrusted: false });
    expect(await suspicious.ofFile(file)).toMatchObject({ isRemembered: false });
    expect(await suspicious.ofFile(file)).toMatchObject({ isRemembered: true });
  });

  test('is computed again where the file of the memory is damaged, and lines after a cut one are read', async () => {
    await using root = await temporary();
    await plant(root.path, { a: 'abc', b: 'abd' });
    const at = (name: string) => path.join(root.path, name);
    const first = memoryIn(root.path);
    await first.ofFile(at('a'));
    first.save();
    const [part] = filesBelow(at('file-digests'));
    const file = path.join(at('file-digests'), part?.name ?? '');
    await writeFile(file, (await readFile(file, 'utf8')).slice(0, -3));
    const second = memoryIn(root.path);
    expect(await second.ofFile(at('a'))).toMatchObject({ isRemembered: false, sha256: sha256.abc });
    second.save();
    await appendFile(file, 'no line of ours\n');
    expect(await memoryIn(root.path).ofFile(at('a'))).toMatchObject({
      isRemembered: true,
      sha256: sha256.abc,
    });
  });
});

describe('the digest of a file that was changed', () => {
  test.each([
    [1999, 0, false],
    [2000, 0, true],
    // Its time is ahead of the clock by which its directory entry was written.
    [5000, 10_000, false],
    [12_000, 10_000, true],
  ])('%i ms before, with a time %i ms ahead, is remembered: %j', async (later, ahead, isRemembered) => {
    await using root = await temporary();
    const file = path.join(root.path, 'ct.nii');
    await writeFile(file, 'abc');
    const base = Math.ceil(statSync(file).ctimeMs);
    // A time without fractions; the other one is that of this call.
    if (ahead > 0) await utimes(file, new Date(), new Date(base + ahead));
    const { ctimeMs, mtimeMs } = statSync(file);
    const changedAt = Math.floor(ahead > 0 ? mtimeMs - ahead : Math.max(ctimeMs, mtimeMs));
    using memory = memoryIn(root.path, { now: () => changedAt + later });
    await memory.ofFile(file);
    expect((await memory.ofFile(file)).isRemembered).toBe(isRemembered);
  });

  test('is read again where that is asked for, tells its bytes, stops on a signal, and is written down once', async () => {
    await using root = await temporary();
    const file = path.join(root.path, 'ct.nii');
    await writeFile(file, 'abc');
    using memory = memoryIn(root.path);
    const told: number[] = [];
    const onBytes = (bytes: number) => told.push(bytes);
    for (const isFresh of [false, true, false, true]) {
      const { isRemembered } = await memory.ofFile(file, { isFresh, onBytes });
      expect(isRemembered).toBe(told.length === 2 && !isFresh);
      memory.save();
    }
    expect(told).toEqual([3, 3, 3]);
    const directory = path.join(root.path, 'file-digests');
    const parts = filesBelow(directory).map(({ name }) => readFileSync(path.join(directory, name), 'utf8'));
    expect(parts).toEqual([expect.stringMatching(new RegExp(`^[0-9a-f]{32} 3 ${sha256.abc}\n$`))]);
    const reason = new Error('Enough');
    const stopped = memory.ofFile(file, { isFresh: true, signal: AbortSignal.abort(reason) });
    await expect(stopped).rejects.toBe(reason);
  });

  test('is written down before the command ends where much was read', async () => {
    await using root = await temporary();
    const file = path.join(root.path, 'ct.nii');
    await writeFile(file, '');
    truncateSync(file, 64 << 20);
    const memory = memoryIn(root.path);
    await memory.ofFile(file);
    expect(filesBelow(path.join(root.path, 'file-digests'))).toHaveLength(1);
  });
});

describe('the digest of what is made of files', () => {
  test('depends on all of them, their names, how it is made, and the version of the program', async () => {
    await using root = await temporary();
    await plant(root.path, { a: 'abc', b: 'abd' });
    const at = (name: string) => ({ name, path: path.join(root.path, name) });
    const files = [at('a'), at('b')];
    using memory = memoryIn(root.path);
    memory.made('archive', files).remember({ sha256: sha256.abc, size: 7 });
    expect(memory.made('archive', files).digest).toEqual({ sha256: sha256.abc, size: 7 });
    expect(memory.made('other', files).digest).toBeNull();
    expect(memory.made('archive', files.slice(1)).digest).toBeNull();
    expect(memory.made('archive', [{ ...at('a'), name: 'c' }, at('b')]).digest).toBeNull();
    memory.save();
    expect(memoryIn(root.path).made('archive', files).digest).not.toBeNull();
    expect(memoryIn(root.path, { version: '2' }).made('archive', files).digest).toBeNull();
    await writeFile(path.join(root.path, 'b'), 'abe');
    expect(memory.made('archive', files).digest).toBeNull();
    // One of them was changed a moment ago, whatever its place.
    await utimes(path.join(root.path, 'a'), new Date(), new Date(Date.now() + 100_000));
    for (const each of [files, files.toReversed()]) {
      memory.made('new', each).remember({ sha256: sha256.abc, size: 7 });
      expect(memory.made('new', each).digest).toBeNull();
    }
  });
});

test('a memory that has become large forgets its older half', async () => {
  await using root = await temporary();
  const send = (now: number) => {
    using memory = memoryIn(root.path, { now: () => now });
    memory.noteSent('http://a', sha256.abc);
  };
  send(1);
  const directory = path.join(root.path, 'file-digests');
  const [part, ...others] = filesBelow(directory).map(({ name }) => path.join(directory, name));
  expect(others).toEqual([]);
  const file = part ?? '';
  const old = Array.from(
    { length: 1400 },
    (_, at) => `${path.basename(file)}${at.toString().padStart(30, '0')} 1 ${sha256.abd}\n`,
  );
  const sent = await readFile(file, 'utf8');
  // Nearly as much as it may have: the first line is read, too.
  await writeFile(file, sent + old.slice(0, 1200).join(''));
  expect(memoryIn(root.path).sentAt('http://a', sha256.abc)).toBe(1);
  await writeFile(file, old.join(''));
  send(2);
  const kept = await readFile(file, 'utf8');
  expect([kept.length <= 64 << 10, statSync(file).mode & 0o777]).toEqual([true, 0o600]);
  expect(kept).toContain(old.at(-1));
  expect(memoryIn(root.path).sentAt('http://a', sha256.abc)).toBe(2);
});

test('what was sent to one server was not sent to another', async () => {
  await using root = await temporary();
  using memory = memoryIn(root.path);
  memory.noteSent('http://a', sha256.abc);
  expect(memory.sentAt('http://a', sha256.abc)).toBeGreaterThan(Date.now());
  expect(memory.sentAt('http://b', sha256.abc)).toBeNull();
});
