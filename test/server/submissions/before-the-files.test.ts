import { describe, expect, test } from 'vitest';
import {
  boundary,
  fieldPart,
  filePart,
  multipart,
  type RawPart,
  sizedPart,
  submissionHead,
} from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, type TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const gibibyte = 2 ** 30;

/** The parts, and after them only the head of a file: none of its bytes. */
function upToTheFile(parts: readonly RawPart[], { headers }: RawPart): Buffer {
  const head = [`--${boundary}`, ...headers, '', ''].join('\r\n');
  return Buffer.concat([multipart(parts, { close: '' }), Buffer.from(head)]);
}

/** The answer to a submission that pauses after the head of its first file until it has the answer. */
async function answerBeforeTheFile(
  server: TestServer,
  parts: readonly RawPart[],
  { operation = 'infer', file = filePart('inputs', 'ct.nii') } = {},
): Promise<[number, string]> {
  await using connection = await RawConnection.open(server.url);
  connection.write(submissionHead(`/apps/probe/${operation}`, `Content-Length: ${gibibyte}`));
  connection.write(upToTheFile(parts, file));
  const { status, body } = await connection.answer();
  await until('nothing of the upload is left', () => server.jobDirectories().length === 0);
  return [status, (JSON.parse(body) as { detail: string }).detail];
}

describe('a wrong field before the first file', () => {
  const server = sharedServer({ gpus: 2 });

  test.for([
    ['tta', 'many'],
    ['tta', '-1'],
    ['epochs', '3'],
    ['gpu', 'x'],
    ['prediction_file', '../x.yml'],
    ['ensemble_models', '-x'],
    ['uncertainty', 'maybe'],
    ['inputs', 'a text'],
    ['inputs_groups', '1,x'],
    ['inputs_groups', '0,2'],
    ['inputs_groups', '20001'],
    ['options', '{'],
    ['options', '{"surprise":1}'],
    ['options', '{"patch_size":[]}'],
    ['patch_size', '96'],
  ] as const)('A wrong field is refused before a byte of the first file: %s=%s', async ([name, text]) => {
    const [status, detail] = await answerBeforeTheFile(server, [
      fieldPart('quiet', 'true'),
      fieldPart(name, text),
    ]);
    expect(status).toBe(422);
    expect(detail).toContain(text.includes('patch_size') ? 'patch_size' : `'${name}'`);
  });

  test('A wrong field before the first file is refused if it asks for a GPU that the server does not have', async () => {
    const refused = await answerBeforeTheFile(server, [fieldPart('gpu', '0,5')]);
    expect(refused).toEqual([400, 'Unknown GPU id(s): 5; this server has: 0, 1']);
  });

  test("A wrong field before the first file is refused if the file's field belongs to another operation, or takes text", async () => {
    const refused = (field: string) => answerBeforeTheFile(server, [], { file: filePart(field, 'ct.nii') });
    expect(await refused('gt')).toEqual([422, expect.stringContaining("'gt' belongs to evaluate")]);
    for (const name of ['tta', 'options', 'inputs_groups']) {
      expect(await refused(name)).toEqual([422, expect.stringContaining(`'${name}' must be sent as text`)]);
    }
  });

  test('A wrong field before the first file is answered although the client keeps sending, and the connection can be used again', async () => {
    const file = filePart('inputs', 'ct.nii', Buffer.alloc(3_000_000));
    const body = multipart([fieldPart('tta', 'x'), file]);
    await using connection = await RawConnection.open(server.url);
    connection.write(submissionHead('/apps/probe/infer', `Content-Length: ${body.length}`));
    connection.write(body.subarray(0, 1000));
    expect((await connection.answer()).status).toBe(422);
    connection.write(body.subarray(1000));
    connection.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await connection.until(/\{"status":"ok"\}$/);
  });
});

describe('a server without GPUs', () => {
  const server = sharedServer();

  test('A server without GPUs refuses a submission that asks for one before its file is sent', async () => {
    const [status, detail] = await answerBeforeTheFile(server, [fieldPart('gpu', '0')]);
    expect([status, detail]).toEqual([503, expect.stringContaining('has no GPU')]);
  });
});

describe('fields after the files', () => {
  const server = sharedServer({ gpus: 2 });
  const send = (parts: readonly RawPart[]) =>
    server.api.fetch('/apps/probe/infer', {
      method: 'POST',
      body: multipart(parts),
      headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` },
    });

  test('Fields after the files are accepted, and checked at the end', async () => {
    const files = [filePart('inputs', 'a.nii'), filePart('inputs', 'b.nii')];
    expect((await send([...files, fieldPart('tta', '3'), fieldPart('inputs_groups', '1,1')])).status).toBe(
      200,
    );
    expect((await send([...files, fieldPart('tta', 'x')])).status).toBe(422);
    expect((await send([...files, fieldPart('gpu', '7')])).status).toBe(400);
    expect((await send([...files, fieldPart('inputs_groups', '1')])).status).toBe(422);
    expect((await send([fieldPart('tta', '3'), ...files, fieldPart('tta', '4')])).status).toBe(422);
  });

  test('Fields between the files are accepted, and a list among them is read completely', async () => {
    const parts = [
      fieldPart('inputs_groups', '1'),
      filePart('inputs', 'a.nii'),
      fieldPart('inputs_groups', '1'),
      filePart('inputs', 'b.nii'),
    ];
    expect((await send(parts)).status).toBe(200);
  });
});

describe('a file that states its length', () => {
  const server = sharedServer({ flags: ['--max-file-size', '1MiB', '--max-upload-size', '2GiB'] });

  test('A file that states its length is refused before its first byte if it is too large', async () => {
    const file = sizedPart(filePart('inputs', 'ct.nii'), gibibyte);
    const [status, detail] = await answerBeforeTheFile(server, [], { file });
    expect(status, detail).toBe(413);
    expect(detail).toContain("'ct.nii' is larger than the limit of 1.0 MiB");
  });
});
