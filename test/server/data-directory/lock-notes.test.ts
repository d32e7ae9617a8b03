import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { thisBoot } from '../../../src/files/index.js';
import { makeFifo } from '../../../src/runner/index.js';
import {
  DirectoryInUse,
  localLockIn,
  lockDataDirectory,
  lookAtLock,
} from '../../../src/server/data-directory/lock.js';
import { SetupError } from '../../../src/server/setup-error.js';
import { openBelow } from '../../support/open-files.js';
import { plant, temporary } from '../../support/temporary.js';

const noteOf = (data: string) => path.join(data, 'serve.lock');

test('a locked directory says who has it, and is free again when that is over', async () => {
  await using root = await temporary();
  const data = root.path;
  lookAtLock(data);
  expect(readdirSync(data)).toEqual([]);
  const release = lockDataDirectory(data);
  const note = JSON.parse(readFileSync(noteOf(data), 'utf8'));
  expect(note).toEqual({
    host: hostname(),
    pid: process.pid,
    boot: thisBoot(),
    since: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
  });
  const sentence = `Another server (process ${process.pid} on ${hostname()}, since ${note.since}) uses the data directory ${data}: stop it, or give this one another --data-dir`;
  for (const take of [lookAtLock, lockDataDirectory]) {
    expect(() => take(data)).toThrow(sentence);
    expect(() => take(data)).toThrow(DirectoryInUse);
  }
  release();
  expect([existsSync(noteOf(data)), openBelow(data)]).toEqual([false, []]);
  lookAtLock(data);
  const again = lockDataDirectory(data);
  // A second call of the first one changes nothing.
  release();
  expect(() => lookAtLock(data)).toThrow(DirectoryInUse);
  again();
});

test.each([
  ['is empty', ''],
  ['is no JSON', '{"pid":'],
  ['is no object', 'null'],
  ['lacks the host', '{"pid":7,"since":"x"}'],
  ['lacks the time', '{"pid":7,"host":"x"}'],
  ['has half a process', '{"pid":7.5,"host":"x","since":"x"}'],
])('a note that %s names nobody', async (_, text) => {
  await using root = await temporary();
  const release = lockDataDirectory(root.path);
  writeFileSync(noteOf(root.path), text);
  expect(() => lookAtLock(root.path)).toThrow(`Another server uses the data directory ${root.path}: `);
  release();
});

test('a note behind a link, or a FIFO in its place, names nobody', async () => {
  await using root = await temporary();
  const data = path.join(root.path, 'data');
  mkdirSync(data);
  const release = lockDataDirectory(data);
  renameSync(noteOf(data), path.join(root.path, 'note'));
  const place = [() => symlinkSync('../note', noteOf(data)), () => makeFifo(noteOf(data))];
  for (const each of place) {
    each();
    expect(() => lookAtLock(data)).toThrow(`Another server uses the data directory ${data}: `);
    rmSync(noteOf(data));
  }
  release();
});

/** A line of `/proc/self/mountinfo`. */
const mounted = (device: string, type: string, options: string) =>
  `36 35 ${device} / /mnt rw,noatime shared:1 - ${type} host:/export rw,${options}`;

test.each([
  ['all', mounted('0:46', 'nfs', 'vers=3,local_lock=all,addr=10.0.0.1'), 46, 'local_lock=all'],
  ['those on files', mounted('0:46', 'nfs4', 'local_lock=flock'), 46, 'local_lock=flock'],
  ['no', mounted('0:46', 'nfs4', 'vers=4.2,local_lock=none,addr=10.0.0.1'), 46, undefined],
  ['other', mounted('0:46', 'nfs', 'local_lock=posix'), 46, undefined],
  ["another mount's", mounted('0:460', 'nfs', 'local_lock=all'), 46, undefined],
  ["another file system's", mounted('0:46', 'ext4', 'local_lock=all'), 46, undefined],
  ['a large minor', mounted('3:4660', 'nfs', 'local_lock=all'), (0x12 << 20) | 0x334, 'local_lock=all'],
])('of a mount by NFS %s locks may be of this machine alone', (_, line, dev, option) => {
  const others = [mounted('8:1', 'ext4', 'errors=remount-ro'), mounted('0:47', 'nfs', 'local_lock=none')];
  expect(localLockIn([...others, line, ''].join('\n'), dev)).toBe(option);
});

test('a note is told up to a limit, in one line', async () => {
  await using root = await temporary();
  const release = lockDataDirectory(root.path);
  const note = { pid: 7, host: `a\n${'h'.repeat(300)}`, since: 's'.repeat(50) };
  writeFileSync(noteOf(root.path), JSON.stringify(note));
  expect(() => lookAtLock(root.path)).toThrow(
    `Another server (process 7 on a\\x0a${'h'.repeat(250)}, since ${'s'.repeat(40)}) uses`,
  );
  release();
});

test('the note of a server that has the old place of a moved directory stays', async () => {
  await using root = await temporary();
  const [data, moved] = ['data', 'moved'].map((name) => path.join(root.path, name)) as [string, string];
  mkdirSync(data);
  const release = lockDataDirectory(data);
  renameSync(data, moved);
  mkdirSync(data);
  const other = lockDataDirectory(data);
  release();
  expect(existsSync(noteOf(data))).toBe(true);
  other();
  expect(existsSync(noteOf(data))).toBe(false);
});

test.each([
  ['says why', 'echo "flock: 3: No locks available" >&2; exit 71', '(flock: 3: No locks available)'],
  ['says nothing', 'exit 71', '(flock ended with 71)'],
  ['is killed', 'kill -KILL $$', '(flock ended with SIGKILL)'],
])('a directory is refused where the lock fails and %s', async (_, script, why) => {
  await using root = await temporary();
  await plant(root.path, { 'bin/flock': `#!/bin/sh\n${script}\n`, 'data/': '' });
  chmodSync(path.join(root.path, 'bin/flock'), 0o755);
  const before = process.env.PATH;
  process.env.PATH = `${root.path}/bin:${before}`;
  onTestFinished(() => {
    process.env.PATH = before;
  });
  const data = path.join(root.path, 'data');
  expect(() => lockDataDirectory(data)).toThrow(
    new SetupError(
      `The data directory ${data} cannot be locked ${why}, so two servers might work on it: put it on a file system that has locks (mount NFS without "nolock")`,
    ),
  );
  expect([readdirSync(data), openBelow(data)]).toEqual([[], []]);
});
