import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { least, printBytes, steps } from '../support/form.js';
import { json } from '../support/scripted-server.js';
import { sharedServer } from '../support/server.js';

const server = sharedServer();

/** A log from a server that does not number lines and does not know `tail`. The last lines come when the test asks. */
const unnumbered =
  (lines: readonly string[], later: Promise<string>): NonNullable<Fake['override']> =>
  async ({ url }, response) => {
    if (!url.includes('/logs')) return false;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const line of lines) response.write(`data: ${line}\n\n`);
    response.end(`data: ${await later}\n\ndata: __DONE__\n\n`);
    return true;
  };

describe('logs --tail', () => {
  test('logs --tail prints the last lines, then follows', async () => {
    await using cli = await Cli.create();
    const gate = server.gate();
    const { api } = server;
    const form = { ...least.infer, ...steps('lines=5000', `wait=${gate.path}`, 'print=late') };
    const id = await api.running('infer', form, 'line 5000');
    const running = cli.begin(['logs', id, '--tail', '2', '--server', server.url]);
    expect(String((await once(running.stdout, 'data'))[0])).toMatch(/^line 4999\n/);
    gate.open();
    const { code, stdout } = await running.ended;
    expect(code, stdout).toBe(0);
    expect(stdout).toMatch(/^line 4999\nline 5000\nlate\n\[remote-app\] Result.*\n$/);
  });

  test('logs --tail picks the last lines itself if the server sends all of them', async () => {
    await using cli = await Cli.create();
    let send = (_: string) => {};
    const later = new Promise<string>((resolve) => {
      send = resolve;
    });
    await using old = await fakeService({ override: unnumbered(['one', 'two', 'three'], later) });
    const running = cli.begin(['logs', jobId, '--tail', '2', '--server', old.url]);
    const [first] = await once(running.stdout, 'data');
    expect(String(first)).toMatch(/^two\n/);
    send('four');
    const { code, stdout } = await running.ended;
    expect([code, stdout]).toEqual([0, 'two\nthree\nfour\n']);
    const ended = await cli.run(['logs', jobId, '--tail', '1', '--server', old.url]);
    expect([ended.code, ended.stdout]).toEqual([0, 'four\n']);
  });
});

describe('a log that another command follows', () => {
  test('A log that another command follows is printed to its end, as are its last lines and its lines from a number on', async () => {
    await using cli = await Cli.create();
    const gate = server.gate();
    const form = {
      ...least.infer,
      ...steps('print=\u00fcber', printBytes('10 %\r20 %\n'), `wait=${gate.path}`, 'print=late', 'exit=3'),
    };
    const id = await server.api.running('infer', form, '20 %');
    await using stream = await server.api.follow(id);
    await stream.until('20 %');
    const start = (...flags: string[]) => cli.begin(['logs', id, '--server', server.url, ...flags]);
    const all = start();
    const last = start('--tail', '2', '--json');
    const from = start('--since', '3', '--all');
    await Promise.all([all, last, from].map(({ stdout }) => once(stdout, 'data')));
    gate.open();
    const message = `Error: Job ${id} failed: Subprocess failed (exit code 3)`;
    expect(await all.ended).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^\[remote-app\] Remote job .*\n\u00fcber\n20 %\nlate\n/s),
      stderr: expect.stringContaining(message),
    });
    const rows = (await last.ended).stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const { line } = rows[0];
    expect(rows.slice(0, 3)).toEqual([
      { line, text: '10 %', redraw: true },
      { line: line + 1, text: '20 %' },
      { line: line + 2, text: 'late' },
    ]);
    expect(rows.at(-1)).toMatchObject({ job_id: id, status: 'error' });
    const whole = (await stream.end()) && stream.lines.slice(3, -1).join('\n');
    expect((await from.ended).stdout).toBe(`${whole}\n`);
  });

  test('A log that another command follows is read again if the server cannot send it now', async () => {
    await using cli = await Cli.create();
    let asked = 0;
    await using busy = await fakeService({
      override: ({ url }, response) => {
        if (url.endsWith('/log')) {
          asked += 1;
          if (asked === 1) json(response, 503, { detail: 'no' });
          else response.writeHead(200, { 'content-type': 'text/plain' }).end('one\ntwo');
        } else if (url.includes('/logs')) json(response, 429, { detail: 'no' });
        else return false;
        return true;
      },
    });
    const { code, stdout } = await cli.run(['logs', jobId, '--server', busy.url]);
    expect([code, stdout]).toEqual([0, 'one\ntwo\n']);
  });

  test('A server without a text log gets a clear message that suggests no refused command', async () => {
    await using cli = await Cli.create();
    await using old = await fakeService({
      status: 'running',
      override: ({ url }, response) => {
        if (!/\/logs?\b/.test(url)) return false;
        json(response, url.includes('/logs') ? 429 : 404, { detail: 'no' });
        return true;
      },
    });
    const { code, stderr } = await cli.run(['logs', jobId, '--server', old.url, '--patience', '2']);
    const told =
      `Error: The log of job ${jobId} is already being read, and ${old.url} allows one reader at a time; ` +
      `'remote-app status ${jobId} --server ${old.url}' shows the state of the job`;
    expect([code, stderr]).toEqual([6, expect.stringContaining(told)]);
    expect(stderr).not.toContain('remote-app logs');
  });
});

describe('logs --json', () => {
  const documents = (stdout: string) =>
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));

  test('logs --json prints a document for each line as it comes, and finally one with the status', async () => {
    await using cli = await Cli.create();
    const gate = server.gate();
    const form = { ...least.infer, ...steps(printBytes('10 %\r20 %\n'), `wait=${gate.path}`) };
    const id = await server.api.running('infer', form, '20 %');
    const running = cli.begin(['logs', id, '--json', '--tail', '2', '--server', server.url]);
    const [first] = await once(running.stdout, 'data');
    gate.open();
    const { code, stdout, stderr } = await running.ended;
    const [ten, twenty, result, end] = documents(stdout);
    expect(documents(String(first))[0]).toEqual(ten);
    expect([ten, twenty]).toEqual([
      { line: expect.any(Number), text: '10 %', redraw: true },
      { line: ten.line + 1, text: '20 %' },
    ]);
    expect(result).toMatchObject({ line: ten.line + 2, text: expect.stringContaining('Result') });
    expect([code, end, stderr]).toEqual([0, { job_id: id, status: 'done', lines: 3 }, '']);
  });

  test('logs --json prints the failure of a job, and any other error, as a document on one line', async () => {
    await using cli = await Cli.create();
    await using fake = await fakeService({
      lines: ['one'],
      status: 'error',
      error: 'sad',
      marker: '__ERROR__ sad',
    });
    const failed = await cli.run(['logs', jobId, '--json', '--server', fake.url]);
    expect([failed.code, failed.stderr]).toEqual([1, '']);
    expect(documents(failed.stdout)).toMatchObject([
      { line: 1, text: 'one' },
      { job_id: jobId, status: 'error', error: { message: expect.stringContaining('sad') } },
    ]);
    const unknown = await cli.run(['logs', 'nope', '--json', '--server', fake.url]);
    expect(unknown.code).toBe(2);
    expect(documents(unknown.stdout)).toMatchObject([{ error: { message: expect.any(String) } }]);
  });
});
