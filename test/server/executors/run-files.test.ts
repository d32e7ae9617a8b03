import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { unknownUsage } from '../../../src/runner/index.js';
import { checkRunnerRoom, endOfRun, isRemoved, lacksRoom } from '../../../src/server/executors/run-files.js';
import { smallDisk } from '../../support/small-disk.js';
import { temporary } from '../../support/temporary.js';

const root = await temporary();
afterAll(() => root[Symbol.asyncDispose]());
const directory = path.join(root.path, 'jobs', '0123456789ab');
mkdirSync(directory, { recursive: true });
const write = (name: string, content: unknown) =>
  writeFileSync(path.join(directory, name), typeof content === 'string' ? content : JSON.stringify(content));

const endedAt = '2026-01-01T00:00:00.000Z';
const recorded = {
  exitCode: 0,
  signal: null,
  error: null,
  lostLines: 0,
  ...unknownUsage,
  fault: null,
  wasAlone: false,
  endedAt,
};
const told = {
  kind: 'ended',
  exitCode: 0,
  signal: null,
  error: null,
  lostLines: 0,
  ...unknownUsage,
  fault: null,
  endedAt,
};
const killed = { exitCode: null, signal: 'SIGKILL' } as const;

test.for([
  [
    'as it is recorded',
    { exitCode: 3, lostLines: 2, fault: 'diskFull' },
    false,
    { exitCode: 3, lostLines: 2, fault: 'diskFull' },
  ],
  [
    'with the number of its signal',
    { exitCode: null, signal: 'SIGTERM' },
    true,
    { exitCode: 143, signal: 'SIGTERM' },
  ],
  [
    'of memory, perhaps, if nobody stopped it',
    killed,
    false,
    { exitCode: 137, signal: 'SIGKILL', fault: 'outOfMemory' },
  ],
  ['by a stop', killed, true, { exitCode: 137, signal: 'SIGKILL' }],
  [
    'for what its record says',
    { ...killed, error: 'It used more than it may' },
    false,
    { exitCode: 137, signal: 'SIGKILL', error: 'It used more than it may' },
  ],
  ['alone, without its worker', { wasAlone: true }, false, { wasAlone: true }],
] as const)('A run that ended %s is reported accordingly', async ([, record, wasStopped, end]) => {
  write('exit.json', { ...recorded, ...record });
  expect(await endOfRun(directory, wasStopped)).toEqual({ ...told, ...end });
});

const lost = (error: string) => ({
  kind: 'ended',
  exitCode: null,
  signal: null,
  fault: 'lost',
  error,
  lostLines: 0,
  ...unknownUsage,
});

test.for([
  ['of an exit code that is none', { ...recorded, exitCode: 256 }],
  ['of a signal that is none', { ...recorded, signal: 'kill -9' }],
  ['of another shape', '[]'],
  ['without JSON', '{'],
])('A record %s is rejected as not written by a runner', async ([, content]) => {
  write('exit.json', content);
  expect(await endOfRun(directory, false)).toEqual(lost("The runner's record of the end cannot be read"));
});

test('A run without a record counts as lost together with its runner or its directory', async () => {
  rmSync(path.join(directory, 'exit.json'));
  expect(await endOfRun(directory, false)).toEqual(
    lost('The runner of this job was killed; what it had started was ended with it'),
  );
  expect(await endOfRun(path.join(root.path, 'jobs', 'gone'), false)).toEqual(
    lost("The job's directory was removed while it ran; what it had started was ended"),
  );
});

test('A directory counts as removed only if its parent exists', async () => {
  const removed = [directory, path.join(root.path, 'jobs/gone'), path.join(root.path, 'unmounted/gone')];
  expect(await Promise.all(removed.map(isRemoved))).toEqual([false, true, false]);
});

const disk = smallDisk(1);

test.skipIf(disk === null)(
  'A full disk has no space for a runner, and explains the end of one that could not write',
  async () => {
    const job = path.join(disk ?? '', 'job');
    mkdirSync(job);
    expect(() => checkRunnerRoom(job)).not.toThrow();
    expect(() => writeFileSync(path.join(disk ?? '', 'filler'), Buffer.alloc(2 << 20))).toThrow(/ENOSPC/);
    expect([lacksRoom(job), lacksRoom(path.join(root.path, 'gone'))]).toEqual([true, false]);
    expect(() => checkRunnerRoom(job)).toThrow(expect.objectContaining({ code: 'ENOSPC', path: job }));
    expect(await endOfRun(job, false)).toMatchObject({
      fault: 'diskFull',
      error: "The runner of this job could not write: the server's disk is full",
    });
  },
);

const few = smallDisk(1, 64);

test.skipIf(few === null)('A disk without free inodes has no space for a runner', async () => {
  const job = path.join(few ?? '', 'job');
  mkdirSync(job);
  expect(lacksRoom(job)).toBe(false);
  const fill = () => {
    for (let name = 0; name < 64; name += 1) writeFileSync(path.join(job, `${name}`), '');
  };
  expect(fill).toThrow(/ENOSPC/);
  expect(lacksRoom(job)).toBe(true);
  expect(await endOfRun(job, false)).toMatchObject({
    fault: 'diskFull',
    error: "The runner of this job could not write: no inodes (files) are left on the server's disk",
  });
});
