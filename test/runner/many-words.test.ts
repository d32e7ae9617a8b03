import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { sandbox } from '../support/sandbox.js';
import { temporary } from '../support/temporary.js';
import { RunnerJob } from './support.js';

/** Words that a shell, or a cut in the wrong place, would change. */
const hardWords = [
  '',
  "'",
  '"',
  '\\',
  '\\n',
  'two\nlines\n',
  ' \t ',
  '$HOME `id` $(id) $x',
  '* ? [a] ~ # ; & | < > !',
  '-n',
  'A=b',
  "'".repeat(20_000),
  '\u{1f600}'.repeat(20_000),
  ...Array.from({ length: 0x7ff }, (_, index) => `x${String.fromCodePoint(index + 1)}y`),
];

describe.runIf(sandbox)('a sandboxed command with more words than bwrap accepts', () => {
  /** A job of a command in the sandbox of this machine. Its app would be what lies in `root`. */
  async function jobOf(command: readonly string[], root: string): Promise<RunnerJob> {
    const [input, output, workspace, temporary] = ['input', 'output', 'workspace', 'temporary'].map(
      (name) => {
        const directory = path.join(root, name);
        mkdirSync(directory);
        return directory;
      },
    ) as [string, string, string, string];
    const wrapper = sandbox?.wrap(
      {
        directory: { input, output, workspace, temporary },
        command,
        grant: { gpus: [], gpuUuids: [], cpuSlots: 1 },
        access: { network: false, directories: [], environment: {} },
        memory: null,
      },
      process.env.PATH ?? '',
    );
    return RunnerJob.create(command, { wrapper: wrapper ?? [], isSandboxed: true, filter: sandbox?.filter });
  }

  const many = Array.from({ length: 20_000 }, (_, index) => `/data/Input/file ${index}.nii.gz`);

  test('A sandboxed command with more words than bwrap accepts gets every word unchanged, and ends with its own exit code', async () => {
    await using root = await temporary();
    const words = [...hardWords, ...many];
    const program =
      "require('fs').writeFileSync('words', JSON.stringify(process.argv.slice(1))); process.exit(7)";
    await using job = await jobOf([process.execPath, '-e', program, '--', ...words], root.path);
    expect(await job.run()).toMatchObject({ exitCode: 7, signal: null, error: null });
    expect(job.log).toBe('');
    expect(JSON.parse(readFileSync(path.join(root.path, 'workspace', 'words'), 'utf8'))).toEqual(words);
  });

  test('A sandboxed command with more words than bwrap accepts ends with its own signal', async () => {
    await using root = await temporary();
    await using job = await jobOf(['sh', '-c', 'kill -SEGV $$', 'sh', ...many], root.path);
    expect(await job.run()).toMatchObject({ exitCode: null, signal: 'SIGSEGV', error: null });
  });

  test('A sandboxed command with more words than bwrap accepts receives the stop signal, and ends as its handler decides', async () => {
    await using root = await temporary();
    const script = 'trap "exit 4" TERM; echo begin; while :; do sleep 0.02; done';
    await using job = await jobOf(['sh', '-c', script, 'sh', ...many], root.path);
    const runner = job.start();
    await job.prints('begin');
    runner.kill('SIGTERM');
    await once(runner, 'exit');
    expect(job.end()).toMatchObject({ exitCode: 4, signal: null, error: null });
  });

  // Linux allows 6 MiB at most. Each word counts for its bytes, one more, and a pointer.
  const most = Math.min(Number(execFileSync('getconf', ['ARG_MAX'])), 6 << 20);
  test.for([
    ['only the command itself', Array(Math.ceil(most / 8)).fill('x')],
    ['also what bwrap would get', Array(Math.ceil(most / 200)).fill('x'.repeat(200))],
    ['one of its words', [...many, 'x'.repeat(128 << 10)]],
  ] as [string, string[]][])(
    'A sandboxed command with more words than bwrap accepts reports that it is too long for the system: %s',
    async ([, words]) => {
      await using root = await temporary();
      await using job = await jobOf(['true', ...words], root.path);
      expect(await job.run()).toMatchObject({
        exitCode: null,
        error: expect.stringMatching(/^Cannot start 'true': its command line of .* send fewer /),
      });
    },
  );
});
