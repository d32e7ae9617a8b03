import { describe, expect, test } from 'vitest';
import { StreamSlots } from '../../../src/server/jobs/index.js';
import { refusal } from '../../support/api.js';
import { least, printBytes, steps } from '../../support/form.js';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer();
const { api } = server;

describe('the streams of one job', () => {
  test('A job has at most one stream, and a second request is answered 429 with Retry-After', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    await using log = await api.follow(id);
    const second = await api.fetch(`/jobs/${id}/logs`);
    expect(second.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await refusal(second)).toEqual([429, expect.stringContaining(id)]);
    gate.open();
    await log.end();
    expect((await api.fetch(`/jobs/${id}/logs`)).status).toBe(200);
  });

  test('A stream releases its slot as soon as the client is gone', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    for (let round = 0; round < 5; round += 1) {
      const connection = await RawConnection.open(server.url);
      connection.write(`GET /jobs/${id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      await connection.until(/data: probe infer/);
      await connection.destroy();
      // Tried only once, because a client reconnects at once.
      await using log = await api.tryFollow(id);
      expect(log.response.status).toBe(200);
      await log.until('probe infer');
    }
  });

  test('A stream does not block a HEAD request', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    await using connection = await RawConnection.open(server.url);
    connection.write(`HEAD /jobs/${id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await connection.until(/text\/event-stream/);
    await using log = await api.tryFollow(id);
    expect(log.response.status).toBe(200);
    gate.open();
    await log.end();
  });
});

describe('the log as text', () => {
  test('The log as text is available while it is streamed, as a whole or by ranges', async () => {
    const gate = server.gate();
    const form = {
      ...least.infer,
      ...steps('print=\u00fcber', printBytes('10 %\r'), `wait=${gate.path}`, 'print=b'),
    };
    const id = await api.running('infer', form, '10 %');
    await using log = await api.follow(id);
    const get = (range?: string) => api.fetch(`/jobs/${id}/log`, range ? { headers: { Range: range } } : {});
    const whole = await get();
    const text = await whole.text();
    const bytes = Buffer.from(text);
    expect(Object.fromEntries(whole.headers)).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'content-length': String(bytes.length),
      'accept-ranges': 'bytes',
      'cache-control': 'no-store',
    });
    expect(text).toMatch(/^\[remote-app\] Remote job .*\nprobe infer\n\u00fcber\n10 %\r\n$/s);
    const size = bytes.length;
    for (const [range, from, to] of [
      ['bytes=3-9', 3, 10],
      ['bytes=5-', 5, size],
      ['bytes=-7', size - 7, size],
      ['bytes=-99999', 0, size],
      [`bytes=${size - 1}-99999`, size - 1, size],
    ] as const) {
      const part = await get(range);
      expect([range, part.status, part.headers.get('content-range')]).toEqual([
        range,
        206,
        `bytes ${from}-${to - 1}/${size}`,
      ]);
      expect(Buffer.from(await part.arrayBuffer())).toEqual(bytes.subarray(from, to));
    }
    for (const range of ['bytes=9-3', 'bytes=0-1,3-4', 'lines=1-2', 'bytes=-'])
      expect([range, await (await get(range)).text()]).toEqual([range, text]);
    const beyond = await get(`bytes=${size}-`);
    expect(beyond.headers.get('content-range')).toBe(`bytes */${size}`);
    const detail = `The log has ${size} bytes so far; ask for a range of these`;
    expect(await refusal(beyond)).toEqual([416, detail]);
    // It has no tag that a condition could name.
    const headers = { Range: 'bytes=3-9', 'If-Range': '"x"' };
    expect(await (await api.fetch(`/jobs/${id}/log`, { headers })).text()).toBe(text);
    const head = await api.fetch(`/jobs/${id}/log`, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([
      200,
      String(size),
      '',
    ]);
    gate.open();
    await log.end();
    expect(await (await get(`bytes=${size}-`)).text()).toMatch(/^b\n\[remote-app\] Result/);
    expect((await api.fetch('/jobs/0123456789ab/log')).status).toBe(404);
  });

  test('The log as text explains that the job has replaced it', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...steps('shell=ln -sf /etc/passwd ../log') });
    const answer = await api.fetch(`/jobs/${id}/log`);
    expect([answer.status, await answer.text()]).toEqual([
      200,
      expect.stringMatching(/was removed or replaced/),
    ]);
  });
});

test('The number of streams of all jobs together is limited', async () => {
  const slots = new StreamSlots(2, 2);
  const release = await slots.take('first', null);
  await slots.take('second', null);
  await expect(slots.take('third', null)).rejects.toMatchObject({
    code: 'tooManyStreams',
    message: '2 log streams are open, the most there may be; try again soon',
  });
  release();
  await slots.take('third', null);
  expect(slots.open).toBe(2);
});

test('A stream whose reader accepts no data is closed, and its slot is freed', async () => {
  await using patient = await TestServer.start({ flags: ['--keepalive', '1'] });
  const { id } = await patient.api.run('infer', { ...least.infer, ...steps('lines=1000000') });
  await using connection = await RawConnection.open(patient.url);
  connection.socket.pause();
  connection.write(`GET /jobs/${id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  await until('it is open', async () => (await patient.api.fetch(`/jobs/${id}/logs`)).status === 429);
  await until('it is closed', async () => {
    await using log = await patient.api.tryFollow(id);
    return log.response.status === 200;
  });
});

test('One token cannot have all streams', async () => {
  const slots = new StreamSlots(6, 2);
  const release = await slots.take('1', 'ana');
  await slots.take('2', 'ana');
  await expect(slots.take('3', 'ana')).rejects.toThrow("2 log streams of token 'ana' are open");
  await slots.take('3', 'ben');
  release();
  await slots.take('1', 'ana');
  // Of a server without named tokens, or of its admin.
  for (const id of ['4', '5', '6']) await slots.take(id, null);
  await expect(slots.take('7', 'cy')).rejects.toThrow('6 log streams are open');
});
