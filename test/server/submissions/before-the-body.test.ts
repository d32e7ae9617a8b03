import { describe, expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';

const server = sharedServer({
  token: 'secret',
  flags: ['--max-jobs', '1', '--max-upload-size', '1MiB', '--max-file-size', '1MiB'],
});
const { api } = server;

const authorized = 'Authorization: Bearer secret';
const tooLong = `Content-Length: ${3 * 2 ** 20}`;

interface Answer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** The answer to the head of a request, without a byte of the body. */
async function answerToHead(url: string, head: Uint8Array): Promise<Answer> {
  await using connection = await RawConnection.open(url);
  connection.write(head);
  return await connection.answer();
}

/** Sent with and without `Expect: 100-continue`; neither may get a 100. */
async function refusedUnread(appPath: string, ...headers: string[]): Promise<[number, string]> {
  const plain = await answerToHead(server.url, submissionHead(appPath, ...headers));
  const asking = await answerToHead(server.url, submissionHead(appPath, ...headers, 'Expect: 100-continue'));
  for (const { head } of [plain, asking]) expect(head).not.toContain('100 Continue');
  expect(asking.status).toBe(plain.status);
  expect(asking.body).toBe(plain.body);
  return [plain.status, (JSON.parse(plain.body) as { detail: string }).detail];
}

describe('before a byte of the body is read', () => {
  test('A submission is refused for each reason, in this order', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    // At first everything is wrong; then one mistake after the other is corrected.
    expect(await refusedUnread('/apps/nobody/infer', tooLong)).toEqual([401, 'Missing bearer token']);
    expect(await refusedUnread('/apps/nobody/infer', tooLong, 'Authorization: Bearer wrong')).toEqual([
      401,
      'Invalid token',
    ]);
    expect(await refusedUnread('/apps/nobody/infer', tooLong, authorized)).toEqual([
      404,
      "Unknown app 'nobody'",
    ]);
    expect(await refusedUnread('/apps/probe/infer', tooLong, authorized)).toEqual([
      429,
      expect.stringMatching(/^Server busy/),
    ]);
    gate.open();
    await api.ended(id);
    expect((await refusedUnread('/apps/probe/infer', tooLong, authorized))[0]).toBe(413);
    expect(server.jobDirectories()).toEqual([id]);
  });

  test('A client that sends Expect: 100-continue gets a 100 after these checks', async () => {
    const body = multipart([filePart('inputs', 'a.nii')]);
    await using connection = await RawConnection.open(server.url);
    const headers = [authorized, `Content-Length: ${body.length}`, 'Expect: 100-continue'];
    connection.write(submissionHead('/apps/probe/infer', ...headers));
    await connection.until(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    connection.write(body);
    await connection.until(/HTTP\/1\.1 200 OK/);
  });

  test('A refused client may use its connection again', async () => {
    const body = multipart([filePart('inputs', 'a.nii')]);
    await using connection = await RawConnection.open(server.url);
    const head = submissionHead('/apps/nobody/infer', authorized, `Content-Length: ${body.length}`);
    connection.write(Buffer.concat([head, body]));
    await connection.until(/Unknown app/);
    connection.write(`GET /health HTTP/1.1\r\nHost: localhost\r\n${authorized}\r\n\r\n`);
    await connection.until(/\{"status":"ok"\}$/);
  });
});
