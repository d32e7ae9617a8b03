import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { file } from '../support/form.mjs';
import { json } from '../support/scripted-server.js';
import { sharedServer, TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { TestTokens } from '../support/tokens.js';

const server = sharedServer();

describe('kill', () => {
  test('kill prints a line for each job, continues after an unknown one, and exits with its exit code', async () => {
    await using cli = await Cli.create();
    const env = { REMOTE_APP_SERVER: server.url };
    const gate = server.gate();
    const options = JSON.stringify({ config_overrides: [`wait=${gate.path}`] });
    const inputs = file('ct.nii');
    const ended = await server.api.run('infer', { inputs });
    const running = await server.api.running('infer', { inputs, options });
    const { code, stdout, stderr } = await cli.run(['kill', ended.id, 'nope', running], env);
    expect([code, stdout]).toEqual([2, `${ended.id}  done (had ended)\n${running}  killed\n`]);
    expect(stderr).toMatch(/^Error: .*nope.*\n$/);
    const again = await cli.run(['kill', running], env);
    expect([again.code, again.stdout]).toEqual([0, `${running}  killed (had ended)\n`]);
    const asked = await cli.run(['kill', 'nope', running, '--json'], env);
    expect([asked.code, asked.stderr]).toEqual([2, '']);
    expect(JSON.parse(asked.stdout).jobs).toMatchObject([
      { job_id: 'nope', error: { message: expect.any(String) } },
      { job_id: running, status: 'killed' },
    ]);
  });

  test('kill --all kills only the active jobs, says how many, and succeeds if there are none', async () => {
    await using cli = await Cli.create();
    const env = { REMOTE_APP_SERVER: server.url };
    const gate = server.gate();
    const options = JSON.stringify({ config_overrides: [`wait=${gate.path}`] });
    const form = { inputs: file('ct.nii'), options };
    const ids = [await server.api.running('infer', form), await server.api.running('infer', form)];
    const { code, stdout, stderr } = await cli.run(['kill', '--all'], env);
    expect([code, stderr]).toEqual([0, 'Killing 2 jobs\n']);
    expect(stdout.split('\n').sort()).toEqual(['', ...ids.map((id) => `${id}  killed`)].sort());
    const none = await cli.run(['kill', '--all'], env);
    expect([none.code, none.stdout, none.stderr]).toEqual([0, '', `No active jobs on ${server.url}\n`]);
  });

  test('kill --tag kills the active jobs with a tag, and jobs and wait select them as well', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'x', 'scans/a long name of a case.nii': 'y' });
    const env = { REMOTE_APP_SERVER: server.url };
    const gate = server.gate();
    const other = await server.api.running('infer', {
      inputs: file('ct.nii'),
      options: JSON.stringify({ config_overrides: [`wait=${gate.path}`] }),
    });
    const submit = async (...paths: string[]) => {
      const args = ['infer', ...paths, '--tag', 'study 7', '--detach', '--set', `wait=${gate.path}`];
      return (await cli.run(args, env)).stdout.trim();
    };
    const ids = [await submit('ct.nii', 'scans'), await submit('ct.nii')];
    const listed = await cli.run(['jobs', '--tag', 'study 7'], env);
    expect(listed.stdout).toMatch(/^JOB +STATUS +OPERATION +APP +TAG +INPUT +GPUS/);
    expect(listed.stdout).toMatch(new RegExp(`${ids[0]} .* study 7 +ct.nii \\+1 `));
    expect(listed.stdout).not.toContain(other);
    const { code, stdout, stderr } = await cli.run(['kill', '--tag', 'study 7'], env);
    expect([code, stderr]).toEqual([0, "Killing 2 jobs tagged 'study 7'\n"]);
    expect(stdout.trim().split('\n').sort()).toEqual(ids.map((id) => `${id}  killed`).sort());
    const waited = await cli.run(['wait', '--tag', 'study 7', '--json'], env);
    expect([
      waited.code,
      JSON.parse(waited.stdout).jobs.map((job: { job_id: string }) => job.job_id),
    ]).toEqual([1, ids]);
    const none = await cli.run(['wait', '--tag', 'study'], env);
    expect([none.code, none.stderr]).toEqual([
      2,
      `Error: No jobs tagged 'study' on ${server.url}; 'remote-app jobs' lists all\n`,
    ]);
    expect((await server.api.job(other)).status).toBe('running');
    gate.open();
    await server.api.ended(other);
  });

  test("kill --owner lets an admin kill the active jobs of a token's name", async () => {
    await using tokens = new TestTokens();
    const [ana, root] = [tokens.create('ana'), tokens.create('root', { role: 'admin' })];
    await using named = await TestServer.start({ flags: ['--tokens', tokens.file] });
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'x' });
    const as = (token: string) => ({ REMOTE_APP_SERVER: named.url, SERVICE_API_TOKEN: token });
    const words = ['infer', 'ct.nii', '--detach', '--set', 'wait=/never'];
    const id = (await cli.run(words, as(ana))).stdout.trim();
    const kill = (token: string, name: string) => cli.run(['kill', '--owner', name], as(token));
    expect((await kill(ana, 'ana')).stderr).toContain(
      "Only an admin's token may list the jobs of all owners",
    );
    expect((await kill(root, 'ben')).stderr).toBe(`No active jobs of 'ben' on ${named.url}\n`);
    expect(await kill(root, 'ana')).toMatchObject({
      stdout: `${id}  killed\n`,
      stderr: "Killing 1 job of 'ana'\n",
    });
  });

  test('kill needs exactly one of jobs, --tag and --all', async () => {
    await using cli = await Cli.create();
    for (const args of [['kill'], ['kill', '--all', jobId], ['kill', '--all', '--tag', 'x']]) {
      const { code, stderr } = await cli.run(args);
      expect([code, stderr]).toEqual([2, expect.stringContaining('--all')]);
    }
  });

  test('kill fails with a message if a job does not end', async () => {
    await using cli = await Cli.create();
    const message = 'The job was asked to end, but a process of it cannot be ended; ask again later';
    await using stubborn = await fakeService({
      override: ({ url }, response) => {
        if (!url.endsWith('/kill')) return false;
        json(response, 200, { job_id: jobId, status: 'running', message });
        return true;
      },
    });
    const { code, stderr } = await cli.run(['kill', jobId, '--server', stubborn.url]);
    expect([code, stderr]).toEqual([3, `Error: ${jobId} is still running: ${message}\n`]);
  });
});
