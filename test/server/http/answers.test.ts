import { Agent, get, type IncomingMessage } from 'node:http';
import { constants } from 'node:os';
import { text } from 'node:stream/consumers';
import Koa from 'koa';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { errorKinds, ServiceError } from '../../../src/contract/index.js';
import { ServerEvents } from '../../../src/server/events.js';
import { fromClient, proxyList } from '../../../src/server/http/client-address.js';
import { endResponse, handleErrors, sendError } from '../../../src/server/http/errors.js';
import { httpServer } from '../../../src/server/http/http-server.js';
import { listen } from '../../../src/server/http/http-service.js';
import { UploadsMissing } from '../../../src/server/uploads-missing.js';
import { RawConnection } from '../../support/raw-http.js';
import { until } from '../../support/until.mjs';

const reports: string[] = [];
const refusals: object[] = [];
/** What the next request meets. */
let meet: (ctx: Koa.Context) => unknown = () => {};

const events = new ServerEvents(expect.fail);
events.on('refused', (refusal) => refusals.push(refusal));
const app = new Koa();
app.silent = true;
app.use(fromClient(proxyList(['127.0.0.1']), 'right'));
app.use(handleErrors((problem, cause) => reports.push(`${problem}: ${cause}`), events));
app.use((ctx) => meet(ctx));
const server = httpServer(app.callback());
let url = '';
beforeAll(async () => {
  url = await listen(server, '127.0.0.1', 0);
});
afterAll(() => void server.close());

/** The answer to a request, and what was told of it. */
async function answered(target: string, method = 'GET') {
  reports.length = 0;
  refusals.length = 0;
  await using connection = await RawConnection.open(url);
  connection.write(
    `${method} ${target} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.9\r\nX-Proxy-Secret: right\r\nConnection: close\r\n\r\n`,
  );
  const { status, head, body } = await connection.answer();
  const header = (name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1];
  return {
    status,
    body: JSON.parse(body),
    type: header('content-type'),
    retry: header('retry-after'),
    header,
  };
}

const systemError = (code: keyof typeof constants.errno) =>
  Object.assign(new Error(`${code}: secret`), { code, errno: -constants.errno[code] });

test.for([
  ['ENOSPC', 'diskFull', "The server's disk is full; try again later"],
  ['EDQUOT', 'diskFull', "The server's disk is full; try again later"],
  [
    'EFBIG',
    'unwritable',
    "The server may not write files of this size: its admin must raise its limit of a file's size (ulimit -f)",
  ],
  ['EMFILE', 'shortage', 'The server has too many files open at the moment; try again soon'],
  ['EIO', 'internal', 'Internal server error'],
] as const)(
  'A request that fails with %s is answered with advice, and logged',
  async ([code, kind, detail]) => {
    meet = () => {
      throw systemError(code);
    };
    const { status, retryAfter } = errorKinds[kind] as { status: number; retryAfter?: number };
    expect(await answered('/a/b?secret=1')).toMatchObject({
      status,
      body: { detail },
      type: 'application/json; charset=utf-8',
      retry: retryAfter?.toString(),
    });
    expect(reports).toEqual([`GET /a/b failed: Error: ${code}: secret`]);
    const about = { method: 'GET', from: '203.0.113.9', owner: null, role: null, route: null };
    expect(refusals).toEqual([{ ...about, path: '/a/b', status, error: kind, detail }]);
  },
);

test('A refusal has its own message and headers, reports who made the request, and does not count as a fault', async () => {
  meet = (ctx) => {
    ctx.state.principal = { name: 'ana', role: 'user' };
    Object.assign(ctx, { _matchedRouteName: 'result' });
    throw new ServiceError('missingToken', 'Missing bearer token');
  };
  const { status, body, header } = await answered('/jobs', 'POST');
  expect([status, body, header('www-authenticate')]).toEqual([
    401,
    { detail: 'Missing bearer token' },
    'Bearer',
  ]);
  expect(refusals).toMatchObject([{ method: 'POST', owner: 'ana', role: 'user', route: 'result' }]);
  expect(reports).toEqual([]);
  meet = () => {
    throw new UploadsMissing([{ sha256: 'a'.repeat(64), offset: 3 }] as never);
  };
  const missing = await answered('/jobs');
  expect([missing.status, missing.body.uploads, missing.header('www-authenticate')]).toEqual([
    409,
    [{ sha256: 'a'.repeat(64), offset: 3 }],
    undefined,
  ]);
});

test('An answer that a route sends itself with such a status is left unchanged', async () => {
  for (const status of [404, 405, 501]) {
    meet = (ctx) => {
      ctx.status = status;
      ctx.body = { own: true };
    };
    expect(await answered('/jobs')).toMatchObject({ status, body: { own: true } });
  }
  expect(refusals).toEqual([]);
});

test.for<[string, (ctx: Koa.Context, error: ServiceError) => void, string]>([
  ['that ends its connection', ({ res }, error) => endResponse(res, error), 'close'],
  ['that does not', ({ res }, error) => sendError(res, error, { ETag: undefined }), 'keep-alive'],
])('An error %s has no headers of the answer that was begun', async ([, send, kept]) => {
  meet = (ctx) => {
    ctx.respond = false;
    ctx.res.setHeader('Content-Disposition', 'attachment');
    send(ctx, new ServiceError('busy', 'Server busy'));
  };
  const agent = new Agent({ keepAlive: true });
  const response = await new Promise<IncomingMessage>((resolve) => get(url, { agent }, resolve));
  const { statusCode, headers } = response;
  const body = await text(response);
  agent.destroy();
  expect([statusCode, body, headers.connection]).toEqual([429, '{"detail":"Server busy"}', kept]);
  expect(headers['content-disposition']).toBeUndefined();
  expect(headers['content-type']).toBe('application/json; charset=utf-8');
});

test.for([
  ['ERR_HTTP_REQUEST_TIMEOUT', undefined, 408, 'The request did not arrive in time; send it again'],
  ['HPE_INVALID_TOKEN', undefined, 400, 'The request is not valid HTTP'],
  ['HPE_INVALID_TOKEN', 'odd\nreason', 400, 'The request is not valid HTTP: odd\\x0areason'],
] as const)('An unreadable request (%s, %j) gets one answer', async ([code, reason, status, detail]) => {
  server.once('connection', (socket) => {
    for (let count = 0; count < 2; count += 1)
      server.emit('clientError', Object.assign(new Error('no HTTP'), { code, reason }), socket);
  });
  await using connection = await RawConnection.open(url);
  const { status: told, body } = await connection.answer();
  expect([told, JSON.parse(body)]).toEqual([status, { detail }]);
  await until('the connection is closed', () => connection.isClosed);
  expect(connection.received.match(/HTTP\/1\.1/g)).toHaveLength(1);
});

test('A request without a host is accepted as HTTP/1.0', async () => {
  meet = (ctx) => {
    ctx.body = { asked: ctx.path };
  };
  await using connection = await RawConnection.open(url);
  connection.write('GET /x HTTP/1.0\r\n\r\n');
  expect(await connection.answer()).toMatchObject({ status: 200, body: '{"asked":"/x"}' });
});

test('The error for a port in use names the port', async () => {
  const port = Number(new URL(url).port);
  const server = httpServer(() => {});
  await expect(listen(server, '127.0.0.1', port)).rejects.toThrow(
    new RegExp(`^Cannot listen on 127\\.0\\.0\\.1, port ${port}: .*EADDRINUSE`),
  );
});

test.for([
  [['a'], 'a; send it, and submit again'],
  [['a', 'b'], 'a, b; send them, and submit again'],
  [['a', 'b', 'c'], 'a, b, c; send them, and submit again'],
  [['a', 'b', 'c', 'd', 'e'], 'a, b, c and 2 more; send them, and submit again'],
] as const)('Missing uploads are named, with at most three in the message: %j', ([uploads, end]) => {
  const { code, detail, uploads: all } = new UploadsMissing(uploads);
  expect({ code, detail, all }).toEqual({
    code: 'uploadsMissing',
    detail: `The server does not have what the submission names: ${end}`,
    all: uploads,
  });
});
