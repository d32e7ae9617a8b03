import { expect, test } from 'vitest';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer();
const host = 'Host: localhost\r\n';
/** What follows is said by Node. */
const invalid = expect.stringMatching(/^The request is not valid HTTP: \w+/);

test.for<[string, number, string, string]>([
  ['that is no HTTP', 400, invalid, 'nothing like it\r\n\r\n'],
  ['with a folded header', 400, invalid, `GET /health HTTP/1.1\r\n${host}A: b\r\n c\r\n\r\n`],
  [
    'with two lengths',
    400,
    invalid,
    `POST /x HTTP/1.1\r\n${host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`,
  ],
  [
    'with long headers',
    431,
    'The headers of the request are too long; send fewer',
    `GET /health HTTP/1.1\r\n${host}A: ${'a'.repeat(20_000)}\r\n\r\n`,
  ],
  [
    'with long chunk extensions',
    413,
    'The chunk extensions of the request are too long; send none',
    `POST /x HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(20_000)}\r\n`,
  ],
])('A request %s is answered with %i and a detail', async ([, status, detail, request]) => {
  await using connection = await RawConnection.open(server.url);
  connection.write(request);
  const answer = await connection.answer();
  expect([answer.status, JSON.parse(answer.body)]).toEqual([status, { detail }]);
  expect(answer.head).toMatch(/content-type: application\/json/i);
  await until('the connection is closed', () => connection.isClosed);
  expect(await server.api.json('/health')).toEqual({ status: 'ok' });
});

test.for([
  ['without a host', 'HTTP/1.1 400 ', 'GET /health HTTP/1.1\r\n\r\n'],
  [
    'with an unknown expectation',
    'HTTP/1.1 417 ',
    `GET /health HTTP/1.1\r\n${host}Expect: tea\r\nConnection: close\r\n\r\n`,
  ],
  ['of a proxy', '', `CONNECT localhost:1 HTTP/1.1\r\n${host}\r\n`],
] as const)('A request %s, which Node refuses, reaches no route', async ([, status, request]) => {
  await using connection = await RawConnection.open(server.url);
  connection.write(request);
  await until('the connection is closed', () => connection.isClosed);
  expect(connection.received.slice(0, 13)).toBe(status);
  expect(await server.api.json('/health')).toEqual({ status: 'ok' });
});

test('Data that cannot be read after a complete request is answered after that request', async () => {
  await using connection = await RawConnection.open(server.url);
  connection.write(`GET /health HTTP/1.1\r\n${host}\r\nnothing like it\r\n\r\nmore of it\r\n\r\n`);
  await until('the connection is closed', () => connection.isClosed);
  expect(connection.received.match(/HTTP\/1\.1 \d+|"status":"ok"|"detail"/g)).toEqual([
    'HTTP/1.1 200',
    '"status":"ok"',
    'HTTP/1.1 400',
    '"detail"',
  ]);
});
