import { createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { least, steps } from '../support/form.js';
import { list } from '../support/list.mjs';
import { linesOf } from '../support/log-lines.mjs';
import { filePart, multipart, submissionHead } from '../support/multipart.mjs';
import { RawConnection } from '../support/raw-http.js';
import { apps, TestServer } from '../support/server.js';
import { until } from '../support/until.mjs';

describe('serve', () => {
  test('serve says on stderr which apps it serves, and where their jobs are kept', async () => {
    await using server = await TestServer.start({ apps: [apps.probe, apps.shell] });
    expect(server.stderr).toContain(
      `Serving 2 apps: probe, shell.\nJobs are kept in ${server.dataDirectory}.\n`,
    );
  });

  test('serve warns of a server without a token, and more if other machines reach it', async () => {
    const warnings = async (...flags: string[]) => {
      await using server = await TestServer.start({ flags });
      return server.stderr.match(/^WARNING: .*$/gm) ?? [];
    };
    const local = await warnings();
    expect(local.join('\n')).toMatch(/SERVICE_API_TOKEN.*open/s);
    expect((await warnings('--auth', 'off')).join('\n')).toMatch(/--auth off/);
    const open = await warnings('--host', '0.0.0.0');
    expect(open.length).toBeGreaterThan(local.length);
    expect(open.join('\n')).toMatch(/0\.0\.0\.0 .*other machines/);
  });

  test('serve can listen on IPv6', async () => {
    await using server = await TestServer.start({ flags: ['--host', '::1'] });
    expect(server.url).toMatch(/^http:\/\/\[::1\]:\d+$/);
    expect((await server.api.fetch('/health')).status).toBe(200);
  });

  test.for([
    ['a port that is taken', (port: number) => ['--port', String(port), '--data-dir', 'data'], /port/i],
    [
      'a data directory that cannot be',
      () => ['--port', '0', '--data-dir', '/dev/null/data'],
      /\/dev\/null\/data/,
    ],
    ['a size that is none', () => ['--port', '0', '--max-file-size', 'big'], /max-file-size/],
    ['a mode that there is not', () => ['--auth', 'maybe'], /auth/],
    ['a number that is none', () => ['--grace', 'long'], /grace/],
  ] as [string, (port: number) => string[], RegExp][])('serve refuses %s', async ([, flags, reason]) => {
    const taken = createServer().listen(0, '127.0.0.1');
    await until('the port is taken', () => taken.listening);
    const { port } = taken.address() as { port: number };
    await using cli = await Cli.create();
    expect(await cli.refusedStart(['serve', ...flags(port)])).toMatch(reason);
    taken.close();
  });
});

test('A refused start exits with code 2, after a single line', async () => {
  await using cli = await Cli.create();
  const { code, stdout, stderr } = await cli.runProcess(list`serve --port 0 --data-dir /dev/null/data`);
  expect([code, stdout, stderr]).toEqual([
    2,
    '',
    expect.stringMatching(/^(?:.*\n)*Error: .*\/dev\/null\/data.*\n$/),
  ]);
});

describe('serve when asked to stop', () => {
  test('When asked to stop, serve kills the jobs by default, including those that ignore SIGTERM', async () => {
    await using server = await TestServer.start({ runners: true, flags: ['--cpu-slots', '1'] });
    const { api } = server;
    const form = {
      ...least.infer,
      ...steps('stubborn=', 'stray=', 'print=ready', `wait=${server.gate().path}`),
    };
    const running = await api.running('infer', form, 'ready');
    const { job_id: waiting } = await api.accepted('infer', least.infer);
    await using log = await api.follow(running);
    await log.until('ready');
    expect(await server.stop()).toBe(0);
    expect(server.processes()).toEqual([]);
    // The followers of the log got the reason.
    const why = 'The server was stopped';
    expect(linesOf(await log.end()).slice(-2)).toEqual([`[remote-app] ${why}`, `__ERROR__ ${why}`]);
    await server.start();
    for (const id of [running, waiting]) {
      expect(await api.job(id)).toMatchObject({ status: 'killed', error: why });
      expect(linesOf(await api.log(id)).slice(-2)).toEqual([`[remote-app] ${why}`, `__ERROR__ ${why}`]);
    }
  });

  test('When asked to stop, serve leaves the jobs to the next server with --on-exit keep', async () => {
    await using server = await TestServer.start({
      runners: true,
      flags: ['--cpu-slots', '1', '--on-exit', 'keep'],
    });
    const { api } = server;
    const gate = server.gate();
    const form = { ...least.infer, ...steps('print=ready', `wait=${gate.path}`, 'print=over') };
    const running = await api.running('infer', form, 'ready');
    const { job_id: waiting } = await api.accepted('infer', least.infer);
    await using log = await api.follow(running);
    await log.until('ready');
    expect(await server.stop()).toBe(0);
    // The stream ended, but the job did not: there is no marker.
    expect(linesOf(await log.end()).at(-1)).toBe('ready');
    expect(server.processes().length).toBeGreaterThan(0);
    await server.start();
    // A job that this server did not start itself is left as well.
    expect((await api.job(running)).status).toBe('running');
    expect(await server.stop()).toBe(0);
    await server.start();
    gate.open();
    for (const id of [running, waiting]) expect((await api.ended(id)).view.status).toBe('done');
  });

  test('When asked to stop, serve does not turn an upload in progress into a job', async () => {
    await using server = await TestServer.start({ runners: true });
    const form = { ...least.infer, ...steps('stubborn=', 'print=ready', `wait=${server.gate().path}`) };
    await server.api.running('infer', form, 'ready');
    const body = multipart([filePart('inputs', 'a.nii')]);
    await using upload = await RawConnection.open(server.url);
    upload.write(submissionHead('/apps/probe/infer', `Content-Length: ${body.length}`));
    await until('the upload has begun', () => server.jobDirectories().length === 2);
    const end = server.stop();
    const isDeaf = () =>
      fetch(server.url).then(
        () => false,
        () => true,
      );
    await until('the server stops', isDeaf);
    upload.write(body);
    await until('the answer or the end', () => upload.received !== '' || upload.isClosed);
    expect(upload.received).not.toContain(' 200 ');
    await end;
    expect(server.processes()).toEqual([]);
  });
});
