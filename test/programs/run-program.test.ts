import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { type ProgramOptions, runProgram } from '../../src/programs/index.js';
import { built } from '../support/built.js';
import { asNobody, lacks } from '../support/needs.mjs';
import { processesWith } from '../support/processes.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const usual: ProgramOptions = { environment: { PATH: process.env.PATH }, limit: 60_000, maxBytes: 1000 };
const sh = (script: string, options: Partial<ProgramOptions> = {}) =>
  runProgram(['sh', '-c', script], { ...usual, ...options });

let marks = 0;
/** The environment of one test's programs, by which they are found. */
function marked() {
  marks += 1;
  const mark = `run-program-${process.pid}-${marks}.`;
  return {
    environment: { ...usual.environment, MARK: mark },
    left: () => processesWith({ environment: mark }),
    gone: () => until('nothing of it is left', () => processesWith({ environment: mark }).length === 0),
  };
}

describe('a program', () => {
  test('A program gets its input, its environment and its directory, and nothing else', async () => {
    const end = await sh('cat; pwd; env | grep -v "^\\(PWD\\|SHLVL\\|_\\)=" | sort; echo no >&2; exit 3', {
      input: 'in\n',
      environment: { PATH: '/usr/bin:/bin', A: 'b' },
    });
    expect(end).toEqual({
      exitCode: 3,
      signal: null,
      stdout: 'in\n/\nA=b\nPATH=/usr/bin:/bin\n',
      stderr: 'no\n',
      endedFor: null,
      remains: null,
    });
    expect((await sh('cat')).stdout).toBe('');
  });

  test('A program that does not read its input, or is ended by a signal, reports how it ended', async () => {
    const input = 'x'.repeat(1_000_000);
    expect(await sh('exec 0<&-', { input })).toMatchObject({ exitCode: 0, endedFor: null });
    expect(await sh('kill -s SEGV $$')).toMatchObject({ exitCode: null, signal: 'SIGSEGV', endedFor: null });
  });

  test('A program that cannot be started reports the error of the system', async () => {
    await expect(runProgram(['no-such-program'], usual)).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(runProgram(['/etc/passwd'], usual)).rejects.toMatchObject({ code: 'EACCES' });
  });

  test('A program that cannot be found is reported as missing, whatever else PATH contains', async () => {
    await using root = await temporary();
    // The system says EACCES of both.
    mkdirSync(path.join(root.path, 'program'));
    const environment = { PATH: `${root.path}:/usr/bin` };
    await expect(runProgram(['program'], { ...usual, environment })).rejects.toMatchObject({
      code: 'ENOENT',
    });
    if (lacks('root, and a checkout and a Node that other users can read')) return;
    const closed = path.join(root.path, 'closed');
    mkdirSync(closed, { mode: 0o700 });
    chmodSync(root.path, 0o755);
    const script = `const { runProgram } = await import(${JSON.stringify(built('programs/index.js'))});
      await runProgram(['program'], { environment: { PATH: ${JSON.stringify(`${closed}:/usr/bin`)} }, limit: 9000 })
        .catch(({ code }) => console.log(code));`;
    const [program = '', ...words] = [...asNobody, process.execPath, '--input-type=module', '-e', script];
    expect(execFileSync(program, words, { encoding: 'utf8' })).toBe('ENOENT\n');
  });

  test('The two output streams of a program can be merged into one text', async () => {
    const { stdout, stderr } = await sh('echo 1; echo 2 >&2', { output: 'merged' });
    expect([stdout.split('\n').sort(), stderr]).toEqual([['', '1', '2'], '']);
  });
});

describe('a program that prints much', () => {
  const script = 'for i in $(seq 5000); do echo $i; done';

  test('A program that prints much is ended, or keeps running with its first or its last bytes kept', async () => {
    const ended = await sh('yes', { maxBytes: 10 });
    expect(ended).toMatchObject({ stdout: 'y\ny\ny\ny\ny\n', endedFor: 'output', signal: 'SIGTERM' });
    const first = await sh(script, { maxBytes: 6, beyond: 'keepFirst' });
    expect(first).toMatchObject({ stdout: '1\n2\n3\n', exitCode: 0, endedFor: null });
    const last = await sh(script, { maxBytes: 10, beyond: 'keepLast' });
    expect(last).toMatchObject({ stdout: '4999\n5000\n', exitCode: 0, endedFor: null });
  });
});

describe('a program that does not end', () => {
  test('A program that does not end is asked to end, with its whole group, when its time is up', async () => {
    const { environment, gone } = marked();
    const script = 'trap "echo asked; exit 5" TERM; sleep 600 & wait';
    expect(await sh(script, { environment, limit: 300 })).toMatchObject({
      stdout: 'asked\n',
      exitCode: 5,
      endedFor: 'limit',
      remains: null,
    });
    await gone();
  });

  test('A program that does not end is killed with its whole group if it ignores the request', async () => {
    const { environment, gone } = marked();
    const script = 'trap "" TERM; sleep 600 & sleep 600; sleep 600';
    expect(await sh(script, { environment, limit: 300 })).toMatchObject({
      signal: 'SIGKILL',
      endedFor: 'limit',
    });
    await gone();
  });

  test('A program that does not end is ended when it is no longer wanted', async () => {
    const stop = new AbortController();
    const { environment, left, gone } = marked();
    const running = sh('sleep 600', { environment, stop: stop.signal });
    await until('it runs', () => left().length > 0);
    stop.abort();
    expect(await running).toMatchObject({ signal: 'SIGTERM', endedFor: 'stop' });
    await gone();
    expect(await sh('sleep 600', { stop: stop.signal })).toMatchObject({ endedFor: 'stop' });
  });

  test('A program that does not end even when it is killed is left behind and reported', async () => {
    const tried: string[] = [];
    const end = await sh('sleep 600', { limit: 100, killGroup: (_, signal) => tried.push(signal) });
    expect(end).toMatchObject({ exitCode: null, signal: null, endedFor: 'limit' });
    expect(tried.slice(0, 2)).toEqual(['SIGTERM', 'SIGKILL']);
    process.kill(-(end.remains?.pid ?? 0), 'SIGKILL');
    await end.remains?.gone;
  });
});

describe('processes left behind by a program', () => {
  test('A process that a program leaves behind is ended with it, even if it holds a pipe open', async () => {
    for (const redirected of ['', '>/dev/null 2>&1']) {
      const { environment, gone } = marked();
      const end = await sh(`sleep 600 ${redirected} & echo said`, { environment });
      expect(end).toMatchObject({ stdout: 'said\n', exitCode: 0, endedFor: null });
      await gone();
    }
  });

  test('A process outside of the group of a program does not delay its end', async () => {
    const { environment, left } = marked();
    const end = await sh('setsid sleep 600 & echo said', { environment });
    expect(end).toMatchObject({ stdout: 'said\n', exitCode: 0 });
    for (const pid of left()) process.kill(pid, 'SIGKILL');
  });
});

test.for(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('A program ends with its parent at %s', async (signal) => {
  await using root = await temporary();
  const { environment, left, gone } = marked();
  const file = path.join(root.path, 'begun');
  const script = `import { runProgram } from ${JSON.stringify(built('programs/index.js'))};
    await runProgram(['sh', '-c', 'echo > ${file}; sleep 600; true'],
      { environment: process.env, limit: 60_000, maxBytes: 10, endsOnSignals: true });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: environment,
    stdio: 'inherit',
  });
  const ended = new Promise((resolve) => child.once('exit', (_, by) => resolve(by)));
  await until('the program runs', () => readFileSync(file, { encoding: 'utf8', flag: 'a+' }) !== '');
  expect(left().length).toBeGreaterThan(1);
  child.kill(signal);
  expect(await ended).toBe(signal);
  await gone();
});
