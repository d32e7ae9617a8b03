import { describe, expect, test } from 'vitest';
import { least, printBytes, steps } from '../../support/form.js';
import { linesOf } from '../../support/log-lines.mjs';
import { appLines } from '../../support/log-stream.js';
import { sharedServer } from '../../support/server.js';

const server = sharedServer();
const { api } = server;

/** Text of the log stream of a probe that takes these steps. */
async function logOf(...taken: string[]): Promise<string> {
  return (await api.run('infer', { ...least.infer, ...steps(...taken) })).log;
}

describe('the bytes of a log stream', () => {
  test('The bytes of a log stream are one data event for each line, then the marker, and nothing else', async () => {
    const { id, log } = await api.run('infer', { ...least.infer, ...steps('print=Hello', 'print=') });
    const size = /Result: 1 file, (.*)/.exec(log)?.[1];
    expect(log).toBe(
      [
        `data: [remote-app] Remote job ${id} accepted: infer on probe`,
        'data: [remote-app] Starting infer on the CPU',
        'data: probe infer',
        'data: Hello',
        'data: ',
        `data: [remote-app] Result: 1 file, ${size}`,
        'data: __DONE__',
        '',
      ].join('\n\n'),
    );
  });

  test('The bytes of a log stream have headers that keep proxies from buffering them', async () => {
    const { id } = await api.run('infer', least.infer);
    const { headers, status } = await api.fetch(`/jobs/${id}/logs`);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect(headers.get('cache-control')).toBe('no-cache, no-transform');
    expect(headers.get('x-accel-buffering')).toBe('no');
  });

  test('The bytes of a log stream end with the failure marker for a job that failed', async () => {
    const log = await logOf('print=before', 'exit=3');
    expect(log.endsWith('data: before\n\ndata: __ERROR__ Subprocess failed (exit code 3)\n\n')).toBe(true);
  });

  test('The bytes of a log stream name the signal that ended the command', async () => {
    const log = await logOf('signal=SIGKILL');
    expect(linesOf(log).at(-1)).toBe('__ERROR__ Subprocess failed (exit code 137, SIGKILL)');
  });

  test('The bytes of a log stream are left out for HEAD', async () => {
    const { id } = await api.run('infer', least.infer);
    const response = await api.fetch(`/jobs/${id}/logs`, { method: 'HEAD' });
    expect([response.status, await response.text()]).toEqual([200, '']);
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
  });
});

describe('lines of an app', () => {
  test('Lines of an app that look like a marker get a leading space, and do not end the stream', async () => {
    const log = await logOf(
      'print=__DONE__',
      'print=__ERROR__ made up',
      'print=__ERROR__',
      'print=__DONE__!',
      printBytes('__DONE__\r'),
    );
    expect(appLines(log)).toEqual([
      'probe infer',
      ' __DONE__',
      ' __ERROR__ made up',
      ' __ERROR__',
      '__DONE__!',
      ' __DONE__',
    ]);
    expect(linesOf(log).at(-1)).toBe('__DONE__');
  });

  test('Lines of an app end at \\n, at \\r\\n and at \\r', async () => {
    const log = await logOf(printBytes('unix\nwindows\r\n10 %\r20 %\r\rlast'));
    expect(appLines(log).slice(1)).toEqual(['unix', 'windows', '10 %', '20 %', '', 'last']);
  });

  test('Lines of an app that are split between \\r and \\n stay one', async () => {
    const gate = server.gate();
    const { job_id: id } = await api.accepted('infer', {
      ...least.infer,
      ...steps(printBytes('cut\r'), `wait=${gate.path}`, printBytes('\nnext\n')),
    });
    await using log = await api.follow(id);
    await log.until('cut');
    gate.open();
    expect(appLines(await log.end()).slice(1)).toEqual(['cut', 'next']);
  });

  test('Lines of an app with bytes that are not UTF-8 have U+FFFD instead', async () => {
    const log = await logOf(printBytes(Uint8Array.of(0x61, 0xff, 0x62, 0xc3, 0x28, 0x0a)));
    expect(appLines(log).slice(1)).toEqual(['a\ufffdb\ufffd(']);
  });

  test('Lines of an app keep a character whose bytes come in two writes', async () => {
    const gate = server.gate();
    const { job_id: id } = await api.accepted('infer', {
      ...least.infer,
      ...steps(
        printBytes(Uint8Array.of(0x2d, 0x0a, 0xf0, 0x9f)),
        `wait=${gate.path}`,
        printBytes(Uint8Array.of(0xa7, 0xa0, 0x0a)),
      ),
    });
    await using log = await api.follow(id);
    await log.until('-');
    gate.open();
    expect(appLines(await log.end()).slice(1)).toEqual(['-', '🧠']);
  });

  test('Lines of an app that look like fields of an event are data', async () => {
    const log = await logOf('print=id: 7', 'print=: keepalive', 'print=event: x', 'print= indented');
    expect(appLines(log).slice(1)).toEqual(['id: 7', ': keepalive', 'event: x', ' indented']);
  });

  test('Lines of an app contain a space or U+FFFD in place of characters that some readers treat as line ends', async () => {
    const ends = ['\v', '\f', '\u001c', '\u001d', '\u001e', '\u0085', '\u2028', '\u2029'];
    const log = await logOf(printBytes(ends.map((end) => `Å${end}${end}data: __DONE__…\n`).join('')));
    expect(appLines(log).slice(1)).toEqual([
      ...Array(6).fill('Å  data: __DONE__…'),
      ...Array(2).fill('Å\ufffd\ufffddata: __DONE__…'),
    ]);
  });

  test('All lines of an app arrive, a hundred thousand of them', async () => {
    const lines = appLines(await logOf('lines=100000')).slice(1);
    expect(lines.length).toBe(100_000);
    expect(lines.every((line, index) => line === `line ${index + 1}`)).toBe(true);
  });
});

describe('the lines of a process', () => {
  const real = sharedServer({ runners: true });
  const { api } = real;

  test('The lines of a process come from stdout and stderr in the order in which they were printed', async () => {
    const { log } = await api.run('infer', {
      ...least.infer,
      ...steps('print=1', 'error=2', 'print=3', 'error=4'),
    });
    expect(appLines(log).slice(1)).toEqual(['1', '2', '3', '4']);
  });

  test("The lines of a process are followed to the job's end after the app has closed its output", async () => {
    const gate = real.gate();
    const { job_id: id } = await api.accepted('infer', {
      ...least.infer,
      ...steps('closeoutput=', `wait=${gate.path}`, 'write=late.txt:late'),
    });
    await using log = await api.follow(id);
    await log.until('probe infer');
    expect((await api.job(id)).status).toBe('running');
    gate.open();
    await log.end();
    expect(String((await api.result(id)).get('late.txt'))).toBe('late');
  });
});
