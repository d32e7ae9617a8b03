import { describe, expect, test } from 'vitest';
import * as api from '../../../src/client/connection/api.js';
import { checkAppId, checkJobId } from '../../../src/client/connection/identifiers.js';
import {
  appendUpload,
  beginUpload,
  type UploadBytes,
  uploadState,
} from '../../../src/client/connection/uploads.js';
import { HttpError, UsageError } from '../../../src/client/errors.js';
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

test.each<[string, Question, unknown]>([
  ['GET /health', (connection) => api.health(connection, 5), { status: 'ok' }],
  ['GET /available_devices', api.devices, { devices_index: [1], devices_name: ['A'] }],
  ['GET /ram', api.ram, { used_gb: 1, total_gb: 2 }],
  ['GET /repo_apps_list', api.appList, { apps: ['a', 'b/c'], loaded: ['a'] }],
  ['POST /repo_apps_refresh', api.refresh, { refreshing: true, apps: [] }],
  ['GET /repo_apps_refresh', api.refreshed, { refreshing: false, apps: [] }],
  ['GET /drain', api.drainState, { draining: false, active: 2 }],
  ['POST /drain', (connection) => api.setDraining(connection, true), { draining: true, active: 0 }],
  ['DELETE /drain', (connection) => api.setDraining(connection, false), { draining: false, active: 0 }],
  ['DELETE /jobs/ab', (connection) => api.remove(connection, 'ab'), { job_id: 'ab', status: 'removed' }],
])('%s is asked, and what the server answers is given', async (asked, question, answer) => {
  const { end, received } = await ask(question, (_, response) => json(response, 200, answer));
  expect([end, received.map(({ method, url }) => `${method} ${url}`)]).toEqual([answer, [asked]]);
});

test('The limits of a server are those that it tells', async () => {
  const told = { version: '1', max_file_size: 5, require_deidentified: true, uploads: { keep: 60 } };
  const { end } = await ask(api.limits, (_, response) => json(response, 200, told));
  const unknown = {
    max_upload_size: null,
    max_dataset_size: null,
    max_jobs: null,
    max_gpus: null,
    max_kept: null,
  };
  const times = { grace: null, max_keep: null, max_run_time: null, max_fine_tune_time: null };
  expect(end).toEqual({ ...unknown, ...times, ...told });
});

test('A failure is told as it is, where a refusal has another meaning', async () => {
  for (const question of [
    api.jobs,
    api.drainState,
    (each: Parameters<typeof api.jobs>[0]) => api.remove(each, 'ab'),
  ])
    expect(
      (await ask(question, (_, response) => json(response, 500, { detail: 'It failed' }))).end,
    ).toMatchObject({
      message: 'It failed',
      status: 500,
    });
  const page: Handler = (_, response) =>
    void response.writeHead(404, { 'content-type': 'text/html' }).end('<p>');
  const { end, url } = await ask(api.jobs, page);
  expect(end).toMatchObject({
    message: `${url} answered with HTTP 404, and not as the service does: is that its address?`,
  });
});

test('A number that is too small, and an unknown kind, are named', async () => {
  const told = async (answer: unknown) =>
    (await ask(api.ram, (_, response) => json(response, 200, answer))).end as Error;
  expect((await told({ used_gb: -1, total_gb: 2 })).message).toMatch(
    / answered \/ram with something that is not a use of memory: used_gb is smaller than 0; is it a remote-app server\?$/,
  );
  expect((await told({ used_gb: [], total_gb: 2 })).message).toContain('used_gb is a list, not a number');
  const drain = async (answer: unknown) =>
    (await ask(api.drainState, (_, response) => json(response, 200, answer))).end as Error;
  expect((await drain({ draining: 'x', active: 0 })).message).toContain("draining is 'x', not true or false");
  const list = async (answer: unknown) =>
    (await ask(api.devices, (_, response) => json(response, 200, answer))).end as Error;
  expect((await list({ devices_index: {}, devices_name: [] })).message).toContain(
    'devices_index is an object, not a list',
  );
  expect((await list({ devices_index: Array(257).fill(0), devices_name: [] })).message).toContain(
    'devices_index has more than 256 entries',
  );
});

test('The time is that of the server, of which a proxy that answers in its place says nothing', async () => {
  const ahead = 3_600_000;
  const dates = [new Date(Date.now() + ahead).toUTCString(), new Date(0).toUTCString(), 'no date'];
  const statuses = [200, 502, 404];
  await using server = await ScriptedServer.start((_, response) => {
    response.sendDate = false;
    json(response, statuses.shift() ?? 200, { status: 'ok' }, { date: dates.shift() });
  });
  await using connection = connectTo(server.url, { patience: 7 });
  expect([connection.isMet, connection.longestOutage, connection.readTimeout]).toEqual([false, 7, 5]);
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

test('Identifiers are parts of a path, and nothing else', () => {
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
  const name = `sha256 ${Buffer.from(sha256).toString('base64')}`;

  test('An upload is begun, also with its bytes, and its offset is what the server says', async () => {
    const begun = answers(201, { 'Upload-Offset': '5' });
    const empty = await ask((connection) => beginUpload(connection, { sha256, size: 9 }, signal), begun);
    expect([empty.end, shown(empty)]).toEqual([
      5,
      [['POST', '/uploads', '', '1.0.0', undefined, '0', '9', undefined, name]],
    ]);
    const first = await ask(
      (connection) => beginUpload(connection, { sha256, size: 5 }, signal, bytes('12345')),
      begun,
    );
    const stream = 'application/offset+octet-stream';
    expect([first.end, shown(first)]).toEqual([
      5,
      [['POST', '/uploads', '12345', '1.0.0', stream, '5', '5', undefined, name]],
    ]);
  });

  test('An upload goes on behind what is there, and all of it has to be there then', async () => {
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
        `${url} took an upload to byte 5, and says ${says}; is it a remote-app server?`,
      );
    }
  });

  test('An upload is asked for, and is not known to every server', async () => {
    const state = (status: number, headers: object = {}) =>
      ask((connection) => uploadState(connection, sha256, signal), answers(status, headers));
    const known = await state(200, { 'Upload-Offset': '3', 'Upload-Length': '7' });
    expect([known.end, shown(known)]).toEqual([
      { offset: 3, length: 7 },
      [['HEAD', path, '', '1.0.0', undefined, undefined, undefined, undefined, undefined]],
    ]);
    expect((await state(404)).end).toBeNull();
    expect((await state(403)).end).toBeInstanceOf(HttpError);
    for (const offset of ['x', '-1', '1'.repeat(16)]) {
      const { end, url } = await state(200, { 'Upload-Offset': offset, 'Upload-Length': '7' });
      expect((end as Error).message).toBe(
        `${url} answered ${path} without the header Upload-Offset; is it a remote-app server?`,
      );
    }
  });
});
