import { cpSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { lacks } from '../support/needs.mjs';
import { isRunning } from '../support/processes.mjs';
import { ResidentWorker } from '../support/resident-worker.mjs';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const withoutPython = lacks('python3');
const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

/** A worker for the engine, which has a stand-in for KonfAI's packages. */
async function startWorker(environment: Record<string, string> = {}) {
  const packages = await temporary();
  cpSync(here('../fixtures/konfai'), packages.path, { recursive: true });
  const command = ['python3', here('../../engines/konfai_worker.py'), 'resident', '--cpu', '1'];
  const settings = { PYTHONPATH: packages.path, PYTHONDONTWRITEBYTECODE: '1', ...environment };
  const worker = new ResidentWorker(command, settings);
  const ready = await worker.answer();
  const dispose = async (): Promise<void> => {
    await worker[Symbol.asyncDispose]();
    await packages[Symbol.asyncDispose]();
  };
  const run = (...steps: string[]) => worker.run(['infer', '/app', ...steps]);
  const loading = worker.printed();
  return { worker, ready, loading, packages: packages.path, run, [Symbol.asyncDispose]: dispose };
}

test.skipIf(withoutPython)('A worker imports the engine once, and gives each job a process', async () => {
  await using started = await startWorker();
  const { pid } = started.worker.child;
  expect([started.ready, started.loading]).toEqual([{ ready: true }, `imported in ${pid}\n`]);
  const seen = new Set<string>();
  for (let count = 0; count < 3; count += 1) {
    const { log, answer } = await started.run('process', 'random', 'atexit=at its end', 'print=last');
    expect([answer, log]).toMatchObject([
      { exit_code: 0 },
      expect.stringMatching(/^job 1\n.*lastat its end\n$/s),
    ]);
    seen.add(log);
  }
  expect(seen.size).toBe(3);
});

test.skipIf(withoutPython)('A worker gives a job its arguments, directory and environment', async () => {
  await using started = await startWorker();
  const words = ['infer', '/app', 'argv', 'where', 'env=REMOTE_APP_JOB_ID', 'stdin', 'descriptors'];
  const environment = { TMPDIR: '/var/tmp', REMOTE_APP_JOB_ID: 'größer' };
  const { log, directory } = await started.worker.run(words, { environment });
  expect(log).toContain(`['konfai-apps', 'infer', '/app', 'argv', `);
  expect(log).toContain(`in ${directory}, temporary /var/tmp\nREMOTE_APP_JOB_ID=größer\nstdin: ''\n`);
  expect(log).not.toMatch(/jobs|answers|imported/);
  expect((await started.run('env=REMOTE_APP_JOB_ID')).log).toContain('=None');
});

test.skipIf(withoutPython)('A worker answers with the exit code that the command would have', async () => {
  await using started = await startWorker();
  const ends = { 'exit=75': 75, 'exit=256': 0, 'quit=refused': 1, 'throw=wrong': 1, crash: 128 + 11 };
  for (const [step, exit_code] of Object.entries(ends)) {
    const { answer, log } = await started.run(step);
    expect(answer).toMatchObject({ exit_code });
    expect(log).toContain(step.split('=')[1]?.replace(/^\d+$/, '') ?? '');
  }
  expect((await started.run('throw=wrong')).log).toContain('RuntimeError: wrong');
  expect((await started.run()).answer).toMatchObject({ exit_code: 0 });
});

test.skipIf(withoutPython)('A worker restarts the engine for a job with a different import', async () => {
  await using started = await startWorker();
  const anew = async (environment: Record<string, string>) =>
    (await started.worker.run(['infer', '/app', 'env=HF_HOME', 'exit=3'], { environment })) as {
      log: string;
      answer: { exit_code: number };
    };
  const other = await anew({ HF_HOME: '/models' });
  expect(other.answer.exit_code).toBe(3);
  expect(other.log).toMatch(
    /^The loaded engine is not used: HF_HOME differ.*\nimported in \d+\njob 1\nHF_HOME=\/models\n$/,
  );
  expect((await anew({})).log).toBe('job 1\nHF_HOME=None\n');
  mkdirSync(path.join(started.packages, 'installed'));
  expect((await anew({})).log).toMatch(/not used: packages were installed.*\nimported in/);
  await using busy = await startWorker({ USES_GPU: '1' });
  expect((await busy.run()).log).toMatch(/not used: it has used the GPU.*\nimported in/);
});

test.skipIf(withoutPython)(
  'A worker lets its job end on SIGTERM, and leaves no job behind when it is killed',
  async () => {
    const begin = async () => {
      const started = await startWorker();
      started.worker.begin(['infer', '/app', 'linger']);
      let log = '';
      const pid = await until('the job runs', () => {
        log += started.worker.printed();
        return Number(/lingers (\d+)/.exec(log)?.[1]);
      });
      return { started, pid };
    };
    const asked = await begin();
    await using _asked = asked.started;
    expect(await asked.started.worker.end('SIGTERM')).toBe('SIGTERM');
    expect([asked.started.worker.printed(), isRunning(asked.pid)]).toEqual(['cleaned up\n', false]);
    const killed = await begin();
    await using _killed = killed.started;
    expect(await killed.started.worker.end('SIGKILL')).toBe('SIGKILL');
    await until('the job is gone', () => !isRunning(killed.pid));
  },
);

test.skipIf(withoutPython)('A worker ends when stdin is closed', async () => {
  await using started = await startWorker();
  await started.run();
  expect(await started.worker.end()).toBe(0);
});
