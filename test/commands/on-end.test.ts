import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli, type Ended } from '../support/cli.js';
import { sharedServer } from '../support/server.js';
import { until } from '../support/until.mjs';

describe('--on-end', () => {
  const server = sharedServer();
  let cli: Cli;
  beforeAll(async () => {
    cli = await Cli.create();
    for (const name of ['a.nii', 'b.nii']) writeFileSync(path.join(cli.directory, name), name);
  });
  afterAll(() => cli[Symbol.asyncDispose]());

  const env = () => ({ REMOTE_APP_SERVER: server.url, REMOTE_APP_APP: 'probe' });
  /** Runs a command that saves its document, and reads it. */
  async function run(...words: string[]): Promise<readonly [Ended, unknown]> {
    const ended = await cli.run([...words, '--on-end', 'cat > end.json'], env());
    return [ended, JSON.parse(readFileSync(path.join(cli.directory, 'end.json'), 'utf8'))];
  }

  test('--on-end tells a program how a job ended', async () => {
    const [ended, document] = await run('infer', 'a.nii', '--json');
    const { job_id } = JSON.parse(ended.stdout);
    const more = { command: 'infer', app: 'probe', seconds: expect.any(Number), cases: null };
    expect(document).toEqual({ ...more, status: 'done', exit_code: 0, job_id });
    // In seconds, not milliseconds.
    expect((document as { seconds: number }).seconds).toBeLessThan(200);
    const [failed, failure] = await run('infer', 'a.nii', '--set', 'exit=3');
    expect(failed.code).toBe(1);
    expect(failure).toEqual({ ...more, status: 'failed', exit_code: 1, job_id: expect.any(String) });
  });

  test('--on-end counts the cases of --each', async () => {
    const [, document] = await run('infer', '--each', 'a.nii', 'b.nii', '-o', 'Results');
    expect(document).toMatchObject({ status: 'done', job_id: null, cases: { done: 2, failed: 0, left: 0 } });
    const options = ['--set', 'exit=3', '--fail-fast', '--at-most', '1'];
    const [, failure] = await run('infer', '--each', 'a.nii', 'b.nii', '-o', 'Failed', ...options);
    expect(failure).toMatchObject({ status: 'failed', exit_code: 1, cases: { done: 0, failed: 1, left: 1 } });
  });

  test('--on-end runs if nothing could be sent', async () => {
    const [ended, document] = await run('infer', 'missing.nii');
    expect(ended.code).toBe(2);
    expect(document).toMatchObject({ status: 'failed', exit_code: 2, job_id: null });
  });

  test('--on-end runs after an interruption', async () => {
    const gate = server.gate();
    const words = ['infer', 'a.nii', '--set', 'print=begun', '--set', `wait=${gate.path}`];
    const running = cli.begin([...words, '--on-end', 'cat > interrupted.json'], env());
    let log = '';
    running.stdout.on('data', (chunk: Buffer) => {
      log += chunk;
    });
    await until('the job runs', () => log.includes('begun'));
    running.signal('SIGINT');
    expect((await running.ended).code).toBe(130);
    const document = JSON.parse(readFileSync(path.join(cli.directory, 'interrupted.json'), 'utf8'));
    expect(document).toMatchObject({ status: 'interrupted', exit_code: 130 });
  });

  test('The output of the --on-end program goes to stderr, and its failure changes nothing', async () => {
    const words = ['infer', 'a.nii', '--json', '--on-end', 'echo told; exit 3'];
    const { code, stdout, stderr } = await cli.run(words, env());
    expect([code, JSON.parse(stdout).status]).toEqual([0, 'done']);
    expect(stderr).toMatch(/^told\nThe command of --on-end failed: .*exit code 3.*\n$/m);
  });
});
