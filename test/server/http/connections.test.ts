import { describe, expect, test } from 'vitest';
import { connectionsFor } from '../../../src/server/http/http-server.js';
import { least, steps } from '../../support/form.js';
import { filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { TestTokens } from '../../support/tokens.js';
import { sha256, Tus } from '../../support/tus.js';
import { until } from '../../support/until.mjs';

describe('with 200 descriptors', () => {
  const descriptors = 200;
  const server = sharedServer({ descriptors });
  const { api } = server;

  test('With 200 descriptors, silent clients do not keep others out', async () => {
    const silent: RawConnection[] = [];
    try {
      for (let count = 0; count < 300; count += 1) {
        silent.push(await RawConnection.open(server.url));
        silent.at(-1)?.write(['', 'G', 'GET /health HTTP/1.1\r\nHost: localhost\r\n'][count % 3] ?? '');
      }
      for (let count = 0; count < 5; count += 1) {
        expect(await api.json('/health')).toEqual({ status: 'ok' });
      }
      const { log, view } = await api.run('infer', { ...least.infer, ...steps('print=hello') });
      expect([view.status, view.error]).toEqual(['done', null]);
      expect(log).toContain('data: hello\n\n');
      expect((await api.result(view.job_id)).has('probe.json')).toBe(true);
      // The oldest were closed, the newest are still open.
      await until('the oldest are dropped', () => silent[0]?.isClosed === true);
      expect(silent.filter(({ isClosed }) => !isClosed).length).toBeLessThanOrEqual(
        connectionsFor(descriptors),
      );
      expect(server.stderr).not.toContain('EMFILE');
    } finally {
      for (const each of silent) await each.destroy();
    }
  });

  test('With 200 descriptors, clients that keep sending a refused request do not keep others out', async () => {
    const refused: RawConnection[] = [];
    try {
      const head = submissionHead('/apps/nobody/infer', 'Connection: close', `Content-Length: ${2 ** 40}`);
      for (let count = 0; count <= connectionsFor(descriptors); count += 1) {
        const connection = await RawConnection.open(server.url, { allowHalfOpen: true });
        refused.push(connection);
        connection.write(head);
        expect((await connection.answer()).status).toBe(404);
        connection.write('some of it');
      }
      expect(await api.json('/health')).toEqual({ status: 'ok' });
      expect(refused.at(-1)?.isClosed).toBe(false);
    } finally {
      for (const each of refused) await each.destroy();
    }
  });

  test('A connection with a request is not closed; if all have one, a new client gets 503', async () => {
    const part = multipart([filePart('inputs', 'a.nii')]);
    const uploads: RawConnection[] = [];
    const before = server.jobDirectories().length;
    try {
      const head = submissionHead('/apps/probe/infer', `Content-Length: ${part.length}`);
      for (let count = 0; count < connectionsFor(descriptors); count += 1) {
        const upload = await RawConnection.open(server.url);
        uploads.push(upload);
        upload.write(head);
        upload.write(part.subarray(0, 50));
      }
      await until(
        'all of them are under way',
        () => server.jobDirectories().length >= before + uploads.length,
      );
      await using late = await RawConnection.open(server.url);
      await until('it is told', () => late.received.includes('503 Service Unavailable') || late.isClosed);
      expect(late.received).toMatch(
        /^HTTP\/1\.1 503 [\s\S]*Retry-After: \d+[\s\S]*\{"detail":"Server busy: [^"]+"\}$/,
      );
      expect(uploads.every(({ isClosed }) => !isClosed)).toBe(true);
      uploads[0]?.write(part.subarray(50));
      expect((await uploads[0]?.answer())?.status).toBe(200);
      // Its connection is idle now, so it is closed for the next client.
      expect(await api.json('/health')).toEqual({ status: 'ok' });
    } finally {
      for (const each of uploads) await each.destroy();
    }
    await until('the uploads are gone', async () => {
      const { jobs } = await api.json<{ jobs: unknown[] }>('/jobs');
      return server.jobDirectories().length === jobs.length;
    });
  });
});

test('A user has half of the connections at most, so that slow bodies do not keep others out', async () => {
  await using tokens = new TestTokens();
  for (const name of ['ana', 'bob']) tokens.create(name);
  await using server = await TestServer.start({ descriptors: 200, flags: ['--tokens', tokens.file] });
  const tus = new Tus(tokens.api(server, 'ana'));
  const slow: RawConnection[] = [];
  const half = connectionsFor(200) / 2;
  try {
    for (let count = 0; count < half; count += 1) {
      const content = `${count} of ana`;
      await tus.begin(content);
      const connection = await RawConnection.open(server.url);
      slow.push(connection);
      const headers = {
        Host: 'localhost',
        Authorization: `Bearer ${tokens.of('ana')}`,
        'Tus-Resumable': '1.0.0',
        'Upload-Offset': '0',
        'Content-Type': 'application/offset+octet-stream',
        'Content-Length': String(content.length),
        Expect: '100-continue',
      };
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      connection.write(`PATCH /uploads/${sha256(content)} HTTP/1.1\r\n${lines.join('')}\r\n`);
      await connection.until(/100 Continue/);
      connection.write(content.slice(0, 1));
    }
    const more = await tokens.api(server, 'ana').fetch('/health');
    expect([more.status, await more.json()]).toEqual([
      503,
      { detail: `Server busy: token 'ana' already has ${half} requests in progress; try again soon` },
    ]);
    expect((await tokens.api(server, 'bob').fetch('/health')).status).toBe(200);
    slow[0]?.write('0 of ana'.slice(1));
    await slow[0]?.until(/204 No Content/);
    expect((await tokens.api(server, 'ana').fetch('/health')).status).toBe(200);
  } finally {
    for (const each of slow) await each.destroy();
  }
});

describe('with a thousand descriptors', () => {
  const server = sharedServer({ descriptors: 1024 });

  test('An upload of more files than descriptors is accepted', async () => {
    const parts = Array.from({ length: 1500 }, (_, index) => filePart('inputs', `${index}.nii`, 'tiny'));
    const large = filePart('inputs', 'large.nii', Buffer.alloc(3 << 20, 7));
    const response = await server.api.fetch('/apps/probe/infer', {
      method: 'POST',
      headers: { 'Content-Type': 'multipart/form-data; boundary=remote-app-test-boundary' },
      body: multipart([...parts, large]),
    });
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  });
});

test.for([
  [100, 25],
  [1024, 448],
  [20_000, 9936],
  [2, 1],
  [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
])('With %d descriptors there are %d connections', ([descriptors = 0, connections]) => {
  expect(connectionsFor(descriptors)).toBe(connections);
});

describe('requests of one connection', () => {
  const server = sharedServer();
  const { api } = server;

  test('A connection has at most four requests at once: one with more is closed', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    const get = (where: string) => `GET ${where} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
    // The others wait behind it.
    const stream = get(`/jobs/${id}/logs`);
    await using tooFull = await RawConnection.open(server.url);
    tooFull.write(stream + get('/health').repeat(4));
    await until('the one with five is closed', () => tooFull.isClosed);
    await using full = await RawConnection.open(server.url);
    full.write(stream + get('/health').repeat(3));
    await full.until(/probe infer/);
    gate.open();
    await until('all four are answered', () => full.received.split('HTTP/1.1 200 OK').length === 5);
  });
});
