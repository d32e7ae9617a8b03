import { describe, expect, test } from 'vitest';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, type TestServer } from '../../support/server.js';

/** The status for a request with these headers, and the sentence. */
async function ask(
  server: TestServer,
  headers: readonly string[],
  requestLine = 'GET /jobs HTTP/1.1',
): Promise<[status: number, detail: string]> {
  await using connection = await RawConnection.open(server.url);
  connection.write([requestLine, ...headers, '', ''].join('\r\n'));
  const { status, body } = await connection.answer();
  const detail = body === '' ? '' : (JSON.parse(body) as { detail?: string }).detail;
  return [status, detail ?? ''];
}

const refused = [403, expect.stringContaining('give the server a token')];

describe('a server without a token on a loopback address', () => {
  const server = sharedServer();
  const port = () => new URL(server.url).port;

  test.for([
    'localhost',
    'localhost:1',
    'LOCALHOST',
    'app.localhost:8000',
    '127.0.0.1',
    '127.1.2.3:99',
    '[::1]:8000',
    '[::1]',
  ])(
    'A server without a token on a loopback address answers requests addressed to this machine: %s',
    async (host) => {
      expect((await ask(server, [`Host: ${host}`]))[0]).toBe(200);
    },
  );

  test.for([
    'evil.example',
    'evil.example:8000',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    'notlocalhost',
    '10.0.0.1',
    '[fe80::1]',
    '0.0.0.0',
    'evil.example@localhost',
    '127.0.0.1/evil.example',
    '2130706433.evil.example',
    '',
  ])('A server without a token refuses requests addressed to another host: %o', async (host) => {
    expect(await ask(server, [`Host: ${host}`])).toEqual(refused);
  });

  test.for(['http://evil.example', 'https://localhost:1', 'null', 'http://localhost:1', 'file://', 'x'])(
    'A server without a token on a loopback address refuses the pages of other sites: %s',
    async (origin) => {
      expect(await ask(server, ['Host: localhost', `Origin: ${origin}`])).toEqual(refused);
    },
  );

  test.for(['cross-site', 'same-site', 'Cross-Site', 'whatever'])(
    'A server without a token on a loopback address refuses requests that a browser marks as coming from another site: %s',
    async (site) => {
      expect(await ask(server, ['Host: localhost', `Sec-Fetch-Site: ${site}`])).toEqual(refused);
    },
  );

  test.for<[string, string[], string | undefined]>([
    ['no host at all', [], 'GET /jobs HTTP/1.0'],
    ['two hosts', ['Host: localhost', 'Host: evil.example'], undefined],
    [
      'two origins',
      ['Host: localhost', 'Origin: http://localhost', 'Origin: http://evil.example'],
      undefined,
    ],
    ['a target of another host', ['Host: localhost'], 'GET http://evil.example/jobs HTTP/1.1'],
    ['a target of another host in capitals', ['Host: localhost'], 'GET HTTP://EVIL.EXAMPLE/jobs HTTP/1.1'],
  ])('A server without a token on a loopback address refuses a request for %s', async ([, headers, line]) => {
    expect(await ask(server, headers, line)).toEqual(refused);
  });

  test('A server without a token on a loopback address answers its own pages, addresses typed by hand, and clients other than browsers', async () => {
    const host = `127.0.0.1:${port()}`;
    const own = [`Host: ${host}`, `Origin: http://${host}`, 'Sec-Fetch-Site: same-origin'];
    expect((await ask(server, own))[0]).toBe(200);
    expect((await ask(server, [`Host: ${host}`, 'Sec-Fetch-Site: none']))[0]).toBe(200);
    expect((await server.api.fetch('/jobs')).status).toBe(200);
  });

  test.for([
    'OPTIONS /jobs HTTP/1.1',
    'POST /apps/probe/infer HTTP/1.1',
    'POST /apps/nobody/infer HTTP/1.1',
    'POST /jobs/0123456789ab/kill HTTP/1.1',
    'GET /nothing HTTP/1.1',
    'DELETE /health HTTP/1.1',
  ])(
    'A server without a token on a loopback address checks the origin before anything else: %s',
    async (line) => {
      const headers = ['Host: localhost', 'Origin: http://evil.example', 'Content-Length: 0'];
      expect(await ask(server, headers, line)).toEqual(refused);
    },
  );
});

describe('a server without a token on every address', () => {
  const server = sharedServer({ flags: ['--host', '0.0.0.0'] });

  test('A server without a token on every address accepts any host name, and still refuses the pages of other sites', async () => {
    expect((await ask(server, ['Host: gpu.lab.example']))[0]).toBe(200);
    const page = ['Host: gpu.lab.example', 'Origin: http://evil.example'];
    expect(await ask(server, page)).toEqual(refused);
    expect((await ask(server, ['Host: lab:80', 'Origin: http://lab']))[0]).toBe(200);
  });
});

describe('a server with a token', () => {
  const server = sharedServer({ token: 'secret' });

  test('A server with a token accepts requests of other sites, because a page has no token', async () => {
    const headers = ['Host: gpu.lab.example', 'Origin: http://page.example', 'Authorization: Bearer secret'];
    expect((await ask(server, headers))[0]).toBe(200);
    expect((await ask(server, headers.slice(0, 2)))[0]).toBe(401);
  });
});
