import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { least, steps } from '../support/form.js';
import { sharedServer, TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { unzip } from '../support/unzip.mjs';

let cli: Cli;

beforeAll(async () => {
  cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': 'voxels' });
});
afterAll(() => cli[Symbol.asyncDispose]());

/** The arguments of an inference with these steps (test/fixtures/apps/probe). */
const infer = (...steps: string[]) => ['infer', 'ct.nii', ...steps.flatMap((step) => ['--set', step])];

describe('a job whose server an admin stops', () => {
  test('A job that ends because an admin stops its server is not reported as killed by a user', async () => {
    await using server = await TestServer.start({ runners: true });
    const env = { REMOTE_APP_SERVER: server.url };
    const running = cli.begin(infer('print=ready', `wait=${server.gate().path}`), env);
    for (let seen = ''; !seen.includes('ready'); ) seen += (await once(running.stdout, 'data'))[0];
    expect(await server.stop()).toBe(0);
    const { code, stdout, stderr } = await running.ended;
    const id = /Job (\w+) is accepted/.exec(stderr)?.[1];
    expect(stdout).toContain('[remote-app] The server was stopped\n');
    expect(code, stderr).toBe(1);
    expect(stderr).toContain(`Error: Job ${id} was killed: The server was stopped\n`);
  });
});

describe('a job whose app refuses its input', () => {
  const server = sharedServer();
  const run = (...args: string[]) => cli.run(args, { REMOTE_APP_SERVER: server.url });
  const reason = 'Monte Carlo dropout (3 samples) is not implemented: it would change nothing';

  test.each(['REMOTE_APP_REFUSAL_FILE', 'KONFAI_APPS_REFUSAL_FILE'])(
    "%s prints the app's refusal and exits with 2",
    async (variable) => {
      const refusal = `shell=echo '${reason}' > "$${variable}"`;
      const { code, stderr } = await run(...infer(refusal, 'exit=1'), '--mc', '3');
      const id = /Job (\w+) is accepted/.exec(stderr)?.[1] ?? '';
      const told = `Error: Job ${id} was refused by its app: ${reason}\n`;
      expect([code, stderr]).toEqual([2, expect.stringContaining(told)]);
      for (const command of ['logs', 'result']) {
        const again = await run(command, id);
        expect([again.code, again.stderr]).toEqual([2, expect.stringContaining(told)]);
      }
      expect((await run('wait', id)).code).toBe(2);
    },
  );

  test('A refusal that names an argument of the app shows the flag of the command instead', async () => {
    const refusal = `shell=echo 'This app takes no --patch_size for infer.' > "$REMOTE_APP_REFUSAL_FILE"`;
    const { code, stderr } = await run(...infer(refusal, 'exit=1'), '--patch-size', '9');
    expect([code, stderr]).toEqual([2, expect.stringContaining('This app takes no --patch-size for infer.')]);
  });
});

describe('rm', () => {
  test('rm removes every job that it can, prints one line for each, and exits with the highest exit code', async () => {
    await using server = await TestServer.start();
    const { api } = server;
    const env = { REMOTE_APP_SERVER: server.url };
    const active = await api.running('infer', { ...least.infer, ...steps(`wait=${server.gate().path}`) });
    const [first, second] = [
      (await api.run('infer', least.infer)).id,
      (await api.run('infer', least.infer)).id,
    ];
    const unknown = 'ffffffffffff';
    const all = await cli.run(['rm', unknown, first, active, second], env);
    expect([all.code, all.stdout, all.stderr]).toEqual([
      2,
      `${first}  removed\n${second}  removed\n`,
      `Error: No job '${unknown}' on ${server.url}; 'remote-app jobs' lists them\n` +
        `Error: Job ${active} is running; kill it first, or wait for its end\n`,
    ]);
    for (const id of [first, second]) expect((await api.fetch(`/jobs/${id}`)).status).toBe(410);
    expect((await cli.run(['rm', active], env)).code).toBe(1);

    // For a script that runs again, a removed job counts as success.
    const again = await cli.run(['rm', first], env);
    expect([again.code, again.stdout]).toEqual([0, `${first}  removed\n`]);
    expect(again.stderr).toContain(`Job ${first} was removed at `);

    const { code, stdout } = await cli.run(['rm', unknown, second, '--json'], env);
    expect([code, JSON.parse(stdout)]).toEqual([
      2,
      {
        jobs: [
          {
            job_id: unknown,
            error: { message: expect.stringMatching(/^No job/), exit_code: 2, http_status: 404 },
          },
          { job_id: second, status: 'removed' },
        ],
      },
    ]);
  });
});

describe('files left by a failed job', () => {
  const server = sharedServer();
  const run = (...args: string[]) => cli.run(args, { REMOTE_APP_SERVER: server.url });

  test('Files that a failed job left are mentioned when the job fails and fetched with --partial', async () => {
    const failed = await run(...infer('write=half.txt:half', 'exit=3'));
    const id = /Job (\w+) is accepted/.exec(failed.stderr)?.[1] ?? '';
    const told = new RegExp(
      `Error: Job ${id} failed: Subprocess failed \\(exit code 3\\)\n` +
        `Job ${id} left 2 files; 'remote-app result ${id} --partial' fetches them\n` +
        `Job ${id} is kept until [^\n]+\n$`,
    );
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringMatching(told)]);
    const refused = await run('result', id);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(told)]);
    expect((await run('status', id)).stdout).toMatch(
      new RegExp(`Left +2 files: 'remote-app result ${id} --partial'\n`),
    );

    const fetched = await run('result', id, '--partial', '-o', 'left');
    expect([fetched.code, fetched.stdout]).toEqual([0, '']);
    expect(fetched.stderr).toContain(`Job ${id} did not finish (error): its output may be incomplete`);
    expect(await readFile(path.join(cli.directory, 'left', 'half.txt'), 'utf8')).toBe('half');
    const { bytes } = await run('result', id, '--partial', '-o', '-');
    expect([...(await unzip(bytes)).keys()].sort()).toEqual(['half.txt', 'probe.json']);
    const { stdout } = await run(...infer('exit=3'), '--json');
    expect(JSON.parse(stdout).error).toMatchObject({ left_files: 1, expires_at: expect.any(String) });
  });

  test('Nothing is said about leftover files if there are none', async () => {
    const { code, stderr } = await run(...infer('shell=rm probe.json', 'exit=3'));
    const id = /Job (\w+) is accepted/.exec(stderr)?.[1] ?? '';
    expect(code).toBe(1);
    expect(stderr).not.toMatch(/left|partial/);
    const { stderr: sentence, code: exit } = await run('result', id, '--partial');
    expect([exit, sentence]).toEqual([2, `Error: Job ${id} left no file in its output\n`]);
  });

  test('--partial fetches the complete result of a job that is done', async () => {
    const { id } = await server.api.run('infer', { ...least.infer, ...steps('write=whole.txt:whole') });
    const { code, stderr } = await run('result', id, '--partial', '-o', 'whole');
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('incomplete')]);
    expect(await readFile(path.join(cli.directory, 'whole', 'whole.txt'), 'utf8')).toBe('whole');
  });

  test('--partial fails with a server that does not support it', async () => {
    await using other = await fakeService({ status: 'error', error: 'sad' });
    const { code, stderr } = await cli.run(['result', jobId, '--partial'], { REMOTE_APP_SERVER: other.url });
    expect([code, stderr]).toEqual([
      1,
      `Error: Job ${jobId} failed: sad; ${other.url} does not hand out what it left\n`,
    ]);
  });
});
