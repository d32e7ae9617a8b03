import { execFile } from 'node:child_process';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { list } from '../support/list.mjs';
import { lacks } from '../support/needs.mjs';
import { isRunning } from '../support/processes.mjs';
import { ResidentWorker } from '../support/resident-worker.mjs';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
const execute = promisify(execFile);

/** The helpers, each with an app of test/fixtures/resident that imports it. */
const helpers = {
  python: { program: 'python3', main: 'main.py', helper: 'resident.py', failure: 'ValueError: wrong' },
  javascript: { program: 'node', main: 'main.mjs', helper: 'resident.mjs', failure: 'TypeError: wrong' },
} as const;
type Name = keyof typeof helpers;
const names = Object.keys(helpers) as Name[];

/** An app that imports the helper, in a directory that is gone afterwards. */
async function plantApp(name: Name) {
  const { program, main, helper } = helpers[name];
  const directory = await temporary();
  await copyFile(here(`../fixtures/resident/${main}`), path.join(directory.path, main));
  await copyFile(here(`../../templates/resident/${name}/${helper}`), path.join(directory.path, helper));
  const command = [program, path.join(directory.path, main)];
  return { command, [Symbol.asyncDispose]: directory[Symbol.asyncDispose] };
}

/** A worker that has loaded its model. */
async function startWorker(name: Name, environment: Record<string, string> = {}) {
  const app = await plantApp(name);
  const worker = new ResidentWorker([...app.command, 'resident', '/app', '--cpu', '1'], environment);
  const ready = await worker.answer();
  const dispose = async (): Promise<void> => {
    await worker[Symbol.asyncDispose]();
    await app[Symbol.asyncDispose]();
  };
  const run = (...steps: string[]) => worker.run(['infer', '/app', ...steps]);
  return { worker, ready, loading: worker.printed(), run, [Symbol.asyncDispose]: dispose };
}

for (const name of names)
  describe.skipIf(lacks(helpers[name].program))(`the helper of a resident app in ${name}`, () => {
    const { failure } = helpers[name];

    test(`A ${name} helper loads once, and runs job after job`, async () => {
      await using started = await startWorker(name);
      expect([started.ready, started.loading]).toEqual([{ ready: true }, 'loading\n']);
      for (const job of ['0123456789ab', 'fedcba987654']) {
        const { answer } = await started.worker.run(['infer', '/app', 'print=x'], { job });
        expect(answer).toEqual({ job, exit_code: 0 });
      }
      expect((await started.run('print=last')).log).toBe('use 3\nlast');
    });

    test(`A ${name} helper runs one job from its command line, with the same exit codes`, async () => {
      await using app = await plantApp(name);
      const [program = '', ...words] = app.command;
      const cold = (...steps: string[]) => execute(program, [...words, 'infer', '/app', ...steps]);
      expect(await cold('print=größer', 'error=!')).toEqual({
        stdout: 'loading\nuse 1\ngrößer',
        stderr: '!',
      });
      await expect(cold('exit=3')).rejects.toMatchObject({ code: 3 });
      await expect(cold('throw=wrong')).rejects.toMatchObject({
        code: 1,
        stderr: expect.stringContaining(failure),
      });
    });

    test(`A ${name} helper gives a job its directory, environment and arguments, and restores the old ones afterwards`, async () => {
      await using started = await startWorker(name, { KEPT: 'worker', CHANGED: 'worker' });
      const words = list`infer /app argv where env=CHANGED set=MADE:here set=KEPT:job chdir=/`;
      const environment = { TMPDIR: '/tmp', CHANGED: 'größer\u2028 ' };
      const { log, directory } = await started.worker.run(words, { environment });
      const said = log.replaceAll("'", '"').replaceAll('", "', '","');
      expect(said).toContain(JSON.stringify(words));
      expect(said).toContain(`in ${directory}, temporary /tmp\nCHANGED=größer\u2028 \n`);
      const next = await started.run('env=CHANGED', 'env=MADE', 'env=KEPT', 'where', 'argv');
      expect(next.log).toMatch(/CHANGED=worker\nMADE=None\nKEPT=worker\n/);
      expect(next.log).toContain(`in ${next.directory}, temporary ${path.join(next.directory, '../home')}`);
      expect(next.log).not.toContain('chdir');
    });

    test(`A ${name} helper turns errors and exits into exit codes, and continues`, async () => {
      await using started = await startWorker(name);
      const failed = await started.run('throw=wrong');
      expect([failed.answer, failed.log]).toMatchObject([{ exit_code: 1 }, expect.stringContaining(failure)]);
      expect((await started.run('exit=75')).answer).toMatchObject({ exit_code: 75 });
      expect((await started.run('exit=0')).answer).toMatchObject({ exit_code: 0 });
      expect((await started.run('exit=256')).answer).toMatchObject({ exit_code: 0 });
      expect((await started.run('chdir=/nowhere')).answer).toMatchObject({ exit_code: 1 });
      const late = await started.worker.run(['infer', '/app'], { directory: '/nowhere' });
      expect(late.answer).toMatchObject({ exit_code: 1 });
      expect(await started.run('print=still there')).toMatchObject({
        log: expect.stringContaining('still there'),
      });
    });

    test(`A ${name} helper writes all output to the log in order before it answers`, async () => {
      await using started = await startWorker(name, { LC_ALL: 'C', PYTHONUNBUFFERED: '1' });
      const { log } = await started.run('print=größer', 'error=, error', 'print=, then');
      expect(log).toBe('use 1\ngrößer, error, then');
      expect((await started.run(`print=${'x'.repeat(30_000)}`)).log).toHaveLength(30_006);
    });

    test(`A ${name} helper gives the app and its child processes an empty stdin and none of its channels`, async () => {
      await using started = await startWorker(name);
      expect((await started.run('stdin', 'stdin')).log).toContain("stdin: ''\nstdin: ''\n");
      const { log } = await started.run('children');
      expect(log).toContain('/dev/null');
      expect(log).not.toMatch(/jobs|answers/);
      expect((await started.run('env=REMOTE_APP_ANSWERS')).log).toContain('REMOTE_APP_ANSWERS=None');
    });

    test(`A ${name} helper ends when stdin is closed, and immediately on SIGTERM`, async () => {
      await using idle = await startWorker(name);
      expect(await idle.worker.end()).toBe(0);
      await using busy = await startWorker(name);
      busy.worker.begin(['infer', '/app', 'sleep']);
      await until('the job sleeps', () => busy.worker.printed().includes('asleep'));
      expect(await busy.worker.end('SIGTERM')).toBe('SIGTERM');
      expect(isRunning(busy.worker.child.pid ?? 0)).toBe(false);
    });

    test(`A ${name} helper explains what runs it with resident if a person does so`, async () => {
      await using app = await plantApp(name);
      const [program = '', ...words] = app.command;
      const alone = execute(program, [...words, 'resident', '/app']);
      await expect(alone).rejects.toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^Only the server starts this program with `resident`.*\n$/),
      });
    });

    test(`A ${name} helper ends without an answer if the model does not load`, async () => {
      await using app = await plantApp(name);
      await using worker = new ResidentWorker([...app.command, 'resident', '/app'], { FAILS: '1' });
      await expect(worker.answer()).rejects.toThrow('no such model');
      expect(worker.child.exitCode).toBe(1);
    });
  });

test.skipIf(lacks('python3'))('The Python helper logs what C prints, and obeys sys.exit', async () => {
  await using started = await startWorker('python');
  expect((await started.run('c=from C')).log).toBe('use 1\nfrom C');
  const quit = await started.run('quit=the mask is empty');
  expect([quit.answer, quit.log]).toMatchObject([{ exit_code: 1 }, 'use 2\nthe mask is empty\n']);
  expect((await started.run('replace=elsewhere')).log).toBe('use 3\n');
  expect((await started.run('print=here')).log).toBe('use 4\nhere');
});

test.skipIf(lacks('python3'))(
  'The Python helper continues after any exception of a job, and a forked process ends with its own exit code',
  async () => {
    await using started = await startWorker('python');
    for (const [step, raised] of [
      ['cancel', 'CancelledError'],
      ['interrupt', 'KeyboardInterrupt'],
    ] as const) {
      const { answer, log } = await started.run(step);
      expect([answer, log]).toMatchObject([{ exit_code: 1 }, expect.stringContaining(raised)]);
    }
    for (const [code, use] of [
      [0, 3],
      [7, 4],
    ]) {
      const { answer, log } = await started.run(`fork=${code}`);
      expect([answer, log]).toMatchObject([{ exit_code: 0 }, `use ${use}\nthe child ended with ${code}\n`]);
    }
  },
);

test('The JavaScript helper ends a job on an unhandled asynchronous error', async () => {
  await using started = await startWorker('javascript');
  for (const step of ['late=too late', 'reject=refused']) {
    const { answer, log } = await started.run(step);
    expect([answer, log]).toMatchObject([
      { exit_code: 1 },
      expect.stringContaining(step.split('=')[1] ?? ''),
    ]);
  }
  expect((await started.run('swallow=4')).answer).toMatchObject({ exit_code: 4 });
  expect((await started.run('exitCode=5')).answer).toMatchObject({ exit_code: 5 });
  expect((await started.run('stream')).log).toContain("stream: ''");
  expect((await started.run('print=x')).answer).toMatchObject({ exit_code: 0 });
});
