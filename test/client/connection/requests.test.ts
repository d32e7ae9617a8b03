import { describe, expect, test } from 'vitest';
import { checkAppId, checkJobId } from '../../../src/client/connection/identifiers.js';
import { appendUpload, type UploadBytes } from '../../../src/client/connection/tus.js';
import { UsageError } from '../../../src/client/errors.js';
import { type Handler, json, ScriptedServer } from '../../support/scripted-server.js';
import { connectTo } from '../support/connect.js';

type Question = (connection: ReturnType<typeof connectTo>) => Promise<unknown>;

/** What a server is asked, and what came of it. */
async function ask(question: Question, handler: Handler) {
  await using server = await ScriptedServer.start(handler);
  await using connection = connectTo(server.url);
  const end = await question(connection).catch((error: Error) => error);
  return { end, received: server.received, url: server.url };
}

test('The time is that of the server, and an answer of a proxy does not change it', async () => {
  const ahead = 3_600_000;
  const dates = [new Date(Date.now() + ahead).toUTCString(), new Date(0).toUTCString(), 'no date'];
  const statuses = [200, 502, 404];
  await using server = await ScriptedServer.start((_, response) => {
    response.sendDate = false;
    json(response, statuses.shift() ?? 200, { status: 'ok' }, { date: dates.shift() });
  });
  await using connection = connectTo(server.url, { patience: 7 });
  expect([connection.isMet, connection.longestOutage, connection.readTimeout]).toEqual([false, 7, 30]);
  for (let time = 0; time < 3; time += 1) {
    await (await connection.send('/health')).body.dump();
    expect(connection.isMet).toBe(true);
    expect(Math.abs(connection.now() - Date.now() - ahead)).toBeLessThan(5000);
  }
  await using away = await ScriptedServer.start((_, response) => json(response, 502, {}));
  await using other = connectTo(away.url);
  await (await other.send('/health')).body.dump();
  expect(other.isMet).toBe(false);
});

test('An identifier is always a single part of a path', () => {
  const jobs = ['a', '_x-9', 'A'.repeat(64)];
  expect(jobs.map(checkJobId)).toEqual(jobs);
  for (const id of ['', '-a', 'A'.repeat(65), 'a/b', 'a.b', 'ä', 'a\n'])
    expect(() => checkJobId(id)).toThrow(/ is not the id of a job; 'remote-app jobs' lists them$/);
  const apps = ['a', '...', '.a', 'lab/brain:MR', 'ä\n', '😀', 'x'.repeat(4096)];
  expect(apps.map(checkAppId)).toEqual(apps);
  for (const id of ['', '.', '..', '\ud800', 'x'.repeat(4097)])
    expect(() => checkAppId(id)).toThrow(/ is not the identifier of an app; 'remote-app apps' lists them$/);
  expect(() => checkJobId('')).toThrow(UsageError);
});

describe('an upload', () => {
  const sha256 = 'ab'.repeat(32);
  const path = `/uploads/${sha256}`;
  const { signal } = new AbortController();
  const bytes = (text: string): UploadBytes => ({
    length: text.length,
    stream: (async function* () {
      yield Buffer.from(text);
    })(),
  });
  const answers =
    (status: number, headers: object = {}): Handler =>
    (_, response) =>
      void response
        .writeHead(status, { ...headers })
        .end(status === 404 ? '{"detail":"Unknown upload"}' : '');
  const shown = ({ received }: Awaited<ReturnType<typeof ask>>) =>
    received.map(({ method, url, headers, body }) => {
      const { 'upload-length': length, 'upload-offset': offset, 'upload-metadata': metadata } = headers;
      const told = [headers['tus-resumable'], headers['content-type'], headers['content-length']];
      return [method, url, String(body), ...told, length, offset, metadata];
    });
  const _name = `sha256 ${Buffer.from(sha256).toString('base64')}`;

  test('An upload continues at an offset, and the server must report it as complete at the end', async () => {
    const append = (after: string) =>
      ask(
        (connection) => appendUpload(connection, sha256, 3, bytes('45'), signal),
        answers(204, { 'Upload-Offset': after }),
      );
    const whole = await append('5');
    const stream = 'application/offset+octet-stream';
    expect([whole.end, shown(whole)]).toEqual([
      undefined,
      [['PATCH', path, '45', '1.0.0', stream, '2', undefined, '3', undefined]],
    ]);
    for (const says of ['4', '6']) {
      const { end, url } = await append(says);
      expect((end as Error).message).toBe(
        `${url} was sent an upload up to byte 5, but reports ${says}; is it a remote-app server?`,
      );
    }
  });
});
