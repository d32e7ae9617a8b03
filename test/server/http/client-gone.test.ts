import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FieldError, parameters } from '../../../src/contract/index.js';
import { goneSignal, whenGone } from '../../../src/server/http/client-gone.js';
import { listen } from '../../../src/server/http/http-service.js';
import { isAskedFor } from '../../../src/server/http/parameters.js';
import { RawConnection } from '../../support/raw-http.js';

type Exchange = { readonly req: IncomingMessage; readonly res: ServerResponse };

const exchanges: Exchange[] = [];
const server = createServer((req, res) => void exchanges.push({ req, res }));
let url = '';
beforeAll(async () => {
  url = await listen(server, '127.0.0.1', 0);
});
afterAll(() => void server.close());

const request = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

/** Resolves when a connection is closed, also by an error. */
const closed = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve));

/** The exchanges of these requests on one connection. */
async function begun(connection: RawConnection, count = 1): Promise<Exchange[]> {
  exchanges.length = 0;
  connection.write(request.repeat(count));
  while (exchanges.length < count) await once(server, 'request');
  return [...exchanges];
}

test('A callback for the end of an answer is called once when the answer is sent', async () => {
  await using connection = await RawConnection.open(url);
  const [first] = (await begun(connection)) as [Exchange];
  let calls = 0;
  whenGone(first, () => {
    calls += 1;
  });
  const signal = goneSignal(first);
  const ended = once(first.res, 'close');
  expect([calls, signal.aborted]).toEqual([0, false]);
  first.res.end('x');
  await ended;
  expect([calls, signal.aborted]).toEqual([1, true]);
  // The next one on the connection is another.
  const [next] = (await begun(connection)) as [Exchange];
  const other = goneSignal(next);
  let others = 0;
  whenGone(next, () => {
    others += 1;
  });
  expect([calls, other.aborted]).toEqual([1, false]);
  const gone = closed(next.req.socket);
  connection.socket.destroy();
  await gone;
  expect([calls, others, other.aborted]).toEqual([1, 1, true]);
  // Whoever comes late is called at once.
  expect(goneSignal(next).aborted).toBe(true);
});

test('Answers that wait for an earlier one end with the connection, however many there are', async () => {
  await using connection = await RawConnection.open(url);
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  try {
    const both = await begun(connection, 2);
    const signals = both.flatMap((each) => Array.from({ length: 12 }, () => goneSignal(each)));
    const socket = both[0]?.req.socket;
    if (!socket) throw new Error('There is no connection');
    const gone = closed(socket);
    connection.socket.resetAndDestroy();
    await gone;
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
  } finally {
    process.off('warning', note);
  }
});

test.each<[unknown, boolean | 'refused']>([
  [undefined, false],
  ['', false],
  ['1', true],
  ['true', true],
  ['0', false],
  ['false', false],
  ['maybe', 'refused'],
  [['1', '1'], 'refused'],
])('?all=%j is %s', (value, expected) => {
  const ask = () => isAskedFor({ query: { all: value } } as never, parameters.all);
  if (expected === 'refused') expect(ask).toThrow(FieldError);
  else expect(ask()).toBe(expected);
});
