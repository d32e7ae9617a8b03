import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import type { JobEnvelope } from '../../../src/contract/job.js';
import {
  boundary,
  disposition,
  fieldPart,
  filePart,
  multipart,
  multipartType,
  type RawPart,
  sizedPart,
  submissionHead,
} from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({ flags: ['--max-upload-size', '1MiB', '--max-file-size', '1MiB'] });
const { api } = server;
const mebibyte = 2 ** 20;
const inputs = filePart('inputs', 'a.nii');
const named = disposition('name="inputs"; filename="a.nii"');

const post = (body: Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
  api.fetch('/apps/probe/infer', {
    method: 'POST',
    body,
    headers: { 'Content-Type': multipartType, ...headers },
  });

async function refused(response: Response): Promise<[number, string]> {
  const { detail } = (await response.json()) as { detail: string };
  return [response.status, detail];
}

/** Sends pieces in chunks, without a length, until there is an answer. */
async function stream(pieces: Iterable<Buffer>): Promise<{ status: number; body: string }> {
  await using connection = await RawConnection.open(server.url);
  connection.write(submissionHead('/apps/probe/infer', 'Transfer-Encoding: chunked'));
  for (const piece of pieces) {
    if (connection.received !== '' || connection.isClosed) break;
    connection.write(`${piece.length.toString(16)}\r\n`);
    connection.write(piece);
    await new Promise((resolve) => connection.socket.write('\r\n', resolve));
  }
  if (connection.received === '') connection.write('0\r\n\r\n');
  return await connection.answer();
}

function* repeated(head: string | Buffer, piece: Buffer, count: number): Generator<Buffer> {
  yield Buffer.from(head as string);
  for (let sent = 0; sent < count; sent += 1) yield piece;
}

const xs = Buffer.alloc(mebibyte, 'x');

afterEach(async () => {
  expect(await api.json('/health')).toEqual({ status: 'ok' });
  await until('nothing of a refused form is left', async () => {
    const { jobs } = await api.json<{ jobs: unknown[] }>('/jobs');
    return server.jobDirectories().length === jobs.length;
  });
  expect(server.stderr).not.toMatch(/uncaught error|MaxListeners/);
});

describe('bounds on the bytes of a request', () => {
  test('The bytes of a request are bounded in the headers of a part, whose name or value never ends', async () => {
    for (const start of ['Content-Disposition: form-data; name="', 'X']) {
      const head = `--${boundary}\r\n${start}`;
      const { status, body } = await stream(repeated(head, xs, 30));
      expect([status, JSON.parse(body)]).toEqual([400, { detail: expect.stringContaining('headers') }]);
    }
  });

  test('The bytes of a request are bounded in the number of headers of a part', async () => {
    const headers = [named, ...Array.from({ length: 100 }, () => 'X-Y: z')];
    const [status, detail] = await refused(await post(multipart([{ ...inputs, headers }])));
    expect([status, detail]).toEqual([400, expect.stringContaining('headers')]);
  });

  test('The bytes of a request are bounded after the last boundary', async () => {
    expect((await stream(repeated(multipart([inputs]), xs, 30))).status).toBe(413);
  });

  test('The bytes of a request are bounded before the first boundary', async () => {
    expect((await stream(repeated('before', xs, 30))).status).toBe(400);
  });

  test('The bytes of a request are bounded in texts, all of them together', async () => {
    const field = fieldPart('surprise', 'x'.repeat(300_000));
    expect((await refused(await post(multipart([inputs, field, field, field, field]))))[0]).toBe(413);
  });

  test('The bytes of a request are bounded in the number of fields', async () => {
    const fields = Array.from({ length: 1001 }, (_, index) => fieldPart(`f${index}`, ''));
    expect(await refused(await post(multipart([inputs, ...fields])))).toEqual([
      413,
      expect.stringContaining('1000 fields'),
    ]);
  });

  test('An upload of the largest size is accepted, whatever the names of its parts', async () => {
    const parts = Array.from({ length: 1024 }, (_, index) =>
      filePart('inputs', `${'n'.repeat(200)}${index}`, Buffer.alloc(1024, 7)),
    );
    expect((await post(multipart(parts))).status).toBe(200);
    const whole = filePart('inputs', 'a', Buffer.alloc(mebibyte, 7));
    expect((await post(multipart([whole, filePart('inputs', 'b', 'x')]))).status).toBe(413);
  });
});

describe('a malformed or unusual form', () => {
  const odd = async (parts: readonly RawPart[], headers?: Record<string, string>) =>
    refused(await post(multipart(parts), headers));

  test('A form with an invalid or overlong boundary is refused', async () => {
    for (const type of [
      'multipart/form-data; boundary=',
      'multipart/form-data; boundary=""',
      `multipart/form-data; boundary=${'b'.repeat(8000)}`,
    ]) {
      expect((await odd([inputs], { 'Content-Type': type }))[0]).toBe(400);
    }
  });

  test('A compressed form is refused', async () => {
    const response = await post(Buffer.from(gzipSync(multipart([inputs]))), { 'Content-Encoding': 'gzip' });
    expect(await refused(response)).toEqual([415, expect.stringContaining('Content-Encoding')]);
  });

  test('A form in an unsupported transfer encoding is refused before its first byte', async () => {
    await using connection = await RawConnection.open(server.url);
    connection.write(submissionHead('/apps/probe/infer', 'Transfer-Encoding: gzip, chunked'));
    const { status, body } = await connection.answer();
    expect([status, body]).toEqual([415, expect.stringContaining('Transfer-Encoding')]);
  });

  test('A form that is cut off after a boundary, where another file may be missing, is refused', async () => {
    const whole = multipart([inputs, inputs]).toString('latin1');
    const second = whole.lastIndexOf('\r\nContent-Disposition');
    for (const cut of [whole.slice(0, second + 2), whole.slice(0, second), whole.slice(0, -4)]) {
      expect(await refused(await post(Buffer.from(cut, 'latin1')))).toEqual([
        400,
        'The body ended before the form was complete',
      ]);
    }
  });

  test('A form with a file whose length differs from the stated one is refused', async () => {
    for (const size of [0, 5, 7, 2000]) {
      const part = sizedPart(inputs, size);
      expect(await odd([part, inputs])).toEqual([
        400,
        expect.stringMatching(size === 2000 ? /form was complete/ : `the ${size} bytes`),
      ]);
    }
  });

  test('A form without a body is refused', async () => {
    await using connection = await RawConnection.open(server.url);
    connection.write(submissionHead('/apps/probe/infer'));
    const { status, body } = await connection.answer();
    expect([status, body]).toEqual([400, expect.stringContaining('has no body')]);
  });

  test('A form with an unnamed part, or one whose name is too long, is refused', async () => {
    expect(await odd([inputs, { headers: [disposition('x=y')], content: '' }])).toEqual([
      400,
      expect.stringContaining('no name'),
    ]);
    expect((await odd([inputs, fieldPart('n'.repeat(5000), '')]))[0]).toBe(422);
    const [status, detail] = await odd([filePart('inputs', 'n'.repeat(5000))]);
    expect(status).toBe(422);
    expect(detail.length).toBeLessThan(400);
  });

  test.for(['quoted-printable', 'base64'])('A form with content in %s is refused', async (encoding) => {
    const headers = [named, `Content-Transfer-Encoding: ${encoding}`];
    expect((await odd([inputs, { ...inputs, headers }, inputs]))[0]).toBe(400);
  });

  test('A form with a repeated type or a part inside a part is accepted', async () => {
    const headers = [named, 'Content-Type: multipart/mixed; boundary=x', 'Content-Transfer-Encoding: binary'];
    const part = { ...inputs, headers, content: 'voxels' };
    const { job_id: id } = (await (await post(multipart([part]))).json()) as JobEnvelope;
    await api.ended(id);
    expect((await api.recorded(id)).files['--inputs']?.[0]?.[0]?.[1]).toBe('voxels');
    await using connection = await RawConnection.open(server.url);
    const body = multipart([inputs]);
    const twice = [`Content-Type: ${multipartType}`, `Content-Length: ${body.length}`];
    connection.write(submissionHead('/apps/probe/infer', ...twice));
    connection.write(body);
    expect((await connection.answer()).status).toBe(200);
  });

  test('A form with fields named like the members of every object is accepted', async () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', ''];
    const fields = names.flatMap((name) => Array.from({ length: 150 }, () => fieldPart(name, 'x')));
    const { job_id: id } = (await (await post(multipart([inputs, ...fields]))).json()) as JobEnvelope;
    const { log } = await api.ended(id);
    for (const name of names) expect(log).toContain(`Ignored field '${name}': no operation has it`);
  });

  test('A form with a file name that contains name= or a quotation mark is accepted', async () => {
    const parts = [
      { headers: [disposition('filename="a; name=evil.nii"; name="inputs"')], content: 'A' },
      filePart('inputs', 'say "b".nii', 'B'),
      filePart('inputs', 'c\\"d.nii', 'C'),
      filePart('inputs', '&#1234;.nii', 'D'),
    ];
    const { job_id: id } = (await (await post(multipart(parts))).json()) as JobEnvelope;
    await api.ended(id);
    const { files } = await api.recorded(id);
    expect(files['--inputs']?.[0]?.map(([path]) => path.slice(path.lastIndexOf('/') + 1))).toEqual([
      'a; name=evil.nii',
      'say "b".nii',
      'c"d.nii',
      '&#1234;.nii',
    ]);
  });
});

describe('a malformed URL or request head', () => {
  test.for([
    ['a query of a mebibyte', `GET /jobs?${'q'.repeat(mebibyte)} HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    ['escapes that are none', 'GET /repo_apps/%zz%ff%00 HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['an address that is none', 'GET http://[/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['an unknown expectation', 'GET /jobs HTTP/1.1\r\nHost: localhost\r\nExpect: a miracle\r\n\r\n'],
    ['two lengths', submissionHead('/apps/probe/infer', 'Content-Length: 10', 'Transfer-Encoding: chunked')],
  ])('A malformed URL or request head is refused or answered: %s', async ([, request = '']) => {
    await using connection = await RawConnection.open(server.url);
    connection.write(request);
    const { status, body } = await connection.answer();
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(body).not.toMatch(/ {4}at |\/work|node_modules/);
  });
});
