import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { least, steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { list } from '../support/list.mjs';
import { TestServer } from '../support/server.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

/** A time, and what a line says behind it. */
const timed = (words: string): RegExp => new RegExp(`^\\d{4}-[\\d:T.-]+Z ${words}$`, 'm');

/** The lines of a log of JSON. */
const documents = (text: string): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test('serve logs each step of a job', async () => {
  await using server = await TestServer.start({ gpus: 1 });
  const gate = server.gate();
  const first = await server.api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
  const { job_id: second } = await server.api.accepted('infer', { ...least.infer, ...steps('exit=3') });
  await until('it waits', () => server.stderr.includes(`${second}: waits`));
  gate.open();
  await server.api.ended(first);
  await server.api.ended(second);
  await until('the end is said', () => server.stderr.includes(`${second}: failed`));
  expect(server.stderr).toMatch(timed(`Job ${first}: accepted, infer on probe, \\d+ B`));
  expect(server.stderr).toMatch(timed(`Job ${first}: starts on GPU 0, \\d+ s after it came`));
  expect(server.stderr).toMatch(timed(`Job ${first}: done after \\d+ s, result [\\d.]+ K?i?B`));
  expect(server.stderr).toMatch(timed(`Job ${second}: waits for a free GPU, position 1 in the queue`));
  expect(server.stderr).toMatch(
    timed(`Job ${second}: failed after \\d+ s: Subprocess failed \\(exit code 3\\)`),
  );
});

test('serve logs each refusal, without file names', async () => {
  await using server = await TestServer.start({ token: 'right', flags: ['--max-file-size', '10'] });
  await fetch(`${server.url}/jobs`, { headers: { Authorization: 'Bearer wrong' } });
  const form = { inputs: file('anna-smith.nii', 'x'.repeat(1000)) };
  const [status, detail] = await server.api.refused('infer', form);
  expect([status, detail]).toEqual([413, expect.stringContaining('anna-smith.nii')]);
  await until('both are said', () => server.stderr.includes('too large'));
  expect(server.stderr).toMatch(timed('Refused GET /jobs from \\S+: 401, The token is wrong'));
  expect(server.stderr).toMatch(timed('Refused POST /apps/probe/infer from \\S+: 413, A file is too large'));
  expect(server.stderr).not.toMatch(/anna|right|wrong$/);
});

test('serve prints no more than twenty refusals in ten seconds', async () => {
  await using server = await TestServer.start();
  for (let time = 0; time < 30; time += 1) await server.api.fetch('/nowhere');
  await until('they are said', () => server.stderr.split('Refused').length > 20);
  expect(await server.stop()).toBe(0);
  expect(server.stderr.split('Refused')).toHaveLength(21);
});

describe('a process that systemd has started', () => {
  let root: Awaited<ReturnType<typeof temporary>>;
  let server: TestServer;
  let told: string;
  let ready: string;
  let jobId: string;
  let exitCode: number | null;
  beforeAll(async () => {
    root = await temporary();
    told = path.join(root.path, 'told');
    const script = `#!/bin/sh\necho "$NOTIFY_SOCKET $*" >>${told}\n`;
    writeFileSync(path.join(root.path, 'systemd-notify'), script, { mode: 0o755 });
    const environment = { NOTIFY_SOCKET: '@here', PATH: `${root.path}:${process.env.PATH}` };
    server = await TestServer.start({ ownProcess: true, environment, flags: ['--log-format', 'json'] });
    ready = await until('it is told', () => (existsSync(told) ? readFileSync(told, 'utf8') : null));
    ({ id: jobId } = await server.api.run('infer', least.infer));
    server.signal('SIGUSR2');
    await until('the signal is said', () => server.stderr.includes('SIGUSR2'));
    exitCode = await server.stop();
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await root[Symbol.asyncDispose]();
  });

  test('With --log-format json, each line under systemd is an object, including the address', () => {
    expect(documents(server.stdout)).toEqual([
      expect.objectContaining({ level: 'info', message: `Listening on ${server.url}` }),
    ]);
    expect(exitCode).toBe(0);
    const lines = documents(server.stderr);
    for (const line of lines) {
      expect(line).toMatchObject({
        time: expect.stringMatching(/^\d{4}-.*Z$/),
        level: expect.stringMatching(/^(info|warn)$/),
        message: expect.any(String),
      });
    }
    const steps = lines.filter(({ job_id, event }) => job_id === jobId && event !== 'waiting');
    expect(steps.map(({ event }) => event)).toEqual(['accepted', 'started', 'ended']);
    expect(steps[0]).toMatchObject({
      app: 'probe',
      operation: 'infer',
      owner: null,
      bytes: expect.any(Number),
    });
    expect(steps.at(-1)).toMatchObject({ status: 'done', error: null, seconds: expect.any(Number) });
  });

  test('A process started by systemd reports to it that the service is ready, and that it stops', () => {
    expect(ready).toBe('@here READY=1\n');
    expect(readFileSync(told, 'utf8')).toBe('@here READY=1\n@here STOPPING=1\n');
  });
});

test('With --log-format json the reason why a start fails is a line of JSON as well', async () => {
  await using cli = await Cli.create();
  const words = list`serve --log-format json --port 0 --data-dir data --on-end /nowhere`;
  const { code, stderr, stdout } = await cli.runProcess(words);
  expect([code, stdout]).toEqual([2, '']);
  const last = documents(stderr).at(-1);
  expect(last).toMatchObject({ level: 'error', message: expect.stringContaining('--on-end') });
});

test('--log-level error reports only problems, and debug also logs the answers to clients', async () => {
  await using quiet = await TestServer.start({ flags: ['--log-level', 'error'] });
  await quiet.api.run('infer', least.infer);
  await quiet.api.fetch('/nowhere');
  expect(await quiet.stop()).toBe(0);
  expect(quiet.stderr).toBe('');
  await using chatty = await TestServer.start({ flags: ['--log-level', 'debug'] });
  await chatty.api.fetch('/nowhere');
  await until('it is said', () => chatty.stderr.includes('There is no GET /nowhere'));
});
