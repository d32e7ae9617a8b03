import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { RawConnection } from '../../support/raw-http.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { answerTo, ask, begin, gatewayTo } from './support.js';

const MiB = 2 ** 20;
/** More than all buffers of the way, those of the system among them. */
const whole = 64;
const most = 32 * MiB;

/** A long body, and how much of it has been taken by its reader and by its writer. */
class Body {
  sent = 0;
  received = 0;
  /** The most that was under way. */
  peak = 0;
  readonly #pieces = [Buffer.alloc(MiB, 'a'), Buffer.alloc(MiB, 'b')] as const;
  readonly #sums = [createHash('sha256'), createHash('sha256')] as const;

  *pieces(): Generator<Buffer> {
    for (let each = 0; each < whole; each += 1) {
      const piece = this.#pieces[each % 2] as Buffer;
      this.#sums[0].update(piece);
      this.sent += piece.length;
      this.peak = Math.max(this.peak, this.sent - this.received);
      yield piece;
    }
  }

  /** Reads it, slower than it can be sent. */
  async read(stream: IncomingMessage): Promise<void> {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      this.#sums[1].update(chunk);
      this.received += chunk.length;
      await turn();
    }
    const [sent, received] = this.#sums.map((sum) => sum.digest('hex'));
    expect(received).toBe(sent);
  }
}

/** A server that handles requests whose bodies it reads itself. */
const serverWith = (handler: (request: IncomingMessage, response: ServerResponse) => unknown) =>
  ScriptedServer.start((_, response, raw) => void handler(raw, response), true);

describe('a long body', () => {
  test('A long body is uploaded as fast as the server reads it', async () => {
    const body = new Body();
    await using server = await serverWith(async (request, response) => {
      await body.read(request);
      json(response, 200, {});
    });
    await using gateway = await gatewayTo(server.url);
    const headers = { 'content-length': whole * MiB };
    const { statusCode } = await answerTo(begin(gateway, '/', { method: 'POST', headers }), body.pieces());
    expect([statusCode, body.received]).toEqual([200, whole * MiB]);
    expect(body.peak).toBeLessThan(most);
  });

  test('A long body is downloaded as fast as the client reads it', async () => {
    const body = new Body();
    await using server = await serverWith(async (_, response) => {
      response.writeHead(200, { 'content-length': whole * MiB });
      await pipeline(Readable.from(body.pieces(), { highWaterMark: 1 }), response);
    });
    await using gateway = await gatewayTo(server.url);
    await body.read(await answerTo(begin(gateway, '/')));
    expect(body.received).toBe(whole * MiB);
    expect(body.peak).toBeLessThan(most);
  });
});

describe('a log', () => {
  test('A log arrives line by line, and its head arrives before the first line', async () => {
    const streams: ServerResponse[] = [];
    await using server = await serverWith((_, response) => {
      streams.push(response.writeHead(200, { 'content-type': 'text/event-stream' }));
      response.flushHeaders();
    });
    await using gateway = await gatewayTo(server.url);
    const answer = await answerTo(begin(gateway, '/jobs/a/logs'));
    expect(answer.headers['content-type']).toBe('text/event-stream');
    // Each line is written when the one before it has arrived.
    for (const line of ['data: one\n\n', 'data: two\n\n', ': keepalive\n\n']) {
      streams[0]?.write(line);
      const [chunk] = await once(answer, 'data');
      expect(String(chunk)).toBe(line);
    }
    streams[0]?.end();
    await once(answer, 'end');
  });

  test('A log request ends at the server when the client disconnects', async () => {
    const streams = new EventEmitter();
    const closed = once(streams, 'closed');
    await using server = await serverWith((_, response) => {
      response.once('close', () => streams.emit('closed'));
      response.writeHead(200).flushHeaders();
    });
    await using gateway = await gatewayTo(server.url, { readTimeout: 600 });
    (await answerTo(begin(gateway, '/jobs/a/logs'))).destroy();
    await closed;
  });

  test('A log that breaks off at the server also breaks off for the client', async () => {
    await using server = await serverWith((_, response) => {
      response.writeHead(200).write('data: one\n\n');
      response.write('data: two\n\n', () => response.destroy());
    });
    await using gateway = await gatewayTo(server.url);
    const answer = await answerTo(begin(gateway, '/jobs/a/logs'));
    answer.resume();
    await expect(once(answer, 'end')).rejects.toThrow('aborted');
  });
});

describe('an upload', () => {
  test('An upload may wait for its server longer than an answer may be silent', async () => {
    const server = new EventEmitter();
    const reads = once(server, 'reads');
    await using slow = await serverWith(async (request, response) => {
      // Other requests stay without an answer.
      if (request.method === 'GET') return;
      await reads;
      for await (const _ of request);
      json(response, 200, {});
    });
    await using gateway = await gatewayTo(slow.url, { readTimeout: 0.1 });
    const pieces = Array.from({ length: 24 }, () => Buffer.alloc(MiB));
    const answered = answerTo(begin(gateway, '/', { method: 'POST' }), pieces);
    expect((await ask(gateway, '/silent')).status).toBe(504);
    server.emit('reads');
    expect((await answered).statusCode).toBe(200);
  });

  test('An upload breaks off at the server when the client is gone', async () => {
    const uploads = new EventEmitter();
    const [began, closed] = [once(uploads, 'began'), once(uploads, 'closed')];
    await using server = await serverWith((request) => {
      request.on('error', () => {}).once('data', () => uploads.emit('began'));
      request.once('close', () => uploads.emit('closed', request.complete));
    });
    await using gateway = await gatewayTo(server.url);
    const sent = begin(gateway, '/', { method: 'POST' });
    sent.on('error', () => {}).write('the beginning');
    await began;
    sent.destroy();
    expect(await closed).toEqual([false]);
  });
});

test('A request that waits for its answer ends at the server when the client disconnects, and nothing is reported', async () => {
  const requests = new EventEmitter();
  const [began, closed] = [once(requests, 'began'), once(requests, 'closed')];
  await using server = await serverWith((_, response) => {
    requests.emit('began');
    response.once('close', () => requests.emit('closed'));
  });
  await using gateway = await gatewayTo(server.url, { readTimeout: 600 });
  const sent = begin(gateway, '/jobs/a/result').on('error', () => {});
  sent.end();
  await began;
  sent.destroy();
  await closed;
  expect(gateway.told).toEqual([]);
});

test('An upload that is refused early is answered at once, and the rest of it is read', async () => {
  await using server = await serverWith((_, response) => json(response, 413, { detail: 'too large' }));
  await using gateway = await gatewayTo(server.url);
  await using raw = await RawConnection.open(gateway.url);
  const head = (words: string) =>
    `${words} HTTP/1.1\r\nHost: 127.0.0.1:${gateway.port}\r\nAuthorization: Bearer ${gateway.secret}\r\n`;
  raw.write(`${head('POST /apps/x/infer')}Content-Length: ${20 * MiB}\r\n\r\n`);
  raw.write(Buffer.alloc(MiB));
  await raw.until(/^HTTP\/1\.1 413 [\s\S]*too large/);
  // A client that sends all before it reads can do so, and ask again.
  for (let each = 1; each < 20; each += 1) raw.write(Buffer.alloc(MiB));
  raw.received = '';
  raw.write(`${head('GET /again')}\r\n`);
  await raw.until(/^HTTP\/1\.1 413 /);
  expect(server.received.map(({ url }) => url)).toEqual(['/apps/x/infer', '/again']);
});

test('A request in progress ends when the gateway is closed', async () => {
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  await using server = await serverWith(() => arrive());
  await using gateway = await gatewayTo(server.url);
  const sent = begin(gateway, '/');
  const failed = once(sent, 'error');
  sent.end();
  await arrived;
  await gateway.close();
  expect(await failed).toMatchObject([{ code: 'ECONNRESET' }]);
}, 30_000);
