import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { formOf, json } from '../support/scripted-server.js';
import { sharedServer, TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { zipOf } from '../support/zip.mjs';

let cli: Cli;

beforeAll(async () => {
  cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': 'voxels' });
});
afterAll(() => cli[Symbol.asyncDispose]());

/** A time as it is printed: in the local time zone, to the minute, and relative to now. */
const localTime = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d`;

describe('how long a job is kept', () => {
  const server = sharedServer();
  const run = (...args: string[]) => cli.run(args, { REMOTE_APP_SERVER: server.url });

  test('A submission finally says how long the job is kept, as do its result and its status', async () => {
    const submitted = await run('infer', 'ct.nii', '--keep', '12h');
    const id = /Job (\w+) is accepted/.exec(submitted.stderr)?.[1] ?? '';
    const until = new RegExp(`Job ${id} is kept until ${localTime} \\(in (11|12) h\\)\n$`);
    expect([submitted.code, submitted.stderr]).toEqual([0, expect.stringMatching(until)]);
    expect((await run('result', id)).stderr).toMatch(until);
    expect((await run('status', id)).stdout).toMatch(
      new RegExp(`Kept until +${localTime} \\(in (11|12) h\\)`),
    );
    const { stdout } = await run('result', id, '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      keep: 12 * 3600,
      expires_at: (await server.api.job(id)).expires_at,
    });
  });

  test('A job that a command waits for is kept for a day, as the command says when the job is accepted', async () => {
    const gate = server.gate();
    const words = ['infer', 'ct.nii', '--set', `wait=${gate.path}`];
    const running = cli.begin(words, { REMOTE_APP_SERVER: server.url });
    let told = '';
    running.stderr?.on('data', (chunk: Buffer) => {
      told += chunk;
    });
    await until('it is told', () => /Job \w+ is kept for 1 day after it ends\n/.test(told));
    gate.open();
    const { code, stderr } = await running.ended;
    const kept = new RegExp(`is kept until ${localTime} \\(in (24 h|1 day)\\)\n$`);
    expect([code, stderr]).toEqual([0, expect.stringMatching(kept)]);
    expect(stderr.match(/after it ends/g)).toHaveLength(1);
  });

  test('A job that a command waits for is kept for longer than the command waits for a lost server', async () => {
    const patient = await run('infer', 'ct.nii', '-o', 'patient', '--json', '--patience', '100000');
    expect(JSON.parse(patient.stdout).keep).toBe(100_060);
    const most = await run('infer', 'ct.nii', '-o', 'most', '--json', '--patience', '1000000');
    expect(JSON.parse(most.stdout).keep).toBe(7 * 86_400);
  });

  test('A job is kept no longer than the server allows, and an expired job is not a usage error', async () => {
    await using short = await TestServer.start({ flags: ['--grace', '0', '--max-keep', '1s'] });
    const env = { REMOTE_APP_SERVER: short.url };
    const { code, stderr } = await cli.run(['infer', 'ct.nii', '-o', 'short'], env);
    const id = /Job (\w+) is accepted/.exec(stderr)?.[1] ?? '';
    expect([code, stderr]).toEqual([0, expect.stringContaining(`Job ${id} is kept for 1 s after it ends\n`)]);
    await until('it is gone', async () => (await short.api.fetch(`/jobs/${id}`)).status === 410);
    for (const words of [
      ['result', id],
      ['status', id],
      ['logs', id],
      ['wait', id],
    ]) {
      const late = await cli.run(words, env);
      expect([words[0], late.code, late.stderr]).toEqual([
        words[0],
        1,
        expect.stringContaining('expired at'),
      ]);
    }
  });

  test('A job that failed says how long it is kept', async () => {
    const { code, stderr } = await run('infer', 'ct.nii', '--set', 'exit=3', '--keep', '7d');
    expect([code, stderr]).toEqual([1, expect.stringMatching(/kept until .* \(in 7 days\)/)]);
  });

  test('A detached job is kept for as long as the server allows', async () => {
    const gate = server.gate();
    const { code, stdout, stderr } = await run('infer', 'ct.nii', '--detach', '--set', `wait=${gate.path}`);
    const id = stdout.trim();
    expect(code, stderr).toBe(0);
    expect(stderr).toContain(`Job ${id} is kept for 7 days after it ends\n`);
    expect((await run('status', id)).stdout).toMatch(/Kept +for 7 days after it ends\n/);
    gate.open();
    expect((await server.api.ended(id)).view.keep).toBe(7 * 86_400);
  });

  test('A detached job is kept for the requested time', async () => {
    const { stdout, stderr } = await run('infer', 'ct.nii', '--detach', '--keep', '30m', '--json');
    const { job_id, keep } = JSON.parse(stdout);
    expect([keep, stderr]).toEqual([1800, expect.stringContaining(`Job ${job_id} is kept `)]);
  });

  test('A request to keep a job for longer than allowed is refused before anything is packed or sent', async () => {
    const { code, stderr } = await run('infer', 'ct.nii', '--detach', '--keep', '8d');
    const sentence = `--keep 8d is too long: ${server.url} keeps a job for at most 7d`;
    expect([code, stderr]).toEqual([2, `Error: ${sentence}\n`]);
  });

  test('A value of --keep that is not a time is refused before anything is sent', async () => {
    const { code, stderr } = await run('infer', 'ct.nii', '--keep', 'soon', '--server', 'http://127.0.0.1:1');
    expect(code).toBe(2);
    expect(stderr).toContain("--keep must be a time such as 90s, 15m, 12h or 7d, or 'max', got 'soon'");
  });
});

describe('a server that does not support the field', () => {
  const result = zipOf({ 'mask.nii': 'mask' });

  async function run(fake: Fake, ...args: string[]) {
    await using server = await fakeService(fake);
    const ended = await cli.run(args, { REMOTE_APP_SERVER: server.url });
    const [submission] = server.to('/apps/tissue/infer');
    return { ...ended, keep: submission && (await formOf(submission)).get('keep') };
  }

  test('An old server promises no time, and the command says that its request has no effect', async () => {
    const silent = await run({ result }, 'infer', 'ct.nii', '-o', 'plain');
    expect([silent.code, silent.keep]).toEqual([0, null]);
    expect(silent.stderr).not.toMatch(/kept|keeps/);
    const asked = await run({ result }, 'infer', 'ct.nii', '-o', 'asked', '--keep', '7d');
    expect([asked.code, asked.keep]).toEqual([0, '604800']);
    expect(asked.stderr).toMatch(/does not say how long it keeps job 0123456789ab/);
    const detached = await run({}, 'infer', 'ct.nii', '--detach');
    expect([detached.code, detached.stdout, detached.keep]).toEqual([0, `${jobId}\n`, 'max']);
    expect(detached.stderr).toMatch(/does not say how long it keeps job 0123456789ab/);
  });

  test('A submission succeeds although the server no longer knows the job afterwards', async () => {
    const override: Fake['override'] = ({ url }, response) => {
      if (url !== `/jobs/${jobId}`) return false;
      response.destroy();
      return true;
    };
    const { code, stdout, stderr } = await run({ override }, 'infer', 'ct.nii', '--detach');
    expect([code, stdout]).toEqual([0, `${jobId}\n`]);
    expect(stderr).not.toContain('kept');
  });
});

describe.each([
  ['ahead of', 5],
  ['behind', -5],
])('a server whose clock is hours %s that of this machine', (side, hours) => {
  const offset = hours * 3_600_000;
  const at = (seconds: number) => new Date(Date.now() + offset + seconds * 1000).toISOString();
  const result = zipOf({ 'mask.nii': 'mask' });

  /** Runs commands on a server with a job that has ended as `status` says. */
  async function runOn(status: string, ...lines: string[][]) {
    await using place = await Cli.create();
    await plant(place.directory, { 'ct.nii': 'voxels' });
    const view = {
      created_at: at(-7300),
      started_at: at(-7250),
      ...(status === 'running' ? {} : { finished_at: at(-7210), expires_at: at(2 * 3600 + 60) }),
    };
    const isEnded = status !== 'running';
    const marker = status === 'done' ? '__DONE__' : '__ERROR__ why';
    const override: Fake['override'] = ({ url }, response) => {
      response.setHeader('date', new Date(Date.now() + offset).toUTCString());
      if (url !== '/jobs') return false;
      json(response, 200, { jobs: [{ job_id: jobId, status, ...view }] });
      return true;
    };
    const error = isEnded && status !== 'done' ? 'why' : null;
    await using server = await fakeService({ status, view, result, marker, error, override });
    const texts = await Promise.all(
      lines.map(async (line) => {
        const { stdout, stderr } = await place.run(line, { REMOTE_APP_SERVER: server.url });
        return stdout + stderr;
      }),
    );
    return { texts, server };
  }

  test('Times are printed by the clock of the server', async () => {
    const { texts } = await runOn(
      'done',
      ['status', jobId],
      ['jobs'],
      ['infer', 'ct.nii'],
      ['infer', 'ct.nii', '--detach'],
      ['result', jobId, '-o', 'r'],
    );
    const [status, jobs, ...others] = texts;
    expect(status).toMatch(
      /Created .* \(2 h ago\)\nStarted .* \(2 h ago\)\nFinished .* \(2 h ago, took 40 s\)/,
    );
    expect(status).toMatch(/Kept until .* \(in 2 h\)/);
    expect(jobs).toMatch(/2 h ago {2}40 s/);
    for (const text of others) expect(text).toMatch(/is kept until .* \(in 2 h\)/);
    const failed = await runOn('error', ['infer', 'ct.nii'], ['result', jobId], ['logs', jobId]);
    for (const text of failed.texts) expect(text).toMatch(/is kept until .* \(in 2 h\)/);
    const running = await runOn('running', ['status', jobId], ['jobs']);
    for (const text of running.texts) expect(text).toMatch(/2 h ago/);
    expect(running.texts[1]).toMatch(/2 h ago {2}2 h( 1 min)?\n/);
  });

  test(`With a server clock hours ${side} that of this machine, usage --since counts back from the time on the server`, async () => {
    const { server } = await runOn('done', ['usage', '--since', '1h']);
    const [asked] = server.to('/usage');
    const since = new URL(asked?.url ?? '', server.url).searchParams.get('since') ?? '';
    expect(Math.abs(Date.parse(since) - Date.parse(at(-3600)))).toBeLessThan(60_000);
  });
});
