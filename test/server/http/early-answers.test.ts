import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PatientResponse } from '../../../src/server/http/http-server.js';
import { least, steps } from '../../support/form.js';
import { fieldPart, filePart, multipart, type RawPart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({
  token: 'right',
  flags: ['--max-jobs', '1', '--max-file-size', '1MiB', '--max-upload-size', '40MiB'],
});
const { api } = server;

/** More than the buffers of a connection take, and more than a server reads in the moment in which it closes one. */
const contents = Buffer.alloc(40 << 20);

/** Sends all of this before it reads anything, as nginx may, and returns the status of the answer. */
async function sendThenRead(url: string, pieces: readonly Uint8Array[]): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  try {
    await once(socket, 'connect');
    await new Promise<void>((resolve, reject) => {
      socket.on('error', reject);
      for (const piece of pieces) socket.write(piece);
      socket.write('', () => resolve());
    });
    return /^HTTP\/1\.1 (\d+)/.exec(await text(socket))?.[1] ?? '';
  } finally {
    socket.destroy();
  }
}

interface LargeUpload {
  readonly token?: string;
  readonly app?: string;
  readonly headers?: readonly string[];
  readonly fields?: readonly RawPart[];
  /** How often its file has the contents. */
  readonly times?: number;
}

describe('a client that sends a whole large upload before it reads the answer', () => {
  function answerTo({ token = 'right', app = 'probe', headers = [], fields = [], times = 1 }: LargeUpload) {
    const begin = multipart([...fields, filePart('inputs', 'ct.nii')], { close: '' });
    const length = `Content-Length: ${begin.length + times * contents.length}`;
    // nginx wants a connection for each request.
    const all = [`Authorization: Bearer ${token}`, 'Connection: close', length, ...headers];
    const head = submissionHead(`/apps/${app}/infer`, ...all);
    return sendThenRead(server.url, [head, begin, ...Array<Buffer>(times).fill(contents)]);
  }

  test.for<[string, string, LargeUpload]>([
    ['401', 'the token is wrong', { token: 'wrong' }],
    ['404', 'there is no such app', { app: 'nobody' }],
    ['413', 'it is too long', { times: 2 }],
    ['413', 'its file is too large', {}],
    ['422', 'a field before its file is wrong', { fields: [fieldPart('tta', 'x')] }],
  ])('A client that sends a whole large upload before it reads gets %s if %s', async ([status, , upload]) => {
    expect(await answerTo(upload)).toBe(status);
  });

  test('A client that sends a whole large upload before it reads gets 200 if its job already exists', async () => {
    const key = 'once';
    await api.run('infer', least.infer, { headers: { 'Idempotency-Key': key } });
    expect(await answerTo({ headers: [`Idempotency-Key: ${key}`] })).toBe('200');
  });

  test('A client that sends a whole large upload before it reads gets 429 if the server is busy', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    expect(await answerTo({})).toBe('429');
    gate.open();
    await api.ended(id);
  });

  test('A client that sends a whole large upload before it reads gets 503 if the server is drained', async () => {
    await api.fetch('/drain', { method: 'POST' });
    expect(await answerTo({})).toBe('503');
    await api.fetch('/drain', { method: 'DELETE' });
  });
});

test('A client that reads before it sends gets the whole answer at once, and then the end of the connection', async () => {
  await using connection = await RawConnection.open(server.url);
  const length = `Content-Length: ${contents.length}`;
  connection.write(submissionHead('/apps/probe/infer', 'Connection: close', length));
  await until('the connection is closed', () => connection.isClosed);
  expect(connection.received).toMatch(/^HTTP\/1\.1 401 [\s\S]*\{"detail":"Missing bearer token"\}$/);
});

test.for([
  ['is the last one of its connection', 200, 'close'],
  ['is a refusal', 400, 'keep-alive'],
] as const)('A request without an end is cut soon after an answer that %s', async ([, status, header]) => {
  class Hasty extends PatientResponse {
    static override readonly maxRest = 300;
  }
  const server = createServer({ ServerResponse: Hasty }, (_request, response) => {
    response.writeHead(status, { 'Content-Length': 2 }).end('no');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  await using connection = await RawConnection.open(`http://127.0.0.1:${port}`, { allowHalfOpen: true });
  connection.write(submissionHead('/', `Connection: ${header}`, `Content-Length: ${2 ** 40}`));
  await connection.answer();
  const answered = performance.now();
  await until('the connection is closed', () => {
    connection.write('more of it');
    return connection.isClosed;
  });
  expect(performance.now() - answered).toBeGreaterThan(200);
});
