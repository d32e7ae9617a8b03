import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { trustFile } from '../../../src/client/connection/index.js';
import { selfSigned } from '../../support/certificates.js';
import { lacks } from '../../support/needs.mjs';
import { freePort } from '../../support/ports.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { temporary } from '../../support/temporary.js';
import { answerTo, ask, begin, gatewayTo, keepingAgent, type OpenGateway, token } from './support.js';

const healthy = () => ScriptedServer.start((_, response) => json(response, 200, { status: 'ok' }));

describe('a request', () => {
  test('A request has the token of the server instead of the secret, and its path follows the prefix', async () => {
    await using server = await healthy();
    await using gateway = await gatewayTo(`${server.url}/lab/service`);
    await ask(gateway, '/vram?devices=0&devices=1&x=a%2Fb');
    const [received] = server.received;
    expect([received?.url, received?.headers.authorization, received?.headers.host]).toEqual([
      '/lab/service/vram?devices=0&devices=1&x=a%2Fb',
      `Bearer ${token}`,
      new URL(server.url).host,
    ]);
    expect(JSON.stringify(server.received)).not.toContain(gateway.secret);
  });

  test('A request has no token if the server requires none', async () => {
    await using server = await healthy();
    await using gateway = await gatewayTo(server.url, { token: undefined });
    await ask(gateway, '/health');
    expect(server.received[0]?.headers).not.toHaveProperty('authorization');
  });

  test('A request has the headers of its client, without those of the connection', async () => {
    await using server = await healthy();
    await using gateway = await gatewayTo(server.url);
    const headers = {
      connection: 'close, X-Hop',
      'x-hop': '1',
      'keep-alive': 'timeout=5',
      te: 'trailers',
      'proxy-authorization': 'Basic eDp5',
      'accept-encoding': 'gzip',
      'idempotency-key': 'k1',
      range: 'bytes=5-',
      'user-agent': 'python-requests/2.32',
    };
    await ask(gateway, '/health', { headers });
    const { headers: received = {} } = server.received[0] ?? {};
    expect(received).toMatchObject({
      'idempotency-key': 'k1',
      range: 'bytes=5-',
      'user-agent': 'python-requests/2.32',
    });
    for (const name of ['x-hop', 'te', 'proxy-authorization', 'accept-encoding'])
      expect(received).not.toHaveProperty(name);
  });

  test('A request keeps its method and its body, framed as the client did', async () => {
    await using server = await healthy();
    await using gateway = await gatewayTo(server.url);
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      await answerTo(begin(gateway, '/x', { method, headers: { 'content-length': 4 } }), [
        Buffer.from('body'),
      ]);
    await answerTo(begin(gateway, '/x', { method: 'POST' }), [Buffer.from('chun'), Buffer.from('ked')]);
    await ask(gateway, '/jobs/a/kill', { method: 'POST', headers: { 'content-length': '0' } });
    expect(
      server.received.map(({ method, body, headers }) => [method, String(body), headers['content-length']]),
    ).toEqual([
      ...['POST', 'PUT', 'PATCH', 'DELETE'].map((method) => [method, 'body', '4']),
      ['POST', 'chunked', undefined],
      ['POST', '', '0'],
    ]);
  });

  test('A connection can carry several requests', async () => {
    await using server = await healthy();
    await using gateway = await gatewayTo(server.url);
    const agent = keepingAgent();
    const ports = new Set<number | undefined>();
    for (const path of ['/health', '/ram', '/repo_apps_list']) {
      const sent = begin(gateway, path, { agent });
      const response = await answerTo(sent);
      ports.add(sent.socket?.localPort);
      for await (const _ of response);
    }
    agent.destroy();
    expect([ports.size, server.received.length]).toEqual([1, 3]);
  });
});

describe('an answer', () => {
  test('An answer keeps its status, its headers and its length, even without a body', async () => {
    await using server = await ScriptedServer.start(({ url, method }, response) => {
      const status = Number(url.slice(1));
      response.writeHead(status, {
        'x-method': method,
        'set-cookie': ['a=1', 'b=2'],
        etag: '"e"',
        'content-length': status === 206 ? 2 : 5,
      });
      response.end(status === 206 ? 'lo' : 'hello');
    });
    await using gateway = await gatewayTo(server.url);
    for (const status of [200, 206, 404, 409, 500]) {
      const { status: got, headers, body } = await ask(gateway, `/${status}`);
      const content = status === 206 ? 'lo' : 'hello';
      expect([got, body, headers['content-length']]).toEqual([status, content, String(content.length)]);
      expect(headers).toMatchObject({ 'set-cookie': ['a=1', 'b=2'], etag: '"e"', 'x-method': 'GET' });
    }
    const head = await ask(gateway, '/200', { method: 'HEAD' });
    expect([head.status, head.headers['content-length'], head.body]).toEqual([200, '5', '']);
    expect((await ask(gateway, '/304')).status).toBe(304);
  });

  test('An answer is passed on without the headers of the connection to the server', async () => {
    await using server = await ScriptedServer.start((_, response) => {
      const hop = { connection: 'close, X-Hop', 'x-hop': '1', 'proxy-authenticate': 'Basic', trailer: 'x' };
      response.writeHead(200, { ...hop, 'x-own': '2', 'transfer-encoding': 'chunked' }).end('ok');
    });
    await using gateway = await gatewayTo(server.url);
    const { headers, body } = await ask(gateway, '/health');
    expect([headers['x-own'], body]).toEqual(['2', 'ok']);
    for (const name of ['x-hop', 'proxy-authenticate', 'trailer']) expect(headers).not.toHaveProperty(name);
  });

  test.each([
    [407, { 'proxy-authenticate': 'Basic realm="x"' }, /answered with HTTP 407|Invalid token/],
    [401, {}, /does not accept this token: run 'remote-app login --server/],
    [
      307,
      { location: 'https://elsewhere.example/' },
      /sends \/health on to 'https:\/\/elsewhere\.example\/'/,
    ],
  ])(
    'An answer with %i that concerns the gateway becomes a sentence with status 502',
    async (status, headers, sentence) => {
      await using server = await ScriptedServer.start((_, response) =>
        json(response, status, { detail: 'Invalid token' }, headers),
      );
      await using gateway = await gatewayTo(server.url);
      const { status: got, body } = await ask(gateway, '/health');
      expect([got, JSON.parse(body)]).toEqual([502, { detail: expect.stringMatching(sentence) }]);
      expect(gateway.told).toEqual([expect.stringMatching(sentence)]);
    },
  );
});

/** A submission as curl sends it: it waits for `100 Continue`, and sends its body then. */
async function submission(gateway: OpenGateway) {
  const raw = await RawConnection.open(gateway.url);
  const head = [
    'POST /apps/x/infer HTTP/1.1',
    `Host: 127.0.0.1:${gateway.port}`,
    `Authorization: Bearer ${gateway.secret}`,
    'Content-Length: 4',
    'Expect: 100-continue',
  ];
  raw.write(`${head.join('\r\n')}\r\n\r\n`);
  return raw;
}

describe('a client that waits for 100 Continue', () => {
  test('A client that waits for 100 Continue gets it when the server accepts its request', async () => {
    await using server = await healthy();
    await using gateway = await gatewayTo(server.url);
    await using raw = await submission(gateway);
    await raw.until(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    raw.write('body');
    await raw.until(/"ok"/);
    expect(String(server.received[0]?.body)).toBe('body');
  });

  test('A client that waits for 100 Continue learns that the server is unreachable before it sends', async () => {
    await using gateway = await gatewayTo(`http://127.0.0.1:${await freePort()}`);
    await using raw = await submission(gateway);
    await raw.until(/^HTTP\/1\.1 502 [\s\S]*nothing listens there/);
  });
});

describe('a server', () => {
  test('A gateway answers for an unreachable server, and uses it again once it is back', async () => {
    const port = await freePort();
    await using gateway = await gatewayTo(`http://127.0.0.1:${port}`);
    const detail = `http://127.0.0.1:${port} cannot be reached: nothing listens there`;
    for (let time = 0; time < 2; time += 1) {
      const { status, headers, body } = await ask(gateway, '/health');
      expect([status, headers['content-type'], JSON.parse(body)]).toEqual([
        502,
        'application/json',
        { detail },
      ]);
    }
    await using server = await healthy();
    server.server.close();
    await new Promise<void>((resolve) => server.server.listen(port, '127.0.0.1', resolve));
    expect((await ask(gateway, '/health')).status).toBe(200);
    expect(gateway.told).toEqual([detail, detail, null]);
  });

  test('A server that is unreachable behind a proxy is reported with a sentence instead of the page of the proxy', async () => {
    await using server = await ScriptedServer.start((_, response) => {
      response.writeHead(504, { 'content-type': 'text/html' }).end('<h1>504 Gateway Time-out</h1>');
    });
    await using gateway = await gatewayTo(server.url);
    const sentence = expect.stringMatching(/the server behind it does not \(HTTP 504\)/);
    const { status, body } = await ask(gateway, '/health');
    expect([status, JSON.parse(body), gateway.told]).toEqual([502, { detail: sentence }, [sentence]]);
  });

  test('A redirect without a target is forwarded', async () => {
    await using server = await ScriptedServer.start((_, response) => void response.writeHead(304).end());
    await using gateway = await gatewayTo(server.url);
    expect([(await ask(gateway, '/health')).status, gateway.told]).toEqual([304, [null]]);
  });

  test('The answer of a busy server is forwarded', async () => {
    const busy = { detail: 'Too many jobs' };
    await using server = await ScriptedServer.start((_, response) => json(response, 503, busy));
    await using gateway = await gatewayTo(server.url);
    const { status, body } = await ask(gateway, '/health');
    expect([status, JSON.parse(body), gateway.told]).toEqual([503, busy, [null]]);
  });

  test('A gateway answers with status 504 if its server is silent for too long', async () => {
    await using server = await ScriptedServer.start(() => {});
    await using gateway = await gatewayTo(server.url, { readTimeout: 0.1 });
    const { status, body } = await ask(gateway, '/health');
    expect([status, JSON.parse(body)]).toEqual([
      504,
      { detail: expect.stringContaining('silent for too long') },
    ]);
  });

  test.skipIf(lacks('openssl'))(
    'The certificate of a server with TLS is checked, and can be trusted explicitly',
    async () => {
      await using place = await temporary();
      const pair = await selfSigned(place.path, 'gpu', 'localhost');
      const server = createServer(pair, (request, response) => response.end(request.headers.authorization));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const url = `https://localhost:${(server.address() as AddressInfo).port}`;
      await using strict = await gatewayTo(url);
      expect(await ask(strict, '/')).toMatchObject({
        status: 502,
        body: expect.stringContaining('signed itself'),
      });
      await using trusting = await gatewayTo(url, { trust: await trustFile(pair.file) });
      expect(await ask(trusting, '/')).toMatchObject({ status: 200, body: `Bearer ${token}` });
      server.closeAllConnections();
      server.close();
    },
  );
});
