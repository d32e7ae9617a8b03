import { describe, expect, test } from 'vitest';
import type { JobEnvelope } from '../../../src/contract/job.js';
import { refusal } from '../../support/api.js';
import {
  boundary,
  disposition,
  fieldPart,
  filePart,
  multipart,
  multipartType,
  type RawPart,
  submissionHead,
} from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer();
const { api } = server;

const post = (body: Uint8Array<ArrayBuffer> | string, type = multipartType) =>
  api.fetch('/apps/probe/infer', { method: 'POST', body, headers: { 'Content-Type': type } });

/** The files that the app got for a body of these parts: names and contents, by flag. */
async function received(parts: readonly RawPart[]): Promise<Record<string, [string, unknown][]>> {
  const response = await post(multipart(parts));
  const body = await response.text();
  expect(response.status, body).toBe(200);
  const { job_id: id } = JSON.parse(body) as JobEnvelope;
  await api.ended(id);
  const { files } = await api.recorded(id);
  const plain = (path: string) => path.slice(path.lastIndexOf('/') + 1);
  return Object.fromEntries(
    Object.entries(files).map(([flag, groups]) => [
      flag,
      groups.flat().map(([path, content]): [string, unknown] => [plain(path), content]),
    ]),
  );
}

describe('a multipart body', () => {
  test("A multipart body may leave out a file's Content-Type, as Python's requests_toolbelt does", async () => {
    const headers = [disposition('name="inputs"; filename="a.nii"')];
    expect(await received([{ headers, content: 'A' }])).toEqual({ '--inputs': [['a.nii', 'A']] });
  });

  test('A multipart body may have a Content-Type for a field: only a file name makes a part a file', async () => {
    const tta = {
      ...fieldPart('tta', '3'),
      headers: [disposition('name="tta"'), 'Content-Type: text/plain; charset=utf-8'],
    };
    const response = await post(multipart([filePart('inputs', 'a.nii'), tta]));
    expect(response.status).toBe(200);
  });

  test('A multipart body may name a file by filename*, as .NET and Java do', async () => {
    const named = (parameters: string) => ({
      headers: [disposition(`name=inputs; ${parameters}`)],
      content: 'A',
    });
    const parts = [
      named("filename*=utf-8''Sch%C3%A4del%20%F0%9F%A7%A0.nii"),
      named(`filename="=?utf-8?B?U2Now6RkZWwubmlp?="; filename*=utf-8''Sch%C3%A4del2.nii`),
    ];
    expect(await received(parts)).toEqual({
      '--inputs': [
        ['Schädel 🧠.nii', 'A'],
        ['Schädel2.nii', 'A'],
      ],
    });
  });

  test('A multipart body may have an optional file field that a browser sends empty: it is absent', async () => {
    const parts = ['mask', 'gt', 'tta', 'unknown'].map((name) => filePart(name, '', ''));
    expect(await received([filePart('mask', '', ''), filePart('inputs', 'a.nii', 'A'), ...parts])).toEqual({
      '--inputs': [['a.nii', 'A']],
    });
    expect(await refusal(await post(multipart([filePart('inputs', '', '')])))).toEqual([
      422,
      "Field 'inputs' is required: send at least one file",
    ]);
    expect(await refusal(await post(multipart([filePart('inputs', '', 'A')])))).toEqual([
      422,
      "Field 'inputs' has a file without a name: send its name, or leave the field out",
    ]);
  });

  test('A multipart body keeps a name, wherever the network splits it', async () => {
    const body = multipart([filePart('inputs', 'é頭🧠.nii', 'A'), fieldPart('prediction_file', 'Größe.yml')]);
    const bytes = [...body].map((_, index) => body.subarray(index, index + 1));
    await using connection = await RawConnection.open(server.url);
    const head = submissionHead('/apps/probe/infer', `Content-Length: ${body.length}`);
    connection.write(head);
    for (const byte of bytes) await new Promise((resolve) => connection.socket.write(byte, resolve));
    const { status, body: text } = await connection.answer();
    expect(status, text).toBe(200);
    const { job_id: id } = JSON.parse(text) as JobEnvelope;
    await api.ended(id);
    const { argv } = await api.recorded(id);
    expect(argv.some((argument) => argument.endsWith('/é頭🧠.nii'))).toBe(true);
    expect(argv).toContain('Größe.yml');
  });

  test('A multipart body keeps every byte of a file', async () => {
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256));
    const tricky = Buffer.concat([bytes, Buffer.from(`\r\n--${boundary.slice(0, -1)}\r\n--\r\n`)]);
    const { '--inputs': files } = await received([filePart('inputs', 'a.raw', tricky)]);
    expect(files?.[0]?.[1]).toBe(tricky.toString('latin1'));
  });

  test.for([
    ['carriage returns', '\r'.repeat(3_000_000)],
    ['labels of 13', '\r\0'.repeat(1_500_000)],
    ['what looks like boundaries', `\r\n--${boundary}\rX\r\n--${boundary}-X\r`.repeat(50_000)],
  ])('A multipart body keeps every byte of a file of %s', async ([, content = '']) => {
    const { '--inputs': files } = await received([filePart('inputs', 'a.raw', content)]);
    expect(files?.[0]?.[1] === content).toBe(true);
  });

  test.for([1, 100, 5000])('A multipart body keeps each byte of a file in chunks of %d', async (size) => {
    const content = Buffer.from(Array.from({ length: 30_000 }, (_, index) => (index * 7) % 256));
    const body = multipart([filePart('inputs', 'a.raw', content), filePart('inputs', 'b.raw', 'B')]);
    const chunks: Buffer[] = [];
    for (let at = 0; at < body.length; at += size) {
      const chunk = body.subarray(at, at + size);
      chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
    }
    await using connection = await RawConnection.open(server.url);
    connection.write(submissionHead('/apps/probe/infer', 'Transfer-Encoding: chunked'));
    connection.write(Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')]));
    const { status, body: text } = await connection.answer();
    expect(status, text).toBe(200);
    const { job_id: id } = JSON.parse(text) as JobEnvelope;
    await api.ended(id);
    const { files } = await api.recorded(id);
    expect(files['--inputs']?.flat().map(([, bytes]) => bytes)).toEqual([content.toString('latin1'), 'B']);
  });

  test('A multipart body may hold an empty file', async () => {
    expect(await received([filePart('inputs', 'empty.nii', '')])).toEqual({
      '--inputs': [['empty.nii', '']],
    });
  });
});

describe('a body that is not a form', () => {
  const isRefused = async (response: Response, status: number, detail: string) => {
    expect([response.status, await response.json()]).toEqual([status, { detail }]);
    await until('nothing of it is left', async () => {
      const { jobs } = await api.json<{ jobs: unknown[] }>('/jobs');
      return server.jobDirectories().length === jobs.length;
    });
  };

  test('A body that is not a form is refused if it has another type', async () => {
    const detail = 'The body must be multipart/form-data, or application/json';
    await isRefused(await post('<x/>', 'application/xml'), 415, detail);
    await isRefused(await post('a=b', 'application/x-www-form-urlencoded'), 415, detail);
    await isRefused(await api.fetch('/apps/probe/infer', { method: 'POST' }), 415, detail);
  });

  test("A body that is not a form is refused with the server's own message rather than the parser's", async () => {
    const body = multipart([filePart('inputs', 'a.nii', 'x'.repeat(1000))]);
    const ended = 'The body ended before the form was complete';
    for (const length of [10, 60, body.indexOf('\r\nContent-Type') + 2, body.length - 500, body.length - 5]) {
      await isRefused(await post(body.subarray(0, length)), 400, ended);
    }
    const unbounded = 'The body is not a multipart form: the Content-Type names no boundary';
    for (const type of ['multipart/form-data', 'multipart/form-data; boundary='])
      await isRefused(await post(body, type), 400, unbounded);
    const malformed = multipart([{ headers: ['No header'], content: 'x' }]);
    const unformed =
      'The body is not a multipart form: a boundary, or a header of a part, is not well formed';
    for (const body of [malformed, 'nothing like a form']) await isRefused(await post(body), 400, unformed);
  });

  test('A body that is not a form is refused if its names or texts are not UTF-8', async () => {
    const bad = Buffer.from('name="inputs"; filename="\xff.nii"', 'latin1');
    const body = multipart([filePart('inputs', 'MARK', 'A')]);
    const at = body.indexOf('name="inputs"');
    const end = body.indexOf('MARK"') + 5;
    await isRefused(
      await post(Buffer.concat([body.subarray(0, at), bad, body.subarray(end)])),
      400,
      'A file name is not UTF-8',
    );
  });
});

describe('an upload that breaks off', () => {
  test('An upload that breaks off leaves no directory, no slot and no open file', async () => {
    const before = (await api.json<{ jobs: unknown[] }>('/jobs')).jobs.length;
    const length = 40 * 2 ** 20;
    for (let round = 0; round < 40; round += 1) {
      await using connection = await RawConnection.open(server.url);
      connection.write(submissionHead('/apps/probe/infer', `Content-Length: ${length}`));
      const start = multipart([filePart('inputs', 'a.nii', Buffer.alloc(round * 50_000, 7))]);
      connection.write(start.subarray(0, start.length - 60));
      // From the beginning of the upload to the middle of the file.
      await until('the upload has begun', () => server.jobDirectories().length > before);
      await connection.destroy();
    }
    await until('the directories are gone', () => server.jobDirectories().length === before);
    await until('the files are closed', () =>
      server.openFiles().every((file) => !file.includes('/Incoming/')),
    );
    // There are 32 slots, and 40 uploads broke off.
    await api.accepted('infer', { inputs: new File(['x'], 'a.nii') });
  });
});
