import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { type FormValues, file } from '../../support/form.mjs';
import { filePart, multipart, multipartType, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({ flags: ['--max-file-size', '1000', '--max-upload-size', '2500'] });
const { api } = server;

const sized = (...sizes: number[]): FormValues => ({
  inputs: sizes.map((size, index) => file(`${index}.nii`, 'x'.repeat(size))),
});

async function nothingIsLeft(): Promise<void> {
  const { jobs } = await api.json<{ jobs: unknown[] }>('/jobs');
  await until('the upload is removed', () => server.jobDirectories().length === jobs.length);
}

/** Sends a body in chunks, without a length, as long as the server reads it. */
async function chunked(body: Buffer): Promise<{ status: number; body: string }> {
  await using connection = await RawConnection.open(server.url);
  connection.write(submissionHead('/apps/probe/infer', 'Transfer-Encoding: chunked'));
  for (let start = 0; start < body.length; start += 500) {
    const piece = body.subarray(start, start + 500);
    connection.write(
      Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]),
    );
  }
  connection.write('0\r\n\r\n');
  return await connection.answer();
}

describe('a file', () => {
  test('A file may have as many bytes as the limit, and not one more', async () => {
    await api.accepted('infer', sized(1000));
    expect(await api.refused('infer', sized(1001))).toEqual([413, expect.stringContaining('0.nii')]);
    expect(await api.refused('infer', sized(10, 1001))).toEqual([413, expect.stringContaining('1.nii')]);
    await nothingIsLeft();
  });

  test('A file is limited in every field', async () => {
    expect((await api.refused('fine_tune', { dataset: file('d.zip', 'x'.repeat(1001)) }))[0]).toBe(413);
    expect((await api.refused('infer', { ...sized(1), unknown: file('u', 'x'.repeat(1001)) }))[0]).toBe(413);
  });

  test('A file is also limited without a stated length', async () => {
    const part = (size: number) => multipart([filePart('inputs', 'a.nii', 'x'.repeat(size))]);
    expect((await chunked(part(1000))).status).toBe(200);
    const { status, body } = await chunked(part(1001));
    expect([status, JSON.parse(body)]).toEqual([413, { detail: expect.stringContaining('a.nii') }]);
    await nothingIsLeft();
  });
});

describe('an upload', () => {
  test('An upload may have as many bytes in all as the limit, and not one more', async () => {
    await api.accepted('infer', sized(1000, 1000, 500));
    expect((await api.refused('infer', sized(1000, 1000, 501)))[0]).toBe(413);
    await nothingIsLeft();
  });

  test('An upload is also limited without a stated length', async () => {
    const parts = [1000, 1000, 501].map((size, index) =>
      filePart('inputs', `${index}.nii`, 'x'.repeat(size)),
    );
    expect((await chunked(multipart(parts))).status).toBe(413);
    await nothingIsLeft();
  });

  test('An upload that grows far past the limit still gets its answer', async () => {
    const body = multipart([filePart('inputs', 'a.nii', Buffer.alloc(20 * 2 ** 20))]);
    async function* pieces() {
      for (let start = 0; start < body.length; start += 2 ** 16) yield body.subarray(start, start + 2 ** 16);
    }
    const response = await api.fetch('/apps/probe/infer', {
      method: 'POST',
      headers: { 'Content-Type': multipartType },
      body: ReadableStream.from(pieces()),
      duplex: 'half',
    } as RequestInit);
    expect((await refusal(response))[0]).toBe(413);
    await nothingIsLeft();
  });
});
