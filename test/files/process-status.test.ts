import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import {
  isAnswer,
  isGroupAlive,
  isSignalable,
  processIds,
  readStatus,
} from '../../src/files/process-status.js';

test.skipIf(process.platform !== 'linux')("the kernel's words about a process are read whole", async () => {
  const child = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
  await once(child, 'spawn');
  const pid = child.pid ?? 0;
  try {
    const own = readStatus(process.pid);
    const status = readStatus(pid);
    expect(status).toEqual({
      pid,
      parent: process.pid,
      group: pid,
      session: pid,
      threads: 1,
      isZombie: false,
      isStopped: false,
      startTime: expect.any(Number),
    });
    expect(own?.threads).toBeGreaterThan(1);
    expect(status?.startTime).toBeGreaterThanOrEqual(own?.startTime ?? Number.POSITIVE_INFINITY);
    expect(processIds()).toEqual(expect.arrayContaining([process.pid, pid]));
    expect(processIds().every((each) => each > 0)).toBe(true);
    expect([isSignalable(pid), isSignalable(-pid), isGroupAlive(pid)]).toEqual([true, true, true]);
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  expect([readStatus(pid), isSignalable(pid), isSignalable(-pid), isGroupAlive(pid)]).toEqual([
    undefined,
    false,
    false,
    false,
  ]);
});

test('only some errors say that a process is gone', () => {
  const codes = ['ENOENT', 'ESRCH', 'EACCES', 'EPERM', 'EMFILE', 'ENOMEM'];
  expect(codes.filter((code) => isAnswer(Object.assign(new Error(code), { code })))).toEqual(
    codes.slice(0, 4),
  );
});
