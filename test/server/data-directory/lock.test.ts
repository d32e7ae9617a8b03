import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../../support/cli.js';
import { shareCode } from '../../support/code-cache.js';
import { inPidNamespace, lacks } from '../../support/needs.mjs';
import { openFilesOf } from '../../support/processes.js';
import { TestServer } from '../../support/server.js';
import { mounted } from '../../support/small-disk.js';
import { temporary } from '../../support/temporary.js';

const bin = fileURLToPath(new URL('../../../bin/run.js', import.meta.url));

let home = '';
beforeAll(() => {
  home = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
  shareCode(home);
});
afterAll(() => rmSync(home, { recursive: true }));

/** What a start prints until it listens or has ended, and the process. */
async function start(dataDirectory: string, launcher: readonly string[] = [], env: NodeJS.ProcessEnv = {}) {
  const serve = [process.execPath, bin, 'serve', '--port', '0', '--auth', 'off', '--data-dir', dataDirectory];
  const [program = '', ...args] = [...launcher, ...serve];
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: home, CUDA_VISIBLE_DEVICES: '', ...env },
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk;
  });
  const listens = once(child.stdout, 'data').then(() => true);
  const ends = once(child, 'close').then(() => false);
  return { child, isUp: await Promise.race([listens, ends]), stderr: () => stderr };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}

describe('the lock of a data directory', () => {
  test.for([
    ['what is no JSON', (file: string) => writeFileSync(file, Buffer.alloc(100_000, 0xff))],
    ['another living process', (file: string) => writeFileSync(file, '{"pid":1,"startTime":0}')],
    ['a directory', (file: string) => mkdirSync(path.join(file, 'inside'), { recursive: true })],
    ['a link to nowhere', (file: string) => symlinkSync('/nowhere/at/all', file)],
    ['a link to a file of somebody else', (file: string) => symlinkSync('../precious', file)],
  ] as const)('is not what serve.lock holds: %s', async ([, plant]) => {
    await using directory = await temporary();
    const data = path.join(directory.path, 'data');
    const precious = path.join(directory.path, 'precious');
    mkdirSync(data);
    writeFileSync(precious, 'as it was');
    plant(path.join(data, 'serve.lock'));
    const first = await start(data);
    expect(first.stderr()).not.toContain('Error');
    expect(first.isUp).toBe(true);
    const second = await start(data);
    expect([second.isUp, second.child.exitCode]).toEqual([false, 2]);
    expect(second.stderr()).toMatch(/^Error: Another server.* uses the data directory .*--data-dir$/m);
    await end(first.child);
    expect(readFileSync(precious, 'utf8')).toBe('as it was');
  });

  test('names the process that has it', async () => {
    await using server = await TestServer.start({ ownProcess: true });
    await using cli = await Cli.create();
    const { stderr } = await cli.runProcess(['serve', '--port', '0', '--data-dir', server.dataDirectory]);
    expect(stderr).toMatch(
      new RegExp(`\\(process ${server.pid} on \\S+, since \\d{4}-\\d\\d-\\d\\dT\\S+\\)`),
    );
  });

  test('holds when serve.lock is removed', async () => {
    await using server = await TestServer.start({ ownProcess: true });
    rmSync(path.join(server.dataDirectory, 'serve.lock'));
    const second = await start(server.dataDirectory);
    expect([second.isUp, second.child.exitCode]).toEqual([false, 2]);
  });

  test('is taken by exactly one of six servers that start at once, each time', async () => {
    await using directory = await temporary();
    const data = path.join(directory.path, 'data');
    for (let round = 0; round < 2; round += 1) {
      const all = await Promise.all(Array.from({ length: 6 }, () => start(data)));
      const up = all.filter(({ isUp }) => isUp);
      expect(up).toHaveLength(1);
      // The next round starts with the files of a crashed server.
      for (const { child } of up) {
        const exit = once(child, 'exit');
        child.kill('SIGKILL');
        await exit;
      }
      expect(all.filter(({ child }) => child.exitCode === 2)).toHaveLength(5);
    }
  });

  test.skipIf(lacks('the right to make PID namespaces'))('is seen from another PID namespace', async () => {
    await using directory = await temporary();
    const data = path.join(directory.path, 'data');
    const both = await Promise.all([start(data, inPidNamespace), start(data, inPidNamespace)]);
    expect(both.map(({ isUp }) => isUp).sort()).toEqual([false, true]);
    for (const { child } of both) {
      if (child.exitCode !== null) continue;
      const exit = once(child, 'exit');
      // Its server is the namespace's first process, and ends with it.
      child.kill('SIGKILL');
      await exit;
    }
  });

  test.for([
    ['is moved', (data: string) => renameSync(data, `${data}-2`)],
    [
      'is a restored backup, and the original is removed',
      (data: string) => {
        spawnSync('cp', ['-a', data, `${data}-2`]);
        rmSync(data, { recursive: true });
      },
    ],
  ] as const)('is had by a server of a directory with running jobs that %s', async ([, bring]) => {
    await using server = await TestServer.start({ ownProcess: true });
    const { id } = await server.heldJob();
    await server.crash();
    const data = server.dataDirectory;
    bring(data);
    const { child, isUp, stderr } = await start(`${data}-2`);
    expect(isUp).toBe(true);
    expect(stderr()).toContain('Recovered 1 active');
    await end(child);
    renameSync(`${data}-2`, data);
    expect(existsSync(server.jobDirectory(id))).toBe(true);
  });

  test('is not held by a job that outlives its server', async () => {
    await using server = await TestServer.start({ ownProcess: true });
    const { id, gate } = await server.heldJob();
    const data = realpathSync(server.dataDirectory);
    const opened = server.processes().flatMap((pid) => [...openFilesOf(pid).values()]);
    expect(opened.length).toBeGreaterThan(0);
    expect(opened.filter((file) => [data, path.join(data, 'serve.lock')].includes(file))).toEqual([]);
    await server.crash();
    expect(server.processes().length).toBeGreaterThan(0);
    await server.start();
    gate.open();
    expect((await server.api.ended(id)).view.status).toBe('done');
  });
});

/** A program `flock` that fails on directories, as on a file system that can lock only files, or on everything. */
function plantFlock(directory: string, kind: 'files' | 'nothing'): string {
  const bad = kind === 'files' ? '[ -d /proc/self/fd/3 ]' : 'true';
  const script = `#!/bin/sh\nif ${bad}; then echo "flock: 3: Bad file descriptor" >&2; exit 65; fi\nexec /usr/bin/flock "$@"\n`;
  const file = path.join(directory, 'flock');
  writeFileSync(file, script);
  chmodSync(file, 0o755);
  return `${directory}:${process.env.PATH}`;
}

/** A file system that nobody takes for a local one. */
const ramfs = mounted('ramfs');

describe.skipIf(ramfs === null)('on a file system that other machines may share', () => {
  const disk = ramfs ?? '';

  test('serve.lock is locked, not the directory', async () => {
    await using directory = await temporary();
    const env = { PATH: plantFlock(directory.path, 'files') };
    const data = path.join(disk, 'files');
    for (let round = 0; round < 2; round += 1) {
      const all = await Promise.all(Array.from({ length: 3 }, () => start(data, [], env)));
      const up = all.filter(({ isUp }) => isUp);
      expect(up).toHaveLength(1);
      const file = path.join(data, 'serve.lock');
      expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ pid: up[0]?.child.pid });
      expect(spawnSync('flock', ['-n', file, 'true']).status).toBe(1);
      for (const { child } of up) await end(child);
      expect(readFileSync(file, 'utf8')).toBe('');
    }
  });

  test('a serve.lock that is not a file is refused with an explanation', async () => {
    const data = path.join(disk, 'no-file');
    mkdirSync(path.join(data, 'serve.lock'), { recursive: true });
    const { child, stderr } = await start(data);
    expect([child.exitCode, stderr()]).toEqual([
      2,
      expect.stringMatching(/serve\.lock is not a regular file.*remove/),
    ]);
  });
});

describe('on a file system without locks', () => {
  test('a start is refused with an explanation', async () => {
    await using directory = await temporary();
    const PATH = plantFlock(directory.path, 'nothing');
    const data = path.join(directory.path, 'data');
    const { child, stderr } = await start(data, [], { PATH });
    expect(child.exitCode).toBe(2);
    expect(stderr()).toMatch(/cannot be locked \(.*Bad file descriptor\).*file system that has locks/);
    expect(existsSync(path.join(data, 'jobs'))).toBe(false);
  });
});
