import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { plant } from '../support/temporary.js';
import { zipOf } from '../support/zip.mjs';

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };

/** Runs a command on two scans against such a service. */
async function run(fake: Fake, ...words: readonly string[]) {
  const cli = await Cli.create();
  await plant(cli.directory, { 'scans/a.nii': 'a', 'scans/b.nii': 'b', 'labels/a.nii': 'l' });
  await using server = await fakeService(fake);
  const before = performance.now();
  const ended = await cli.run(words, { REMOTE_APP_SERVER: server.url, REMOTE_APP_APP: 'tissue' });
  const { received } = server;
  return { ...ended, cli, received, seconds: (performance.now() - before) / 1000 };
}

test.each([
  [['infer', 'scans', '--kill-timeout', '0.3'], 'signal'],
  [['infer', '--each', 'scans', '-o', 'R', '--kill-timeout', '0.3'], 'signal'],
  [['kill', jobId, '--timeout', '0.3'], null],
  [['wait', jobId, '--timeout', '0.3'], null],
] as const)('%j stops waiting for a job that does not end', async (words, signal) => {
  const fake: Fake = {
    marker: null,
    lines: [
      () => {
        if (signal) process.emit('SIGINT', 'SIGINT');
        return 'begun';
      },
    ],
    // These are not answered.
    override: ({ url }) => url.endsWith('/kill') || (words[0] === 'wait' && url === `/jobs/${jobId}`),
  };
  const { cli, code, seconds, received } = await run(fake, ...words);
  await using _ = cli;
  expect([code, seconds < 20]).toEqual([signal ? 130 : 3, true]);
  expect(received.some(({ url }) => url.endsWith(words[0] === 'wait' ? jobId : '/kill'))).toBe(true);
});

test('A job that is named twice is waited for once', async () => {
  const { cli, code, stdout } = await run({}, 'wait', jobId, jobId, '--json');
  await using _ = cli;
  expect([code, JSON.parse(stdout)]).toEqual([
    0,
    { jobs: [{ job_id: jobId, status: 'done', error: null, exit_code: 0 }] },
  ]);
});

test('A record names the version of this program, and what was remembered of the job is forgotten once the result is saved', async () => {
  const { cli, code, stderr } = await run({ result: zipOf({ 'mask.nii': 'm' }) }, 'infer', 'scans/a.nii');
  await using _ = cli;
  expect(code, stderr).toBe(0);
  const record = JSON.parse(readFileSync(path.join(cli.directory, 'Output/remote-app-record.json'), 'utf8'));
  expect(record).toMatchObject({ client_version: version, app: 'tissue' });
  // The command is kept, which may be repeated.
  expect(readdirSync(path.join(cli.home, 'remote-app/sent'))).toEqual([`${jobId}.command.json`]);
});

test('The command that sent a job is remembered with the profile and the app that the environment named', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'a.nii': 'a' });
  await using server = await fakeService({});
  expect((await cli.run(['login', '--server', server.url, '--profile', 'lab'], {}, '\n')).code).toBe(0);
  const env = { REMOTE_APP_PROFILE: 'lab', REMOTE_APP_APP: 'tissue' };
  expect((await cli.run(['infer', 'a.nii', '--detach'], env)).code).toBe(0);
  const kept = path.join(cli.home, `remote-app/sent/${jobId}.command.json`);
  expect(JSON.parse(readFileSync(kept, 'utf8'))).toEqual({
    command: 'infer',
    directory: cli.directory,
    words: [
      { flag: 'server', text: `--server=${server.url}` },
      { flag: 'profile', text: '--profile=lab' },
      { flag: 'app', text: '--app=tissue' },
      { flag: null, text: 'a.nii' },
      { flag: 'detach', text: '--detach' },
    ],
  });
});
