import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { least, steps } from '../support/form.js';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

let cli: Cli;

beforeAll(async () => {
  cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': 'voxels' });
});
afterAll(() => cli[Symbol.asyncDispose]());

/** The words of an inference that takes these steps (test/fixtures/apps/probe). */
const infer = (...steps: string[]) => ['infer', 'ct.nii', ...steps.flatMap((step) => ['--set', step])];

describe('a job whose server an admin stops', () => {
  test('is told to have ended because of that, not because a user killed it', async () => {
    await using server = await TestServer.start();
    const env = { REMOTE_APP_SERVER: server.url };
    const running = cli.start(infer('print=ready', `wait=${server.gate().path}`), env);
    for (let seen = ''; !seen.includes('ready'); ) seen += (await once(running.process.stdout, 'data'))[0];
    expect(await server.stop()).toBe(0);
    const { code, stdout, stderr } = await running.ended;
    const id = /Job (\w+) is accepted/.exec(stderr)?.[1];
    expect(stdout).toContain('[remote-app] The server was stopped\n');
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(`Error: Job ${id} was killed: The server was stopped\n`),
    ]);
  });
});

describe('rm', () => {
  test('removes every job that it can, one line each, and exits with the worst', async () => {
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

    // A script that is run again finds what it wanted.
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
