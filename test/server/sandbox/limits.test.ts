import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { serveFlags } from '../../../src/cli/serve/flags.js';
import { type JobLimits, limitWords } from '../../../src/server/sandbox/index.js';
import { list } from '../../support/list.mjs';
import { lacks } from '../../support/needs.mjs';
import { sandbox } from '../../support/sandbox.js';
import { localSubject } from '../executors/local-subject.js';
import { Bench, Followed } from '../executors/support.js';

const withoutPython = lacks('python3');
const mebibyte = 2 ** 20;
const isRoot = process.getuid?.() === 0;

/** How a job with these limits ends that runs this script, and its log. */
async function run(script: string, limits: Partial<JobLimits>) {
  const all = { memory: null, processes: null, ...limits };
  await using bench = await Bench.open(localSubject({ sandbox, limits: all }));
  const job = bench.job();
  const ended = await new Followed((await bench.executor()).run(job.order(script))).ended;
  expect(job.processes()).toEqual([]);
  return { ...ended, log: job.log };
}

const python = (program: string) => `exec python3 -c "${program}"`;

describe.runIf(sandbox)('a job in its sandbox', () => {
  test.skipIf(withoutPython)(
    'A job in its sandbox is ended at its memory limit, with an explanation',
    async () => {
      const part = python("x = bytearray(60 << 20); import time; print('has', flush=True); time.sleep(600)");
      const { fault, error, signal, log } = await run(`(${part}) & (${part}) & ${part}`, {
        memory: 120 * mebibyte,
      });
      expect([fault, signal]).toEqual(['outOfMemory', 'SIGKILL']);
      expect(error).toBe(
        'It was stopped for using more than the 120.0 MiB of memory that a job may use on this server',
      );
      expect(log).toContain(`[remote-app] ${error}\n`);
    },
  );

  test.skipIf(withoutPython)(
    'A job in its sandbox is ended for the memory that it uses, counting shared memory once',
    async () => {
      const shares = 'import mmap, time; x = mmap.mmap(-1, 50 << 20); x.write(bytes(50 << 20));';
      const limit = { memory: 120 * mebibyte };
      const own = python(`${shares} print('has', flush=True); time.sleep(600)`);
      expect((await run(`(${own}) & (${own}) & ${own}`, limit)).fault).toBe('outOfMemory');
      const same = python(
        `import os; ${shares} [os.fork() for _ in range(2)]; sum(x[::4096]); time.sleep(2)`,
      );
      expect((await run(same, limit)).exitCode).toBe(0);
    },
  );

  test.skipIf(withoutPython)('A job in its sandbox gets at most twice its memory limit at once', async () => {
    const { exitCode, log } = await run(python('bytearray(300 << 20)'), { memory: 100 * mebibyte });
    expect([exitCode, log]).toEqual([1, expect.stringContaining('MemoryError')]);
  });

  test('A job in its sandbox cannot fill memory with files', async () => {
    const { exitCode, log } = await run('head -c 40M /dev/zero > /dev/shm/file', { memory: 20 * mebibyte });
    expect([exitCode, log]).toEqual([1, expect.stringMatching(/No space left/)]);
  });

  test.skipIf(withoutPython)('A job in its sandbox may use its full limit', async () => {
    const { exitCode } = await run(`sleep 1 & ${python('bytearray(60 << 20)')}`, {
      memory: 200 * mebibyte,
      processes: 50,
    });
    expect(exitCode).toBe(0);
  });

  test('A job in its sandbox has no more processes than its limit', async () => {
    // Sixty at most, whatever the limit does.
    const script = 'for each in $(seq 60); do sleep 600 & done; sleep 5; echo all';
    const { error, signal, exitCode, log } = await run(script, { processes: 40 });
    expect(log).not.toContain('all\n');
    if (isRoot) {
      expect([signal, error]).toEqual([
        'SIGKILL',
        'It was stopped for using more than the 40 processes and threads that a job may have on this server',
      ]);
    } else expect([exitCode, log]).toEqual([2, expect.stringMatching(/fork/i)]);
  });

  test.runIf(isRoot)(
    'The kernel refuses a job without root rights more processes than its limit',
    async () => {
      const words = list`setpriv --reuid=65534 --regid=65534 --clear-groups bwrap --unshare-user`;
      const isolated = ['--unshare-pid', '--ro-bind', '/', '/', '--proc', '/proc', '--chdir', '/'];
      const limited = limitWords({ memory: null, processes: 40 }, process.env.PATH ?? '');
      const script = 'for each in $(seq 60); do sleep 5 & done; echo all';
      const all = [...words, ...isolated, ...limited, 'sh', '-c', script];
      const { status, stdout, stderr } = spawnSync(all[0] ?? '', all.slice(1), { encoding: 'utf8' });
      expect([status, stdout, stderr]).toEqual([2, '', expect.stringMatching(/fork/i)]);
    },
  );

  test('The process limit of a job in its sandbox is described correctly in the help and the documentation', () => {
    const page = readFileSync(new URL('../../../docs/sandbox.md', import.meta.url), 'utf8').replaceAll(
      /\s+/g,
      ' ',
    );
    const told = 'The system refuses more. If the server runs as root, the job is ended';
    expect(page.includes(told)).toBe(true);
    expect(serveFlags['processes-per-job'].summary).toMatch(
      /more are refused, or end the job if the server runs as root$/,
    );
  });

  test('Several jobs in their sandboxes each have their own process limit', async () => {
    const script = 'for each in $(seq 25); do sleep 1 & done; wait; echo all';
    const ends = await Promise.all([1, 2, 3].map(() => run(script, { processes: 40 })));
    expect(ends.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
  });
});
