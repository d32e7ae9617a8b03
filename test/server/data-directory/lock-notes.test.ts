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
import { DirectoryInUse, lockDataDirectory, lookAtLock } from '../../../src/server/data-directory/lock.js';
import { SetupError } from '../../../src/server/setup-error.js';
import { openBelow } from '../../support/open-files.js';
import { plant, temporary } from '../../support/temporary.js';

const noteOf = (data: string) => path.join(data, 'serve.lock');

test('A locked data directory reports who holds the lock, and can be locked again once it is released', async () => {
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
])('A lock note that %s identifies nobody', async (_, text) => {
  await using root = await temporary();
  const release = lockDataDirectory(root.path);
  writeFileSync(noteOf(root.path), text);
  expect(() => lookAtLock(root.path)).toThrow(`Another server uses the data directory ${root.path}: `);
  release();
});

test('A lock note that is a link or a FIFO identifies nobody', async () => {
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

test.each([
  ['says why', 'echo "flock: 3: No locks available" >&2; exit 71', '(flock: 3: No locks available)'],
  ['says nothing', 'exit 71', '(flock ended with 71)'],
  ['is killed', 'kill -KILL $$', '(flock ended with SIGKILL)'],
])('A data directory is refused if locking fails and flock %s', async (_, script, why) => {
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
