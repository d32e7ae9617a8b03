import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
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
