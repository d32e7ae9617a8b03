import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import type { RunRequest } from '../../../src/runner/index.js';
import { LocalExecutor, type LocalSettings } from '../../../src/server/executors/local/index.js';
import { least, steps } from '../../support/form.js';
import { openFilesOf } from '../../support/processes.js';
import { environmentOf, isRunning, readProcess, sparesOf } from '../../support/processes.mjs';
import { sandbox } from '../../support/sandbox.js';
import { TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import { executorContract } from './contract.js';
import { localSubject } from './local-subject.js';
import { Bench, Followed, type Subject, type TestJob } from './support.js';

const runnerProgram = fileURLToPath(new URL('../../../dist/runner/main.js', import.meta.url));
const misbehaving = fileURLToPath(new URL('../../fixtures/programs/runner/main.js', import.meta.url));
const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
  await until('no spare runner is left', () => sparesOf(process.pid).length === 0);
});

/** The executor of this machine with a spare runner, which is ready when it is made. */
const spareSubject = (more: Partial<LocalSettings> = {}, spares = 1): Subject => {
  const subject = localSubject({ ...more, spares });
  return {
    ...subject,
    make: async (gpus) => {
      const before = sparesOf(process.pid);
      const executor = await subject.make(gpus);
      if (!(executor instanceof LocalExecutor)) throw new Error('It is another executor');
      executor.open();
      cleanUps.push(() => executor.close());
      await until('the spare runners are ready', () => {
        const started = sparesOf(process.pid).filter((pid) => !before.includes(pid));
        return started.length === spares && started.every(isListening);
      });
      return executor;
    },
  };
};

/** Whether a spare runner has begun to handle signals, which it does after all its modules are loaded. */
const isListening = (pid: number): boolean => {
  const caught = BigInt(`0x${/^SigCgt:\s*(\w+)$/m.exec(readProcess(pid, 'status'))?.[1] ?? '0'}`);
  return (caught & (1n << 14n)) !== 0n;
};

const runnerOf = (job: TestJob): number => {
  const { runner } = JSON.parse(readFileSync(path.join(job.path, 'runner.json'), 'utf8')) as {
    runner: { pid: number };
  };
  return runner.pid;
};

/** What a server asks of the runner of a job. */
function writeRequest(job: TestJob, script: string): void {
  const request: RunRequest = {
    jobId: job.id,
    command: ['sh', '-c', script],
    wrapper: [],
    isSandboxed: false,
    directory: job.workspace,
    output: job.output,
    limits: { memory: null, processes: null },
    inherited: ['PATH'],
    environment: {},
    maxLogBytes: 1 << 20,
    killGrace: 300,
    gpuUuids: [],
  };
  writeFileSync(path.join(job.path, 'run.json'), JSON.stringify(request));
}

/** The descriptors of a process that are sockets. */
const socketsOf = (pid: number): string[] =>
  [...openFilesOf(pid)].flatMap(([fd, file]) => (file.startsWith('socket:') ? [fd] : []));

/** All that a runner has inherited, or that others know it by. */
function surroundings(job: TestJob) {
  const pid = runnerOf(job);
  const stat = readProcess(pid, 'stat').split(') ').at(-1)?.split(' ') ?? [];
  const open = [...openFilesOf(pid).values()];
  return {
    leadsItsSession: Number(stat[3]) === pid && Number(stat[2]) === pid,
    environment: environmentOf(pid).sort(),
    directory: readlinkSync(`/proc/${pid}/cwd`) === job.path,
    priority: getPriority(pid),
    open: open
      .map((file) => file.replace(job.path, 'JOB').replace(/\[\d+\]/, ''))
      .filter((file) => !/^anon_inode|^\/dev\/(urandom|random)|\.(node|wasm)$/.test(file))
      .sort(),
    limits: readProcess(pid, 'limits'),
    umask: /^Umask:.*$/m.exec(readProcess(pid, 'status'))?.[0],
  };
}

// In a sandbox, where there is one: the contract of jobs without either is that of local.test.ts.
executorContract('the local executor with a spare runner', spareSubject({ sandbox }));

describe('a spare runner', () => {
  test('is given a job, and another one takes its place while that lasts', async () => {
    await using bench = await Bench.open(spareSubject());
    const executor = await bench.executor();
    const [spare] = sparesOf(process.pid);
    const job = bench.job();
    const run = new Followed(executor.run(job.order('echo said; sleep 600')));
    await job.prints('said');
    expect([runnerOf(job), job.log]).toEqual([spare, 'said\n']);
    await until('there is another', () => sparesOf(process.pid).some((pid) => pid !== spare));
    await executor.stop(job);
    await run.ended;
    await until('a runner whose job was killed is gone', () => !isRunning(spare ?? 0));
  });

  test('is used once', async () => {
    await using bench = await Bench.open(spareSubject());
    const executor = await bench.executor();
    const runners: number[] = [];
    for (const word of ['one', 'two']) {
      const job = bench.job();
      const run = new Followed(executor.run(job.order(`echo ${word}; pwd; cat; exit 4`)));
      expect(await run.ended).toMatchObject({ exitCode: 4, signal: null, fault: null });
      expect(job.log).toBe(`${word}\n${job.workspace}\n`);
      runners.push(runnerOf(job));
    }
    expect(new Set(runners).size).toBe(2);
    await until('both have ended', () => !runners.some(isRunning));
  });

  test('that has a job is found by a later server, without its record', async () => {
    await using bench = await Bench.open(spareSubject());
    const executor = await bench.executor();
    const [spare] = sparesOf(process.pid);
    const job = bench.job();
    const run = new Followed(executor.run(job.order('echo ready; sleep 600')));
    await job.prints('ready');
    expect(runnerOf(job)).toBe(spare);
    rmSync(path.join(job.path, 'runner.json'));
    const later = await localSubject().make();
    expect(later.isRunning(job)).toBe(true);
    await later.stop(job);
    await run.ended;
    expect(job.processes()).toEqual([]);
  });

  test('that has a job is like one that was started for it', async () => {
    await using bench = await Bench.open(spareSubject());
    const [first, second] = [bench.job(), bench.job()];
    const executor = await bench.executor();
    const [spare] = sparesOf(process.pid);
    const without = await localSubject().make();
    const runs = [
      new Followed(executor.run(first.order('echo ready; sleep 600'))),
      new Followed(without.run(second.order('echo ready; sleep 600'))),
    ];
    for (const job of [first, second]) await job.prints('ready');
    expect(runnerOf(first)).toBe(spare);
    expect(runnerOf(second)).not.toBe(spare);
    await until(
      'the channel is closed',
      () => !surroundings(first).open.some((file) => /^socket/.test(file)),
    );
    expect(surroundings(first)).toEqual(surroundings(second));
    expect(surroundings(first)).toMatchObject({ leadsItsSession: true, directory: true });
    await Promise.all([executor.stop(first), without.stop(second)]);
    await Promise.all(runs.map(({ ended }) => ended));
  });

  test('has nothing open of the server but its end of a channel', async () => {
    await using bench = await Bench.open(spareSubject());
    await bench.executor();
    const [spare = 0] = sparesOf(process.pid);
    await until('only its channel is open', () => socketsOf(spare).join() === '3');
    expect(readlinkSync(`/proc/${spare}/cwd`)).toBe('/');
  });

  test.for([[['SIGSTOP', 'SIGTERM']], [['SIGINT']]] as const)(
    'that was sent %j costs no job anything, which runs once',
    async ([signals]) => {
      await using bench = await Bench.open(spareSubject());
      const executor = await bench.executor();
      const [spare = 0] = sparesOf(process.pid);
      for (const each of signals) process.kill(spare, each);
      const job = bench.job();
      const run = new Followed(executor.run(job.order('echo ran')));
      expect(await run.ended).toMatchObject({ exitCode: 0, signal: null });
      expect([job.log, isRunning(spare)]).toEqual(['ran\n', false]);
      if (signals[0] === 'SIGSTOP') expect(runnerOf(job)).not.toBe(spare);
    },
  );

  test('that was killed costs no job anything, and is replaced', async () => {
    await using bench = await Bench.open(spareSubject());
    const executor = await bench.executor();
    const [spare = 0] = sparesOf(process.pid);
    process.kill(spare, 'SIGKILL');
    const job = bench.job();
    expect(await new Followed(executor.run(job.order('exit 0'))).ended).toMatchObject({ exitCode: 0 });
    expect(runnerOf(job)).not.toBe(spare);
    await until('there is another', () => sparesOf(process.pid).some((pid) => pid !== spare));
  });

  test('ends its job although its server dies before it has heard that the runner has it', async () => {
    await using bench = await Bench.open(spareSubject());
    const job = bench.job();
    writeRequest(job, 'echo ready; until [ -e gate ]; do sleep 0.01; done; echo done');
    // It reads nothing of what the runner says: for the runner the connection fails when it dies.
    const server = `
      const { spawn } = require('node:child_process');
      const words = [${JSON.stringify(runnerProgram)}, '--spare'];
      const stdio = ['ignore', 'ignore', 'ignore', 'pipe'];
      spawn(process.execPath, words, { stdio, detached: true }).stdio[3].write(${JSON.stringify(`${job.path}\n`)});
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`;
    const child = spawn(process.execPath, ['-e', server], { stdio: 'inherit' });
    await job.prints('ready');
    child.kill('SIGKILL');
    await once(child, 'exit');
    writeFileSync(path.join(job.workspace, 'gate'), '');
    await until('its job has ended', () => existsSync(path.join(job.path, 'exit.json')));
    expect(job.log).toBe('ready\ndone\n');
    expect(JSON.parse(readFileSync(path.join(job.path, 'exit.json'), 'utf8'))).toMatchObject({ exitCode: 0 });
  });

  test('does not run a job that a later server has ended before the runner claimed it', async () => {
    await using bench = await Bench.open(spareSubject());
    const job = bench.job();
    writeRequest(job, 'echo ran');
    const server = `
      const { spawn } = require('node:child_process');
      const words = [${JSON.stringify(runnerProgram)}, '--spare'];
      const stdio = ['ignore', 'ignore', 'ignore', 'pipe'];
      const spare = spawn(process.execPath, words, { cwd: '/', stdio, detached: true });
      process.stdin.on('data', (job) => spare.stdio[3].write(job, () => console.log('given')));`;
    const child = spawn(process.execPath, ['-e', server], { stdio: ['pipe', 'pipe', 'inherit'] });
    const spare = await until('it waits for a job', () => sparesOf(child.pid ?? 0).find(isListening));
    process.kill(spare, 'SIGSTOP');
    child.stdin.write(`${job.path}\n`);
    await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await once(child, 'exit');
    const later = await localSubject().make();
    const grant = { gpus: [], gpuUuids: [], cpuSlots: 1 };
    const run = later.run(job.order('echo ran', { isAccepted: true, grant }));
    const stopped = later.stop(job);
    expect(await new Followed(run).ended).toMatchObject({ exitCode: null, fault: null });
    await stopped;
    process.kill(spare, 'SIGCONT');
    await until('the spare runner is gone', () => !isRunning(spare));
    expect(job.log).toBe('');
  });

  test('ends when it is asked to end', async () => {
    await using bench = await Bench.open(spareSubject());
    await bench.executor();
    const [spare = 0] = sparesOf(process.pid);
    process.kill(spare, 'SIGTERM');
    await until('it is gone', () => !isRunning(spare));
  });
});

describe('a spare runner that', () => {
  const subject = (deed: string) =>
    spareSubject({ program: misbehaving, environment: { ...process.env, SPARE_DEED: deed } });

  test.for(['hangs', 'dies'])('%s leaves its job to a new one, which runs it once', async (deed) => {
    await using bench = await Bench.open(subject(deed));
    const executor = await bench.executor();
    const [spare] = sparesOf(process.pid);
    const job = bench.job();
    const run = new Followed(executor.run(job.order('echo ran')));
    expect(await run.ended).toMatchObject({ exitCode: 0 });
    expect([job.log, isRunning(spare ?? 0), run.kinds]).toEqual(['ran\n', false, ['placed', 'ended']]);
  });

  test('dies after it has claimed its job loses it, and nothing runs it again', async () => {
    await using bench = await Bench.open(subject('claims'));
    const executor = await bench.executor();
    const job = bench.job();
    const end = await new Followed(executor.run(job.order('echo ran'))).ended;
    expect(end).toMatchObject({ exitCode: null, fault: 'lost', error: expect.stringContaining('killed') });
    expect(job.log).toBe('');
  });

  test('is slow to say that it has claimed its job goes on with it', async () => {
    await using bench = await Bench.open(subject('slow'));
    const executor = await bench.executor();
    const job = bench.job();
    expect(await new Followed(executor.run(job.order('echo ran'))).ended).toMatchObject({ exitCode: 7 });
    expect(job.log).toBe('');
  });

  test('does not exit after the end of its job is killed, and its device is free', async () => {
    await using bench = await Bench.open(subject('stays'));
    const executor = await bench.executor();
    const [spare] = sparesOf(process.pid);
    const job = bench.job();
    expect(await new Followed(executor.run(job.order('echo ran'))).ended).toMatchObject({ exitCode: 7 });
    expect(isRunning(spare ?? 0)).toBe(false);
  });

  test('hangs does not keep a kill of its job waiting', async () => {
    await using bench = await Bench.open(subject('hangs'));
    const executor = await bench.executor();
    const job = bench.job();
    const run = new Followed(executor.run(job.order('echo ready; sleep 600')));
    await until('it is placed', () => run.kinds.includes('placed'));
    await executor.stop(job);
    expect((await run.ended).exitCode).not.toBe(0);
    expect(job.processes()).toEqual([]);
  });
});

describe('a server', () => {
  const withSpare = async (server: TestServer): Promise<number> => {
    await until('it has a spare runner', () => sparesOf(server.pid).some(isListening));
    return sparesOf(server.pid)[0] ?? 0;
  };

  test.for(['SIGTERM', 'SIGKILL'] as const)('that ends by %s leaves no spare runner', async (signal) => {
    await using server = await TestServer.start({ ownProcess: true });
    const spare = await withSpare(server);
    server.signal(signal);
    await server.ended();
    await until('it is gone', () => !isRunning(spare));
  });

  test('that dies leaves a spare runner that was stopped, which ends once it is continued', async () => {
    await using server = await TestServer.start({ ownProcess: true });
    const spare = await withSpare(server);
    process.kill(spare, 'SIGSTOP');
    await server.crash();
    process.kill(spare, 'SIGCONT');
    await until('it is gone', () => !isRunning(spare));
  });

  test('has none where none is wanted', async () => {
    await using server = await TestServer.start({ ownProcess: true, flags: ['--spare-runners', '0'] });
    await server.api.running('infer', least.infer);
    expect(sparesOf(server.pid)).toEqual([]);
  });

  test('has as many as are wanted, and replaces those that are gone', async () => {
    await using server = await TestServer.start({ ownProcess: true, flags: ['--spare-runners', '3'] });
    await until('there are three', () => sparesOf(server.pid).length === 3);
    const killed = sparesOf(server.pid);
    for (const spare of killed) process.kill(spare, 'SIGKILL');
    await until('there are three others', () => {
      const spares = sparesOf(server.pid);
      return spares.length === 3 && !spares.some((pid) => killed.includes(pid));
    });
  });

  test('finds the runner of a job again that was a spare one, without its record', async () => {
    await using server = await TestServer.start({ ownProcess: true });
    const spare = await withSpare(server);
    const gate = server.gate();
    const id = await server.api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    const record = path.join(server.jobDirectory(id), 'runner.json');
    expect(JSON.parse(readFileSync(record, 'utf8')).runner.pid).toBe(spare);
    await server.crash();
    rmSync(record);
    await server.start();
    expect((await server.api.job(id)).status).toBe('running');
    expect(isRunning(spare)).toBe(true);
    gate.open();
    await until('it is done', async () => (await server.api.job(id)).status === 'done');
  });
});
