import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli, type Ended } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { sharedServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

let cli: Cli;
beforeAll(async () => {
  cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': 'voxels' });
});
afterAll(() => cli[Symbol.asyncDispose]());

const server = sharedServer();
const run = (...args: string[]) => cli.run(args, { REMOTE_APP_SERVER: server.url });
const send = async (...args: string[]) => (await run('infer', 'ct.nii', '--detach', ...args)).stdout.trim();

describe('without an id', () => {
  test('Without an id, status, logs, wait and result take the last job sent from this directory and say which', async () => {
    await send();
    const last = await send();
    const told = `Job ${last}, the last one sent from here\n`;
    const waited = await run('wait');
    expect([waited.code, waited.stdout, waited.stderr]).toEqual([0, `${last}  done\n`, told]);
    const status = await run('status');
    expect([status.stdout.split('\n')[0], status.stderr]).toEqual([expect.stringContaining(last), told]);
    const logs = await run('logs');
    expect([logs.stdout, logs.stderr]).toEqual([
      expect.stringContaining(`Remote job ${last} accepted`),
      expect.stringContaining(told),
    ]);
    const result = await run('result', '--json', '-o', 'Last');
    expect([JSON.parse(result.stdout).job_id, result.stderr]).toEqual([last, expect.stringContaining(told)]);
  });

  test('A job from another directory or another server is not the last job', async () => {
    await send();
    mkdirSync(path.join(cli.home, 'elsewhere'));
    const elsewhere = cli.from(path.join(cli.home, 'elsewhere'));
    const refused = (ended: Ended) => [ended.code, ended.stderr];
    const none = expect.stringMatching(
      /^Error: No job was sent to http:\/\/127\.0\.0\.1:\d+ from this directory/,
    );
    const env = { REMOTE_APP_SERVER: server.url };
    expect(refused(await elsewhere.run(['status'], env))).toEqual([2, none]);
    await using other = await fakeService({});
    expect(refused(await cli.run(['status'], { REMOTE_APP_SERVER: other.url }))).toEqual([2, none]);
    expect(other.received).toEqual([]);
  });

  test('Without an id, kill and rm never guess the job', async () => {
    await send();
    for (const command of ['kill', 'rm']) {
      const { code, stderr } = await run(command);
      expect([code, stderr]).toEqual([2, expect.stringContaining('Name the jobs, or give --tag')]);
    }
  });
});

describe('jobs by tag', () => {
  test('wait accepts several tags, and rm removes the jobs with a tag that have ended', async () => {
    const [one, two] = [await send('--tag', 'a'), await send('--tag', 'b')];
    const waited = await run('wait', '--tag', 'a', '--tag', 'b');
    expect(waited.stdout.trim().split('\n').sort()).toEqual([`${one}  done`, `${two}  done`].sort());
    const { gate, id } = await server.heldJob({ tag: 'a' });
    const removed = await run('rm', '--tag', 'a');
    expect([removed.code, removed.stdout, removed.stderr]).toEqual([
      0,
      `${one}  removed\n`,
      "Removing 1 job tagged 'a'; 1 active job stays\n",
    ]);
    expect((await server.api.job(id)).status).toBe('running');
    const other = await server.heldJob({ tag: 'a' });
    const active = await run('rm', '--tag', 'a');
    expect([active.code, active.stdout, active.stderr]).toEqual([
      0,
      '',
      "Removing 0 jobs tagged 'a'; 2 active jobs stay\n",
    ]);
    for (const each of [gate, other.gate]) each.open();
    expect((await run('wait', '--tag', 'a')).code).toBe(0);
    expect((await run('rm', '--tag', 'a')).stderr).toBe("Removing 2 jobs tagged 'a'\n");
    const none = await run('rm', '--tag', 'nothing');
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("No jobs tagged 'nothing'")]);
  });
});
