import { type ChildProcess, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../../support/cli.js';
import { inPidNamespace, lacks } from '../../support/needs.mjs';
import { openFilesOf } from '../../support/processes.js';
import { TestServer } from '../../support/server.js';
import { mounted } from '../../support/small-disk.js';
import { temporary } from '../../support/temporary.js';

let cli: Cli;
beforeAll(async () => {
  cli = await Cli.create();
});
afterAll(() => cli[Symbol.asyncDispose]());

const serve = (dataDirectory: string) => [
  'serve',
  '--port',
  '0',
  '--auth',
  'off',
  '--data-dir',
  dataDirectory,
];

/** What a start in the process of the test says that is refused. */
const refusal = (dataDirectory: string, env: NodeJS.ProcessEnv = {}) =>
  cli.refusedStart(serve(dataDirectory), { CUDA_VISIBLE_DEVICES: '', ...env });

/** A start in a process of its own, when it listens or has ended. */
async function start(dataDirectory: string, wrapper: readonly string[] = []) {
  const { process: child, ended } = cli.start(serve(dataDirectory), { CUDA_VISIBLE_DEVICES: '' }, wrapper);
  const isUp = await Promise.race([once(child.stdout, 'data').then(() => true), ended.then(() => false)]);
  return { child, isUp };
}

/** As a crash does. */
async function kill(child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

describe('the lock of a data directory', () => {
  test.for([
    ['what is no JSON', (file: string) => writeFileSync(file, Buffer.alloc(100_000, 0xff))],
    ['another living process', (file: string) => writeFileSync(file, '{"pid":1,"startTime":0}')],
    ['a directory', (file: string) => mkdirSync(path.join(file, 'inside'), { recursive: true })],
    ['a link to nowhere', (file: string) => symlinkSync('/nowhere/at/all', file)],
    ['a link to a file of somebody else', (file: string) => symlinkSync('../precious', file)],
  ] as const)(
    'The lock of a data directory does not depend on the content of serve.lock: %s',
    async ([, plant]) => {
      await using directory = await temporary();
      const data = path.join(directory.path, 'data');
      const precious = path.join(directory.path, 'precious');
      mkdirSync(data);
      writeFileSync(precious, 'as it was');
      plant(path.join(data, 'serve.lock'));
      {
        await using server = await TestServer.start({ dataDirectory: data });
        expect(server.stderr).not.toContain('Error');
        expect(await refusal(data)).toMatch(/^Another server.* uses the data directory .*--data-dir$/m);
      }
      expect(readFileSync(precious, 'utf8')).toBe('as it was');
    },
  );

  test('The lock of a data directory names the process that has it, and holds when serve.lock is removed', async () => {
    await using server = await TestServer.start();
    const named = new RegExp(`\\(process ${process.pid} on \\S+, since \\d{4}-\\d\\d-\\d\\dT\\S+\\)`);
    expect(await refusal(server.dataDirectory)).toMatch(named);
    rmSync(path.join(server.dataDirectory, 'serve.lock'));
    expect(await refusal(server.dataDirectory)).toMatch(/^Another server/);
  });

  test('The lock of a data directory is always acquired by exactly one of two servers that start at once', async () => {
    await using directory = await temporary();
    const data = path.join(directory.path, 'data');
    for (let round = 0; round < 2; round += 1) {
      const all = await Promise.all([start(data), start(data)]);
      const up = all.filter(({ isUp }) => isUp);
      expect(up).toHaveLength(1);
      // The next round starts with the files of a crashed server.
      for (const { child } of up) await kill(child);
      expect(all.filter(({ child }) => child.exitCode === 2)).toHaveLength(1);
    }
  });

  test.skipIf(lacks('the right to make PID namespaces'))(
    'The lock of a data directory is effective across PID namespaces',
    async () => {
      await using directory = await temporary();
      const data = path.join(directory.path, 'data');
      const both = await Promise.all([start(data, inPidNamespace), start(data, inPidNamespace)]);
      expect(both.map(({ isUp }) => isUp).sort()).toEqual([false, true]);
      // Its server is the namespace's first process, and ends with it.
      for (const { child, isUp } of both) if (isUp) await kill(child);
    },
  );

  test.for([
    ['is moved', (data: string) => renameSync(data, `${data}-2`)],
    [
      'is a restored backup, and the original is removed',
      (data: string) => {
        spawnSync('cp', ['-a', data, `${data}-2`]);
        rmSync(data, { recursive: true });
      },
    ],
  ] as const)(
    'The lock of a data directory with running jobs is acquired by a server whose directory %s',
    async ([, bring]) => {
      await using server = await TestServer.start({ runners: true, flags: ['--on-exit', 'keep'] });
      const { id } = await server.heldJob();
      await server.stop();
      const data = server.dataDirectory;
      bring(data);
      {
        await using brought = await TestServer.start({ runners: true, dataDirectory: `${data}-2` });
        expect(brought.stderr).toContain('Recovered 1 active');
      }
      renameSync(`${data}-2`, data);
      expect(existsSync(server.jobDirectory(id))).toBe(true);
    },
  );

  test('The lock of a data directory is not held by a job that outlives its server', async () => {
    await using server = await TestServer.start({ runners: true, flags: ['--on-exit', 'keep'] });
    const { id, gate } = await server.heldJob();
    const data = realpathSync(server.dataDirectory);
    const opened = server.processes().flatMap((pid) => [...openFilesOf(pid).values()]);
    expect(opened.length).toBeGreaterThan(0);
    expect(opened.filter((file) => [data, path.join(data, 'serve.lock')].includes(file))).toEqual([]);
    await server.stop();
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

  test('On a file system that other machines may share, serve.lock is locked instead of the directory', async () => {
    await using directory = await temporary();
    const environment = { PATH: plantFlock(directory.path, 'files') };
    const dataDirectory = path.join(disk, 'files');
    const file = path.join(dataDirectory, 'serve.lock');
    for (let round = 0; round < 2; round += 1) {
      {
        await using _ = await TestServer.start({ dataDirectory, environment });
        expect(await refusal(dataDirectory, environment)).toMatch(/^Another server/);
        expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ pid: process.pid });
        expect(spawnSync('flock', ['-n', file, 'true']).status).toBe(1);
      }
      expect(readFileSync(file, 'utf8')).toBe('');
    }
  });

  test('On a file system that other machines may share, a serve.lock that is not a file is refused with an explanation', async () => {
    const data = path.join(disk, 'no-file');
    mkdirSync(path.join(data, 'serve.lock'), { recursive: true });
    expect(await refusal(data)).toMatch(/serve\.lock is not a regular file.*remove/);
  });
});

describe('on a file system without locks', () => {
  test('On a file system without locks, startup is refused with an explanation', async () => {
    await using directory = await temporary();
    const PATH = plantFlock(directory.path, 'nothing');
    const data = path.join(directory.path, 'data');
    expect(await refusal(data, { PATH })).toMatch(
      /cannot be locked \(.*Bad file descriptor\).*file system that has locks/,
    );
    expect(existsSync(path.join(data, 'jobs'))).toBe(false);
  });
});
