import { type ChildProcess, spawn } from 'node:child_process';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isGroupAlive } from '../../src/files/process-status.js';
import { processesOfJob } from '../../src/runner/process-table.js';
import { terminateGroup, terminateStrays } from '../../src/runner/terminate.js';
import { isRunning, readProcess } from '../support/processes.mjs';
import { until } from '../support/until.mjs';

/** A shell in its own process group; resolves after it has printed a line. */
async function group(
  script: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<ChildProcess & { pid: number }> {
  const child = spawn('sh', ['-c', script], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, ...environment },
  });
  let output = '';
  child.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  onTestFinished(() => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL');
    } catch {
      // It has ended.
    }
  });
  await until('the shell is ready', () => output.includes('ready'));
  return child as ChildProcess & { pid: number };
}

describe('ending a group', () => {
  test('Ending a group gives it time to end by itself', async () => {
    const child = await group('trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done');
    const start = performance.now();
    await terminateGroup(child.pid, 10_000);
    expect(performance.now() - start).toBeLessThan(2000);
    await until('its exit code is known', () => child.exitCode !== null);
    expect([child.exitCode, isGroupAlive(child.pid)]).toEqual([9, false]);
  });

  test('Ending a group sends SIGKILL to the remaining processes after the grace period', async () => {
    const child = await group('trap "" TERM; sleep 600 & echo ready; while :; do sleep 0.05; done');
    expect(isGroupAlive(child.pid)).toBe(true);
    await terminateGroup(child.pid, 200);
    expect(isGroupAlive(child.pid)).toBe(false);
  });

  test('Ending a group also works if its leader has already exited', async () => {
    const child = await group('(trap "" TERM; echo ready; while :; do sleep 0.05; done) & exit 0');
    await until('the leader has ended', () => child.exitCode !== null);
    expect(isGroupAlive(child.pid)).toBe(true);
    await terminateGroup(child.pid, 100);
    expect(isGroupAlive(child.pid)).toBe(false);
  });

  test('Ending a group that does not exist ends at once', async () => {
    const child = await group('echo ready');
    await until('it has ended', () => child.exitCode !== null);
    const begun = performance.now();
    await terminateGroup(child.pid, 60_000);
    expect(performance.now() - begun).toBeLessThan(30_000);
  });
});

describe('ending strays', () => {
  test('Ending strays leaves none suspended that has just executed another program and lost its marker', async () => {
    const id = `changing-test-${process.pid}`;
    // Each, in a session of its own, begins one program after the other, with the mark and without it by turns.
    const change =
      '[ -n "$REMOTE_APP_JOB_ID" ] && exec env -i sh -c "$0" "$0" "$1"; ' +
      'exec env REMOTE_APP_JOB_ID="$1" sh -c "$0" "$0" "$1"';
    const changing = Array.from({ length: 8 }, () =>
      spawn('sh', ['-c', change, change, id], { detached: true, stdio: 'ignore' }),
    );
    onTestFinished(() => {
      for (const child of changing) child.kill('SIGKILL');
    });
    for (let round = 0; round < 5; round += 1) {
      await terminateStrays(id, '/nowhere');
      const states = changing.map(({ pid = 0 }) => readProcess(pid, 'stat').split(') ')[1]?.[0]);
      expect(states).not.toContain('T');
    }
  });

  test('Ending strays finds them by their marker, and touches no other process', async () => {
    const id = `stray-test-${process.pid}`;
    const script = '(setsid sleep 600 >/dev/null &); echo ready; while :; do sleep 0.05; done';
    const ours = await group(script, { REMOTE_APP_JOB_ID: id });
    const other = await group(script, { REMOTE_APP_JOB_ID: `${id}0` });
    const strays = await until('the strays run', async () => {
      const pids = await processesOfJob(id, '/nowhere/output.fifo');
      return pids.length >= 2 ? pids : null;
    });
    await terminateStrays(id, '/nowhere');
    expect(strays.filter(isRunning)).toEqual([]);
    expect([isRunning(ours.pid), isRunning(other.pid)]).toEqual([false, true]);
    await terminateStrays(`${id}0`, '/nowhere');
    expect(isRunning(other.pid)).toBe(false);
  });
});
