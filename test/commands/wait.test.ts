import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { least, steps } from '../support/form.js';
import { json } from '../support/scripted-server.js';
import { TestServer } from '../support/server.js';

describe('wait', () => {
  test('wait prints a line when a job ends, survives a restart of the server, and exits with the highest exit code', async () => {
    await using server = await TestServer.start({ flags: ['--cpu-slots', '4'] });
    await using cli = await Cli.create();
    const { api } = server;
    const [first, second, third] = [server.gate(), server.gate(), server.gate()];
    const start = (...each: string[]) => api.running('infer', { ...least.infer, ...steps(...each) });
    const done = await start(`wait=${first.path}`);
    const failing = await start(`wait=${second.path}`, 'exit=3');
    const late = await start(`wait=${third.path}`);
    const env = { REMOTE_APP_SERVER: server.url };
    const running = cli.begin(['wait', late, failing, done], env);
    first.open();
    expect(String((await once(running.stdout, 'data'))[0])).toBe(`${done}  done\n`);
    const port = new URL(server.url).port;
    await server.restart(['--port', port]);
    second.open();
    expect(String((await once(running.stdout, 'data'))[0])).toMatch(`${failing}  error  Subprocess failed`);
    third.open();
    const { code, stdout } = await running.ended;
    expect([code, stdout.split('\n').at(-2)]).toEqual([1, `${late}  done`]);
    const failed = JSON.parse((await cli.run(['wait', failing, '--json'], env)).stdout);
    expect(failed.jobs).toMatchObject([
      {
        status: 'error',
        error: {
          message: expect.stringContaining(failing),
          reason: 'Subprocess failed (exit code 3)',
          exit_code: 1,
        },
        exit_code: 1,
      },
    ]);
    const again = await cli.run(['wait', done, 'nope', late, '--json'], env);
    expect([again.code, again.stderr]).toEqual([2, '']);
    expect(JSON.parse(again.stdout).jobs).toEqual([
      { job_id: done, status: 'done', error: null, exit_code: 0 },
      {
        job_id: 'nope',
        status: null,
        error: { message: expect.stringMatching(/^No job 'nope'/), exit_code: 2, http_status: 404 },
        exit_code: 2,
      },
      { job_id: late, status: 'done', error: null, exit_code: 0 },
    ]);
  }, 120_000);

  test('wait exits with 3 after --timeout if the job does not end', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ status: 'running' });
    const { code, stdout, stderr } = await cli.run([
      'wait',
      jobId,
      '--timeout',
      '0.3',
      '--server',
      server.url,
    ]);
    expect([code, stdout, stderr]).toEqual([
      3,
      '',
      `Error: ${jobId}: The job is running after 0.3 seconds, and goes on\n`,
    ]);
  });

  test('wait exits with 1 for a killed job, and names a job that cannot be queried by its id', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ status: 'killed', error: 'Killed by user' });
    const { code, stdout } = await cli.run(['wait', jobId, '--server', server.url]);
    expect([code, stdout]).toEqual([1, `${jobId}  killed  Killed by user\n`]);
    const nobody = await cli.run([
      'wait',
      jobId,
      'other',
      '--server',
      'http://127.0.0.1:1',
      '--patience',
      '0.5',
    ]);
    expect(nobody.code).toBe(5);
    expect(nobody.stderr).toMatch(
      new RegExp(
        `trying again for another 0.5 s\nError: ${jobId}: .*\nError: other: .*nothing listens there\n$`,
      ),
    );
  });

  test('wait exits with 2 if the app refused its input, as every command does', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ status: 'error', error: 'Not a head', resultStatus: 422 });
    const { code, stdout } = await cli.run(['wait', jobId, '--json', '--server', server.url]);
    expect([code, JSON.parse(stdout).jobs]).toEqual([
      2,
      [
        {
          job_id: jobId,
          status: 'error',
          error: expect.objectContaining({ reason: 'Not a head', refused: true, exit_code: 2 }),
          exit_code: 2,
        },
      ],
    ]);
  });

  const other = 'ba9876543210';
  test.each([
    [[jobId], /^Job \w+ goes on; 'remote-app wait \w+ --server \S+' waits for it again\n/m],
    [
      [jobId, other],
      new RegExp(
        `^2 jobs go on; 'remote-app wait ${jobId} ${other} --server \\S+' waits for them again\\n`,
        'm',
      ),
    ],
  ])('An interrupted wait for %j does not kill the jobs', async (ids, advice) => {
    await using cli = await Cli.create();
    let killed = 0;
    let asked = () => {};
    const asking = new Promise<void>((resolve) => {
      asked = resolve;
    });
    await using server = await fakeService({
      status: 'running',
      onKill: () => killed++,
      override: ({ url }, response) => {
        asked();
        if (url !== `/jobs/${other}`) return false;
        json(response, 200, { job_id: other, status: 'running', error: null, app: 'x', operation: 'infer' });
        return true;
      },
    });
    const running = cli.begin(['wait', ...ids, '--server', server.url]);
    await asking;
    running.signal('SIGINT');
    const { code, stderr } = await running.ended;
    expect([code, killed, stderr]).toEqual([130, 0, expect.stringMatching(advice)]);
  });
});
