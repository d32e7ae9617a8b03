import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  closeSync,
  lchownSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Socket } from 'node:net';
import path from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { removeShortTemporary, shortTemporary } from '../../src/runner/start-program.js';
import { hasEnded } from '../support/serve.mjs';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { RunnerJob } from './support.js';

const shell = (script: string): string[] => ['sh', '-c', script];

describe('a runner', () => {
  test('A runner logs what the command prints, and records how it ended', async () => {
    await using job = await RunnerJob.create(shell('echo out; echo err >&2; printf "no end"; exit 3'));
    expect(await job.run()).toEqual({
      exitCode: 3,
      signal: null,
      error: null,
      fault: null,
      lostLines: 0,
      peakMemory: expect.toBeOneOf([null, expect.any(Number)]),
      cpuSeconds: expect.any(Number),
      wasAlone: false,
      endedAt: expect.any(String),
    });
    expect(job.log).toBe('out\nerr\nno end\n');
    expect(readdirSync(path.join(job.directory, 'Workspace'))).toEqual([]);
  });

  test('A runner starts the command in its directory, without a shell, with empty stdin and its environment', async () => {
    const script = 'cat; pwd; echo "$NAME" "$REMOTE_APP_JOB_ID" "$@"';
    const environment = { NAME: 'value; $(touch pwned)' };
    await using job = await RunnerJob.create([...shell(script), 'sh', '$HOME', '*'], { environment });
    await job.run();
    expect(job.log).toBe(`${job.directory}/Workspace\nvalue; $(touch pwned) ${job.id} $HOME *\n`);
  });

  test('A runner starts the command in its cgroup, and reports that the kernel killed it for lack of memory', async () => {
    await using root = await temporary();
    const cgroup = path.join(root.path, 'job-1');
    // An ordinary directory stands in for the cgroup, and the job writes what the kernel would.
    const kernel = `cat ${cgroup}/cgroup.procs ${cgroup}/memory.max; printf 'oom 1\\noom_kill 1\\n' >${cgroup}/memory.events; kill -KILL $$`;
    const limits = { memory: 64 << 20, processes: null };
    await using job = await RunnerJob.create(shell(kernel), { cgroup, limits });
    expect(await job.run()).toMatchObject({
      ...{ exitCode: null, signal: 'SIGKILL', fault: 'outOfMemory', peakMemory: 64 << 20 },
      error: 'It was stopped for using more than the 64.0 MiB of memory that a job may use on this server',
    });
    expect(job.log).toMatch(/^0\n67108864\n/);
  });

  test('A runner passes on none of the other descriptors that it inherited', async () => {
    await using job = await RunnerJob.create(shell('ls /proc/self/fd'));
    const file = openSync(path.join(job.directory, 'left-open'), 'w');
    job.start(file);
    closeSync(file);
    await until('the end is written', () => job.hasEnded);
    // The fourth is that of `ls`.
    expect(job.log).toBe('0\n1\n2\n3\n');
  });

  test('A runner creates no short alias for temporary files if the name is taken, and leaves the existing one alone', async () => {
    await using root = await temporary();
    const long = path.join(root.path, 'long'.repeat(20));
    const [free, taken] = ['free', 'taken'].map((each) => `${each}-${path.basename(root.path)}`) as [
      string,
      string,
    ];
    const [freeLink, takenLink] = [free, taken].map((id) => `/tmp/remote-app-${id}`) as [string, string];
    symlinkSync('/elsewhere', takenLink);
    try {
      expect([shortTemporary(free, root.path), shortTemporary(free, long)]).toEqual([root.path, freeLink]);
      expect(shortTemporary(free, long)).toBe(freeLink);
      expect(shortTemporary(taken, long)).toBe(long);
      if (process.getuid?.() === 0) {
        lchownSync(takenLink, 65_534, 65_534);
        removeShortTemporary(taken);
        expect(readlinkSync(takenLink)).toBe('/elsewhere');
      }
    } finally {
      removeShortTemporary(free);
      rmSync(takenLink);
    }
    expect(readdirSync('/tmp')).not.toContain(path.basename(freeLink));
  });

  test('A runner creates the short alias in the runtime directory of the service, if there is one', async () => {
    await using root = await temporary();
    vi.stubEnv('RUNTIME_DIRECTORY', root.path);
    onTestFinished(() => void vi.unstubAllEnvs());
    const long = path.join(root.path, 'long'.repeat(20));
    expect(shortTemporary('id', long)).toBe(path.join(root.path, 'id'));
    removeShortTemporary('id');
    expect(readdirSync(root.path)).toEqual([]);
  });

  test.for([
    ['that may not be run', ['/etc'], /EACCES/],
    [
      'whose arguments are more than the system takes',
      ['true', ...Array(20_000).fill('x'.repeat(1000))],
      /^Cannot start 'true': its command line of 20001 words is longer than the system allows \(E2BIG\)\. .* send fewer files and values, or files with shorter names$/,
    ],
  ] as [string, string[], RegExp][])(
    'A runner reports that it cannot start a program %s, and exits',
    async ([, command, reason]) => {
      await using job = await RunnerJob.create(command);
      job.start();
      await until('the end is written', () => job.hasEnded);
      expect(job.end().error).toMatch(reason);
      await until('the runner has ended', () => job.processes().length === 0, 3000);
    },
  );

  test('A runner is the only one that runs its job', async () => {
    await using job = await RunnerJob.create(shell('echo once; sleep 0.2'));
    const runners = Array.from({ length: 4 }, () => job.start());
    await Promise.all(runners.map((runner) => once(runner, 'exit')));
    expect(job.log).toBe('once\n');
    job.start();
    await until('all runners have ended', () => job.processes().length === 0);
    expect(job.log).toBe('once\n');
  });

  test('A runner survives when its terminal is closed', async () => {
    await using job = await RunnerJob.create(shell('echo begin; read x < gate; echo end'));
    const gate = path.join(job.directory, 'Workspace', 'gate');
    execFileSync('mkfifo', [gate]);
    const runner = job.start();
    await job.prints('begin');
    runner.kill('SIGHUP');
    appendFileSync(gate, 'go\n');
    await once(runner, 'exit');
    expect([job.log, job.end().exitCode]).toEqual(['begin\nend\n', 0]);
  });

  const worker = (directory: string) => ({
    id: 'worker-0123456789ab',
    directory,
    arguments: ['infer'],
    environment: {},
  });

  test('A runner exits if it cannot open its log, even though the worker host of its app is waiting', async () => {
    await using root = await temporary();
    const host = createServer(() => {}).listen(path.join(root.path, 'socket'));
    await once(host, 'listening');
    await using job = await RunnerJob.create(shell('echo started'), { worker: worker(root.path) });
    mkdirSync(path.join(job.directory, 'log'));
    const runner = job.start();
    await until('the end is written', () => job.hasEnded);
    expect(job.end().error).toMatch(/^The runner failed: /);
    await until('the runner has ended', () => hasEnded(runner), 3000);
    host.close();
  });

  describe('a runner whose app is no longer loaded', () => {
    const alone = '[remote-app] The worker is gone: the app is started for this job alone\nstarted\n';

    test.each([
      ['the directory of its worker host is gone', (directory: string) => path.join(directory, 'gone')],
      [
        'nobody listens any more',
        (directory: string) => {
          writeFileSync(path.join(directory, 'socket'), '');
          return directory;
        },
      ],
    ])('A runner whose app is no longer loaded starts the app just for this job: %s', async (_, prepare) => {
      await using root = await temporary();
      await using job = await RunnerJob.create(shell('echo started'), { worker: worker(prepare(root.path)) });
      expect(await job.run()).toMatchObject({ exitCode: 0, error: null, wasAlone: true });
      expect(job.log).toBe(alone);
    });

    test.each([
      ['refuses the job', (socket: Socket) => socket.end(Buffer.from([0x4e, 0, 0, 0, 0]))],
      ['ends before it takes the job', (socket: Socket) => socket.destroy()],
      [
        'says what no worker host says',
        (socket: Socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'.repeat(9)),
      ],
    ])(
      'A runner whose app is no longer loaded starts the app just for this job if its worker host %s',
      async (_, answer) => {
        await using root = await temporary();
        const host = createServer((socket) => {
          socket.on('error', () => {});
          socket.once('data', () => answer(socket));
        });
        host.listen(path.join(root.path, 'socket'));
        await once(host, 'listening');
        await using job = await RunnerJob.create(shell('echo started'), { worker: worker(root.path) });
        try {
          expect(await job.run()).toMatchObject({ exitCode: 0, error: null });
          expect(job.log).toBe(alone);
        } finally {
          host.close();
        }
      },
    );
  });
});

describe('a runner that is asked to stop', () => {
  test('A runner that is asked to stop sends SIGTERM to the whole group first', async () => {
    const script =
      'trap "echo asked; exit 5" TERM; (trap "echo child asked; exit" TERM; echo child ready; while :; do sleep 0.05; done) & echo parent ready; while :; do sleep 0.05; done';
    await using job = await RunnerJob.create(shell(script), { killGrace: 5000 });
    const runner = job.start();
    await job.prints('parent ready');
    await job.prints('child ready');
    runner.kill('SIGTERM');
    await once(runner, 'exit');
    expect(job.end()).toMatchObject({ exitCode: 5, signal: null });
    // The shells print themselves that their sleeps were terminated.
    const lines = job.log.split('\n').filter((line) => !line.includes('Terminated'));
    expect(lines.sort()).toEqual(['', 'asked', 'child asked', 'child ready', 'parent ready']);
  });

  test('A runner that is asked to stop kills processes that ignore it, and those that left the group', async () => {
    const script =
      'trap "" TERM; (setsid sleep 600 &); (sleep 600 &); echo ready; while :; do sleep 0.1; done';
    await using job = await RunnerJob.create(shell(script));
    const runner = job.start();
    await job.prints('ready');
    const start = performance.now();
    runner.kill('SIGTERM');
    await until('the end is written', () => {
      // The end is written only when no process is left.
      if (!job.hasEnded) return false;
      expect(job.processes().filter((pid) => pid !== runner.pid)).toEqual([]);
      return true;
    });
    expect(performance.now() - start).toBeGreaterThan(290);
    expect(job.end()).toMatchObject({ exitCode: null, signal: 'SIGKILL' });
  });

  test('A runner that is asked to stop before its command has printed anything stops the command', async () => {
    await using job = await RunnerJob.create(shell('exec sleep 600'));
    const runner = job.start();
    await until('the command runs', () => job.processes().length === 2);
    runner.kill('SIGTERM');
    await once(runner, 'exit');
    expect(job.end().signal).toBe('SIGTERM');
  });
});
