import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { least, printBytes, steps } from '../support/form.js';
import { sharedServer } from '../support/server.js';

const server = sharedServer();

/** A log from a server that numbers no lines and does not know `tail`; the last lines come when the test asks for them. */
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
  test('prints the last lines, then follows', async () => {
    await using cli = await Cli.create();
    const gate = server.gate();
    const { api } = server;
    const form = { ...least.infer, ...steps('lines=5000', `wait=${gate.path}`, 'print=late') };
    const id = await api.running('infer', form, 'line 5000');
    const running = cli.start(['logs', id, '--tail', '2', '--server', server.url]);
    expect(String((await once(running.process.stdout, 'data'))[0])).toMatch(/^line 4999\n/);
    gate.open();
    const { code, stdout } = await running.ended;
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^line 4999\nline 5000\nlate\n\[remote-app\] Result.*\n$/),
    ]);
  });

  test('keeps the last lines itself if the server sends all of them', async () => {
    await using cli = await Cli.create();
    let send = (_: string) => {};
    const later = new Promise<string>((resolve) => {
      send = resolve;
    });
    await using old = await fakeService({ override: unnumbered(['one', 'two', 'three'], later) });
    const running = cli.start(['logs', jobId, '--tail', '2', '--server', old.url]);
    const [first] = await once(running.process.stdout, 'data');
    expect(String(first)).toMatch(/^two\n/);
    send('four');
    const { code, stdout } = await running.ended;
    expect([code, stdout]).toEqual([0, 'two\nthree\nfour\n']);
    const ended = await cli.run(['logs', jobId, '--tail', '1', '--server', old.url]);
    expect([ended.code, ended.stdout]).toEqual([0, 'four\n']);
  });
});

describe('logs --json', () => {
  const documents = (stdout: string) =>
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));

  test('prints a document for each line as it comes, and a last one with the status', async () => {
    await using cli = await Cli.create();
    const gate = server.gate();
    const form = { ...least.infer, ...steps(printBytes('10 %\r20 %\n'), `wait=${gate.path}`) };
    const id = await server.api.running('infer', form, '20 %');
    const running = cli.start(['logs', id, '--json', '--tail', '2', '--server', server.url]);
    const [first] = await once(running.process.stdout, 'data');
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

  test('says how a job failed, and any other error, as a document on one line', async () => {
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
