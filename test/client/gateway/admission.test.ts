import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Admission } from '../../../src/client/gateway/admission.js';
import { openGateway } from '../../../src/client/gateway/index.js';
import { RawConnection } from '../../support/raw-http.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { connectTo } from '../support/connect.js';
import { ask, gatewayTo, type OpenGateway, token } from './support.js';

let server: ScriptedServer;
let gateway: OpenGateway;
beforeAll(async () => {
  server = await ScriptedServer.start((_, response) => json(response, 200, { status: 'ok' }));
  gateway = await gatewayTo(server.url);
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

/** A refused request: its status and sentence. Nothing of it may have reached the server. */
async function refused(
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<[number | undefined, string]> {
  const before = server.received.length;
  const answer = await ask(gateway, path, { headers });
  // What is forwarded later is behind it.
  await ask(gateway, '/after');
  expect(server.received.slice(before).map(({ url }) => url)).toEqual(['/after']);
  expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  const body = JSON.parse(answer.body) as { detail: string };
  expect(Object.keys(body)).toEqual(['detail']);
  return [answer.status, body.detail];
}

describe('requests that a gateway refuses', () => {
  test.each(['https://evil.example', 'http://localhost', 'http://127.0.0.1:1', 'null', ''])(
    'A gateway refuses a web page from %j, even with the secret',
    async (origin) => {
      expect(await refused('/health', { origin })).toEqual([
        403,
        expect.stringContaining('answers no web page'),
      ]);
    },
  );

  test('A gateway refuses the preflight request of a page from another site', async () => {
    const preflight = {
      headers: { origin: 'https://evil.example', 'access-control-request-headers': 'authorization' },
      method: 'OPTIONS',
    };
    const { status, headers } = await ask(gateway, '/health', preflight);
    expect([status, headers['access-control-allow-origin']]).toEqual([403, undefined]);
  });

  test('A gateway refuses other host names that a site could point to this machine', async () => {
    for (const host of [
      'evil.example',
      `evil.example:${gateway.port}`,
      '127.0.0.1',
      'localhost:1',
      '127.0.0.2',
    ])
      expect(await refused('/health', { host })).toEqual([
        403,
        expect.stringMatching(/^This gateway answers no request for '.*'; use http:\/\/127\.0\.0\.1:\d+$/),
      ]);
  });

  test('A gateway refuses requests without a secret, with a wrong one, or with the token of the server', async () => {
    const needs =
      "This gateway needs a bearer token: the one that 'remote-app forward' printed when it started";
    expect(await refused('/health', { authorization: '' })).toEqual([401, needs]);
    expect(await refused('/health', { authorization: `Basic ${gateway.secret}` })).toEqual([401, needs]);
    const wrong =
      "This is not the token of this gateway: use the one that 'remote-app forward' printed when it started";
    for (const other of [token, `${gateway.secret}x`, gateway.secret.slice(1), 'x'])
      expect(await refused('/health', { authorization: `Bearer ${other}` })).toEqual([401, wrong]);
    const { headers } = await ask(gateway, '/health', { headers: { authorization: 'Bearer x' } });
    expect(headers['www-authenticate']).toBe('Bearer');
  });

  test.each([
    '/../other',
    '/jobs/%2e%2e/%2e%2e/other',
    '/apps/..%2F..%2Fother',
    '/x\\..\\y',
    '/x%5C..%5cy',
    '/%2E%2e/other',
    '*',
    'http://h/x',
  ])('A gateway refuses the path %s, which would lead the token elsewhere', async (path) => {
    expect(await refused(path, {})).toEqual([400, expect.stringContaining('forwards no request for')]);
  });

  test('A gateway refuses a request without a host name', async () => {
    const before = server.received.length;
    await using raw = await RawConnection.open(gateway.url);
    raw.write(`GET /health HTTP/1.0\r\nAuthorization: Bearer ${gateway.secret}\r\n\r\n`);
    await raw.until(/^HTTP\/1\.1 403 [\s\S]*This gateway answers no request for ''/);
    expect(server.received.length).toBe(before);
  });

  test('A gateway refuses to act as a proxy, or to speak another protocol', async () => {
    const before = server.received.length;
    await using raw = await RawConnection.open(gateway.url);
    raw.write(`CONNECT example.org:443 HTTP/1.1\r\nHost: 127.0.0.1:${gateway.port}\r\n\r\n`);
    await once(raw.socket, 'close');
    expect([raw.received, server.received.length]).toEqual(['', before]);
    const upgrade = { connection: 'Upgrade', upgrade: 'websocket' };
    expect((await ask(gateway, '/health', { headers: upgrade })).status).toBe(200);
    expect(server.received.at(-1)?.headers).not.toHaveProperty('upgrade');
  });
});

describe('requests that a gateway accepts', () => {
  test.each(['127.0.0.1', 'localhost', 'LOCALHOST', '[::1]'])(
    'A gateway accepts the name %s',
    async (name) => {
      const own = `${name}:${gateway.port}`;
      const headers = { host: own, origin: `http://${own.toLowerCase()}` };
      expect((await ask(gateway, '/health', { headers })).status).toBe(200);
    },
  );

  test('A gateway accepts a token whose scheme is spelled differently', async () => {
    const headers = { authorization: `bearer  ${gateway.secret}` };
    expect((await ask(gateway, '/health', { headers })).status).toBe(200);
  });
});

test('A gateway on the default port accepts host names without a port', () => {
  const admission = new Admission('s');
  const admits = (localPort: number, host: string, origin?: string) => {
    const headers = { authorization: 'Bearer s', ...(origin !== undefined && { origin }) };
    admission.check({
      headers,
      headersDistinct: { host: [host] },
      url: '/a..b/x?y=/../',
      socket: { localPort },
    } as never);
    return true;
  };
  for (const name of ['127.0.0.1', 'LocalHost', '[::1]', '127.0.0.1:80']) expect(admits(80, name)).toBe(true);
  expect(admits(80, 'localhost', 'http://localhost')).toBe(true);
  expect(() => admits(80, 'localhost', 'https://localhost')).toThrow(
    "This gateway answers no web page ('https://localhost')",
  );
  expect(() => admits(81, 'localhost')).toThrow(
    "This gateway answers no request for 'localhost'; use http://127.0.0.1:81",
  );
  expect(() => admits(80, 'gpu')).toThrow(
    "This gateway answers no request for 'gpu'; use http://127.0.0.1:80",
  );
});

test('Each gateway has its own secret, and cannot be reached once it is closed', async () => {
  await using other = await gatewayTo(server.url);
  expect([other.host, other.secret === gateway.secret]).toEqual(['127.0.0.1', false]);
  expect(other.secret).toMatch(/^[\w-]{43}$/);
  expect((await ask(other, '/health', { headers: gateway.authorization })).status).toBe(401);
  await other.close();
  expect(await listens('127.0.0.1', other.port)).toBe(false);
});

/** Whether something listens there. */
async function listens(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  const isMade = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isMade;
}

const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
const hasIpv6 = addresses.some(({ address }) => address === '::1');

describe('the addresses of a gateway', () => {
  test('A gateway listens on no address that other machines reach, and on no other of this one', async () => {
    const others = addresses.filter(({ internal, scopeid }) => !internal && !scopeid);
    for (const address of ['127.0.0.2', ...others.map((each) => each.address)])
      expect([address, await listens(address, gateway.port)]).toEqual([address, false]);
    expect(await listens('127.0.0.1', gateway.port)).toBe(true);
  });

  test.skipIf(!hasIpv6)('A gateway listens on ::1 as well, with the same secret', async () => {
    expect((await ask(gateway, '/health', { host: '::1' })).status).toBe(200);
    expect((await ask(gateway, '/health', { host: '::1', headers: { authorization: 'x' } })).status).toBe(
      401,
    );
  });

  test.skipIf(!hasIpv6).each(['127.0.0.1', '::1'])(
    'A gateway does not use a port that another program has on %s, since that program would receive the secret',
    async (host) => {
      const other = createServer();
      await once(other.listen(0, host), 'listening');
      const { port } = other.address() as { port: number };
      await using connection = connectTo(server.url);
      await expect(openGateway(connection, port, () => {})).rejects.toThrow(
        `Port ${port} of this machine cannot be used: another program listens there; give another port with --port`,
      );
      const free = host === '::1' ? '127.0.0.1' : '::1';
      expect(await listens(free, port)).toBe(false);
      other.close();
    },
  );
});
